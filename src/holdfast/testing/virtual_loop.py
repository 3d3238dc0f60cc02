"""An event loop in virtual time: what sleeps in it wakes when the timeline of its world gets there, and no later.

It is asyncio's own loop over a selector that waits in the world. No sockets are for it: clients of the world need none.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

from holdfast.testing.program import Killed, Program
from holdfast.testing.turns import WorldClosed
from holdfast.words import FOREVER, SECOND

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class VirtualSelector(selectors.SelectSelector):
    """Waits in virtual time until the loop has something to do. The real one below only keeps the loop's own pipe."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self._program = program
        self.called = False  # somebody has asked the loop to do something

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        program = self._program
        if timeout is None or timeout > 0:
            # Rounded up, as else the loop would wake before the time and go round in circles.
            until = FOREVER if timeout is None else program.clock() + -int(-timeout * SECOND // 1)
            program.block("select")
            program.wait(lambda: self.called, until, "in its event loop")
        self.called = False
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop of one program."""

    def __init__(self, program: Program) -> None:
        self._virtual = VirtualSelector(program)
        self._program = program
        super().__init__(self._virtual)
        self._clock_resolution = 1 / SECOND

    def time(self) -> float:
        return self._program.clock() / SECOND

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self._virtual.called = True
        return super().call_soon(callback, *args, context=context)

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self._virtual.called = True
        return super().call_soon_threadsafe(callback, *args, context=context)


def run(program: Program, main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as a program of the world, as `asyncio.run` does."""
    runner = asyncio.Runner(loop_factory=lambda: VirtualLoop(program))
    try:
        result = runner.run(main)
    except (Killed, WorldClosed):
        _abandon(runner.get_loop())
        raise
    except BaseException:
        runner.close()
        raise
    runner.close()
    return result


def _abandon(loop: asyncio.AbstractEventLoop) -> None:
    """Let go of the loop of a dead process: nothing in it goes on, and nobody is to be told that it does not."""
    loop.set_exception_handler(lambda _loop, _context: None)
    for task in asyncio.all_tasks(loop):
        coroutine = task.get_coro()
        assert isinstance(coroutine, Coroutine)
        with suppress(Exception, Killed, WorldClosed):  # whatever its way out is, it is not taken
            coroutine.close()
    loop.close()
