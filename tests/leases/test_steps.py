"""One body, two ways to wait: what an operation yields is executed, and what it gets decides how it goes on."""

import asyncio
from collections.abc import Callable

import pytest

from holdfast.leases.steps import Clash, Result, Statement, Steps, run, run_async


def execute(statement: Statement) -> Result:
    if statement.sql == "clash":
        raise Clash("twice")
    return Result(len(statement.sql))


async def execute_async(statement: Statement) -> Result:
    return execute(statement)


def blocking(steps: Steps[list[str]]) -> list[str]:
    return run(execute, steps)


def in_loop(steps: Steps[list[str]]) -> list[str]:
    return asyncio.run(run_async(execute_async, steps))


def operation() -> Steps[list[str]]:
    done = [str((yield Statement("one")).count)]
    try:
        yield Statement("clash")
    except Clash:
        done.append("clash")
    done.append(str((yield Statement("three")).count))
    return done


def careless() -> Steps[list[str]]:
    yield Statement("clash")
    return []


@pytest.mark.parametrize("go", [blocking, in_loop])
def test_results_and_clashes_come_back_to_the_operation(go: Callable[[Steps[list[str]]], list[str]]) -> None:
    assert go(operation()) == ["3", "clash", "5"]
    with pytest.raises(Clash):
        go(careless())
