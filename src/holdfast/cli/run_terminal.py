"""The terminal: which group of processes it listens to, and how that is passed on and taken back.

A command gets the terminal when it first asks for it, so that pipelines and scripts keep theirs until then.
"""

import os
from contextlib import suppress

DEVICE = "/dev/tty"


class Terminal:
    """The terminal of our session; without one, nobody is in its foreground."""

    def __init__(self, device: str = DEVICE) -> None:
        self._fd = -1
        with suppress(OSError):
            self._fd = os.open(device, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)

    def foreground(self) -> int:
        """Tell the group that has the terminal; 0 where there is none."""
        with suppress(OSError):
            if self._fd >= 0:
                return os.tcgetpgrp(self._fd)
        return 0

    def is_ours(self) -> bool:
        """Tell whether keys reach us."""
        return self.foreground() == os.getpgrp()

    def give(self, group: int) -> None:
        """Let keys reach that group. Who is in the background must ignore SIGTTOU for this."""
        with suppress(OSError):  # the terminal or the group may have gone
            os.tcsetpgrp(self._fd, group)

    def take_back(self, group: int) -> bool:
        """Let keys reach us again if they reach that group; answers whether they did."""
        if not self.foreground() == group > 0:
            return False
        self.give(os.getpgrp())
        return True

    def close(self) -> None:
        """Let go of it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
