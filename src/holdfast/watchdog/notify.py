"""What a process tells the one that supervises it: datagrams to `$NOTIFY_SOCKET`, as sd_notify(3) has them.

When something is worth telling, others know. Where nobody supervises, nothing is sent and nothing fails.
"""

import logging
import os
import socket
from collections.abc import Mapping
from typing import Final

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
# What is told once, such as READY, waits this long where the supervisor has more to read than it can keep.
WAIT_S: Final = 1.0

log = logging.getLogger("holdfast.watchdog")


class Notifier:
    """The way to the supervisor, as the environment names it."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._address = address_of((os.environ if environ is None else environ).get(SOCKET_VARIABLE, ""))
        self._complained = False

    @property
    def supervised(self) -> bool:
        return self._address is not None

    def send(self, *assignments: str, wait_s: float = WAIT_S) -> bool:
        """Tell something; say whether it has left. Trouble is logged once, until something leaves again."""
        if self._address is None:
            return False
        # A socket for each message, as libsystemd has it: nothing is shared with the child of a fork.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as carrier:
            carrier.settimeout(wait_s)
            try:
                carrier.connect(self._address)
                carrier.send("\n".join(assignments).encode())
            except OSError as error:
                if not self._complained:
                    log.warning("cannot tell the supervisor %s: %s", assignments[0].partition("=")[0], error)
                self._complained = True
                return False
        self._complained = False
        return True


def address_of(told: str) -> str | None:
    """Read the name of a socket: a path, or a name that lives in the kernel alone, which is spelled with an @."""
    if not told:
        return None
    if told.startswith("/"):
        return told
    if told.startswith("@") and len(told) > 1:
        return f"\0{told[1:]}"
    log.warning("%s=%s is neither a path nor an abstract name: nobody will be told anything", SOCKET_VARIABLE, told)
    return None


def in_one_line(text: str) -> str:
    """Spell a text so that none of its lines is taken for a message of its own."""
    return " ".join(text.split())
