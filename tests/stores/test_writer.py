"""The thread of a shelf: work is done there in order, told in the loop, and finished before the end.

What the work is, is the shelf's business; here it is any work.
"""

import asyncio
import threading
from collections.abc import Callable

import pytest

from holdfast.stores.shelf import Outcome
from holdfast.stores.writer import Writer


def named(name: str, threads: list[str]) -> Callable[[], Outcome]:
    def work() -> Outcome:
        threads.append(threading.current_thread().name)
        return Outcome(fault=name)

    return work


def test_work_is_done_in_its_thread_and_told_in_the_loop_in_order() -> None:
    async def story() -> None:
        writer, threads, told = Writer(), [], asyncio.Queue[tuple[str | None, str]]()
        writer.start(asyncio.get_running_loop())
        for name in ("one", "two", "three"):
            done = lambda outcome: told.put_nowait((outcome.fault, threading.current_thread().name))  # noqa: E731
            writer.run(named(name, threads), done)
        here = threading.current_thread().name
        assert [await told.get() for _ in range(3)] == [("one", here), ("two", here), ("three", here)]
        assert threads == ["holdfast-writer"] * 3
        writer.close()

    asyncio.run(story())


def test_what_is_to_be_done_soon_waits_for_all_that_has_arrived() -> None:
    async def story() -> None:
        writer = Writer()
        writer.start(asyncio.get_running_loop())
        called = asyncio.Event()
        writer.soon(called.set)
        assert not called.is_set()
        await called.wait()
        writer.close()

    asyncio.run(story())


def test_closing_finishes_what_was_given_and_tells_of_it() -> None:
    async def story() -> None:
        writer, threads, told = Writer(), [], []
        writer.start(asyncio.get_running_loop())
        for name in ("one", "two"):
            writer.run(named(name, threads), lambda outcome: told.append(outcome.fault))
        writer.close()
        assert told == ["one", "two"]
        writer.close()
        await asyncio.sleep(0)
        assert told == ["one", "two"]

    asyncio.run(story())


def test_a_writer_that_was_never_started_can_be_closed() -> None:
    Writer().close()


def test_work_that_fails_in_a_way_nobody_expected_is_told_to_the_loop() -> None:
    async def story() -> None:
        loop, writer = asyncio.get_running_loop(), Writer()
        failed = asyncio.Queue[object]()
        loop.set_exception_handler(lambda _loop, context: failed.put_nowait(context["exception"]))
        writer.start(loop)

        def work() -> Outcome:
            raise ZeroDivisionError("no")

        writer.run(work, lambda outcome: None)
        error = await failed.get()
        assert isinstance(error, AssertionError)
        assert isinstance(error.__cause__, ZeroDivisionError)
        writer.close()

    asyncio.run(story())


def test_work_that_fails_at_the_very_end_is_not_kept_silent_about() -> None:
    async def story() -> None:
        writer = Writer()
        writer.start(asyncio.get_running_loop())

        def work() -> Outcome:
            raise ZeroDivisionError("no")

        writer.run(work, lambda outcome: None)
        with pytest.raises(AssertionError, match="nobody expected"):
            writer.close()

    asyncio.run(story())
