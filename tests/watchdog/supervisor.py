"""Whoever supervises a process: a real datagram socket, as systemd has one, and what comes to it.

No expectation lives here.
"""

import os
import socket
from contextlib import contextmanager

WAIT_S_MAX = 30.0


class Supervisor:
    """A socket to which a process tells how it stands."""

    def __init__(self, name):
        self.name = name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(WAIT_S_MAX)
        self._socket.bind(f"\0{name[1:]}" if name.startswith("@") else name)

    def close(self):
        self._socket.close()

    def environ(self, watchdog_s=None, pid=None):
        """Say what a process finds in its environment."""
        found = {"NOTIFY_SOCKET": self.name}
        if watchdog_s is not None:
            found["WATCHDOG_USEC"] = str(int(watchdog_s * 1_000_000))
        return found | ({} if pid is None else {"WATCHDOG_PID": str(pid)})

    def told(self):
        """Wait for a message; answers its lines."""
        return self._socket.recv(65536).decode().split("\n")

    def heard(self):
        """Give all messages that have come; what is sent to a Unix socket is there at once."""
        messages = []
        self._socket.setblocking(False)
        try:
            while True:
                messages.append(self._socket.recv(65536).decode())
        except BlockingIOError:
            return messages
        finally:
            self._socket.settimeout(WAIT_S_MAX)

    def fill(self):
        """Read nothing, and have so much to read that nothing more goes in."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.setblocking(False)
            other.connect(self._socket.getsockname())
            try:
                while True:
                    other.send(b"STATUS=and on and on")
            except BlockingIOError:
                pass


@contextmanager
def supervisor(folder, *, abstract=False):
    """Be there for a while."""
    found = Supervisor(f"@holdfast-test-{os.getpid()}-{folder.name}" if abstract else str(folder / "notify"))
    try:
        yield found
    finally:
        found.close()
