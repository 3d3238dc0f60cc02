"""A person at a terminal: a shell with job control behind a pseudo terminal, keys to press, and a screen to read.

No expectation lives here.
"""

import os
import pty
import select
import signal
import time

WAIT_S_MAX = 60.0
CTRL_C = "\x03"
CTRL_Z = "\x1a"
CTRL_BACKSLASH = "\x1c"
PROMPT = "ready> "


class Person:
    """Sits at a terminal, with bash running."""

    def __init__(self, cwd, environ=None):
        self.screen = ""
        self._read = 0
        self.pid, self._fd = pty.fork()
        if not self.pid:
            os.chdir(cwd)
            environ = {**os.environ, **(environ or {}), "PS1": PROMPT, "TERM": "dumb"}
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"], environ)
        self.sees(PROMPT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._fd)

    def types(self, text):
        """Type a line."""
        self.presses(text + "\n")

    def presses(self, keys):
        os.write(self._fd, keys.encode())

    def sees(self, text):
        """Read on until this text comes; answers what stood before it."""
        limit = time.monotonic() + WAIT_S_MAX
        while (place := self.screen.find(text, self._read)) < 0:
            ready, _, _ = select.select([self._fd], [], [], max(0, limit - time.monotonic()))
            assert ready, f"{text!r} is not in {self.screen[self._read :]!r}"
            self.screen += os.read(self._fd, 65_536).decode(errors="replace").replace("\r\n", "\n")
        before = self.screen[self._read : place]
        self._read = place + len(text)
        return before
