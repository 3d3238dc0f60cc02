"""One body, two ways to wait: an operation is a generator of statements, and a driver runs it, blocking or not.

What the statements are is in the files of the databases; here nobody knows SQL.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


class Clash(Exception):
    """A statement would have made a second row with the key of another."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What to execute: each is a transaction of its own."""

    sql: str
    values: Sequence[Any] = ()


@dataclass(slots=True)
class Result:
    """What came of it."""

    count: int  # rows that matched, changed or not
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    number: int = 0  # what the statement left as the last insert id, where a database has that


# What an operation yields, gets, and answers in the end.
Steps = Generator[Statement, Result, T]


def run(execute: Callable[[Statement], Result], steps: Steps[T]) -> T:
    """Run an operation where the caller blocks."""
    try:
        statement = next(steps)
        while True:
            try:
                result = execute(statement)
            except Clash as clash:
                statement = steps.throw(clash)
            else:
                statement = steps.send(result)
    except StopIteration as done:
        value: T = done.value
        return value


async def run_async(execute: Callable[[Statement], Awaitable[Result]], steps: Steps[T]) -> T:
    """Run an operation in an event loop."""
    try:
        statement = next(steps)
        while True:
            try:
                result = await execute(statement)
            except Clash as clash:
                statement = steps.throw(clash)
            else:
                statement = steps.send(result)
    except StopIteration as done:
        value: T = done.value
        return value
