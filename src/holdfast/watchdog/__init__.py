"""The watchdog bridge: who hangs is ended by systemd, and sheds its leases whether it is ended or not.

A main loop makes one `Watchdog`, calls its `pet()`, and listens to signals in a `Stop`. Nothing here knows a lock rule.
"""

from holdfast.watchdog.notify import Notifier
from holdfast.watchdog.petting import Watchdog
from holdfast.watchdog.stop import Stop

__all__ = ["Notifier", "Stop", "Watchdog"]
