"""Trying again what the database has undone: how often, and what becomes of it in the end."""

import asyncio
from collections.abc import Callable

import pytest

from holdfast.leases.drivers.port import TRIES_MAX, Times, Undone, missing, patiently, patiently_async, pauses
from holdfast.leases.errors import DatabaseUnavailable
from holdfast.leases.steps import Result, Statement

ASKED = Statement("UPDATE")


class Stubborn:
    """A connection that undoes so many statements."""

    def __init__(self, undone: int) -> None:
        self.undone = undone
        self.tried = 0

    def execute(self, statement: Statement) -> Result:
        assert statement is ASKED
        self.tried += 1
        if self.tried <= self.undone:
            raise Undone("deadlock")
        return Result(1)

    async def execute_async(self, statement: Statement) -> Result:
        return self.execute(statement)


def blocking(stubborn: Stubborn, times: Times) -> Result:
    return patiently(stubborn.execute, times)(ASKED)


def in_loop(stubborn: Stubborn, times: Times) -> Result:
    async def main() -> Result:
        return await patiently_async(stubborn.execute_async, times)(ASKED)

    return asyncio.run(main())


both = pytest.mark.parametrize("ask", [blocking, in_loop])


@both
def test_a_statement_that_was_undone_is_tried_again(ask: Callable[[Stubborn, Times], Result]) -> None:
    for undone in (0, 1, TRIES_MAX - 1):
        stubborn = Stubborn(undone)
        assert ask(stubborn, Times()).count == 1
        assert stubborn.tried == undone + 1


@both
def test_one_that_is_undone_for_ever_counts_as_unavailable(ask: Callable[[Stubborn, Times], Result]) -> None:
    stubborn = Stubborn(100)
    with pytest.raises(DatabaseUnavailable, match="again and again: deadlock"):
        ask(stubborn, Times())
    assert stubborn.tried == TRIES_MAX


@both
def test_no_longer_than_one_statement_may_take(ask: Callable[[Stubborn, Times], Result]) -> None:
    stubborn = Stubborn(100)
    with pytest.raises(DatabaseUnavailable):
        ask(stubborn, Times(statement_s=-1))
    assert stubborn.tried == 1


def test_pauses_grow_and_are_not_alike() -> None:
    first, *_, last = pauses()
    assert first < last
    assert len({pause for _ in range(4) for pause in pauses()}) == 4 * (TRIES_MAX - 1)


def test_this_side_waits_longer_than_the_server_takes_to_give_up() -> None:
    assert Times().answer_s > Times().statement_s


def test_a_missing_package_is_told_with_the_command() -> None:
    assert "pip install 'holdfast[mariadb]'" in str(missing("PyMySQL", "mariadb"))
