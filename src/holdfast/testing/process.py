"""A server of ours in a process of its own, on a port of its own, for as long as a block lasts.

It is started as a user would start it; what it is asked is for a test to say.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import holdfast

START_S_MAX = 20.0
STOP_S_MAX = 20.0
LOOK_AGAIN_S = 0.005

# How to be the `holdfast` command, with the event loop that it takes by itself, or as if uvloop were not installed.
PROGRAMS = {
    "uvloop": ["-m", "holdfast"],
    "asyncio": ["-c", "import sys; sys.modules['uvloop'] = None; from holdfast.cli.main import main; main()"],
}

_SERVING = re.compile(r"^.*serving.*$", re.MULTILINE)
_ADDRESS = r"\b%s\"?[=:] ?\[['\"]\[?([^'\"\]]+?)\]?:(\d+)['\"]"

# What every test wants that does not say otherwise: no two servers may want the same port.
_ANY_PORT = {"--line": "127.0.0.1:0", "--http": "127.0.0.1:0"}


class ServerEnded(Exception):
    """A server ended, or did not start in time."""


class ServerProcess:
    """One server; `serve` or `dflockd` is the first argument, and port 0 finds a free one.

    The log must be an empty file, or none yet, in a folder of the caller's, where the server also works.
    """

    def __init__(self, *arguments: str, log: Path, loop: str = "uvloop") -> None:
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command(*arguments, loop=loop), stdout=output, stderr=output, env=environment(), cwd=log.parent
            )
        try:
            serving = self._await_serving()
            self.host, self.port = _address("line", serving)
            self.http_host, self.http_port = _address("http", serving)
            self.grpc_host, self.grpc_port = _address("grpc", serving)
        except ServerEnded:
            self.end()
            raise

    def __enter__(self) -> "ServerProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def stop(self) -> None:
        """Ask for an orderly end."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Let it die on the spot."""
        self.process.kill()
        self.process.wait()

    def wait(self) -> int:
        """Wait for the end; answer the exit code."""
        try:
            return self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired as error:
            raise ServerEnded(f"still running after {STOP_S_MAX:.0f} s: {self.log}") from error

    def end(self) -> None:
        """Make sure that it is over."""
        if self.process.poll() is None:
            self.kill()

    def _await_serving(self) -> str:
        """Wait until it says that it serves; the line says where."""
        limit = time.monotonic() + START_S_MAX
        while time.monotonic() < limit:
            code = self.process.poll()
            if serving := _SERVING.search(self.log):
                return serving[0]
            if code is not None:
                raise ServerEnded(f"exit code {code}: {self.log}")
            time.sleep(LOOK_AGAIN_S)
        raise ServerEnded(f"not serving after {START_S_MAX:.0f} s: {self.log}")


def command(*arguments: str, loop: str = "uvloop") -> list[str]:
    """Spell the command line."""
    return [sys.executable, *PROGRAMS[loop], *arguments, *_ports_for(arguments)]


def _ports_for(arguments: tuple[str, ...]) -> list[str]:
    if arguments[:1] != ("serve",) or not {"--help", "--version"}.isdisjoint(arguments):
        return []
    given = {argument.partition("=")[0] for argument in arguments}
    return [text for flag, value in _ANY_PORT.items() if flag not in given for text in (flag, value)]


def _address(door: str, serving: str) -> tuple[str, int]:
    """Read where a door listens; port 0 is one that does not."""
    found = re.search(_ADDRESS % door, serving)
    return (found[1], int(found[2])) if found is not None else ("", 0)


def environment() -> dict[str, str]:
    """Give the environment for a server: this very package, and none of the settings of whoever runs the tests."""
    ours = str(Path(holdfast.__file__).parent.parent)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HOLDFAST_", "DFLOCKD_", "LOCKSERVER_"))
    }
    return kept | {"PYTHONPATH": ours}
