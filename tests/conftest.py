"""What tests of many folders need: real servers, which are gone when the test is over, and signals that can arrive.

No test and no expectation lives here.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.testing.process import ServerProcess

Start = Callable[..., ServerProcess]


def pytest_configure() -> None:
    """A shell that runs us in the background has us ignore interruptions, and so would all that is started here."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start servers: `start("serve", "--keys-max", "5", loop="asyncio")`; the port is a free one unless it is given."""
    with ExitStack() as servers:
        logs = tmp_path / "logs"
        logs.mkdir()

        def start_one(command: str, *arguments: str, loop: str = "uvloop") -> ServerProcess:
            anywhere = {"serve": ("--line", "127.0.0.1:0"), "dflockd": ("--port", "0")}[command]
            folder = logs / str(len(list(logs.iterdir())))
            folder.mkdir()  # each works in a folder of its own, where its store lies
            # A later flag beats an earlier one.
            return servers.enter_context(ServerProcess(command, *anywhere, *arguments, log=folder / "log", loop=loop))

        yield start_one
