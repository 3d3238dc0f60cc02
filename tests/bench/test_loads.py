"""Each kind of measurement is made once, as short as it gets, so that a change of the server cannot break it unseen.

The figures are not looked at: a test machine says nothing about speed.
"""

from contextlib import closing

import pytest

from bench.line import Line, Unexpected
from bench.loads import closed_loop, handoff, pipelined
from bench.programs import read_figures
from bench.servers import ServerFailed, holdfast, running
from bench.standing import idle_of, memory_of


def rows_of(section: str) -> list[str]:
    """Name the rows of a table."""
    return [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")]


def test_the_figures_of_a_load_are_read_by_their_names() -> None:
    assert read_figures("pairs/s 12 p99.9 3.5 errors 0\n") == {"pairs/s": 12.0, "p99.9": 3.5, "errors": 0.0}


def test_the_closed_loop_measures_holdfast_beside_the_floor() -> None:
    assert {"floor", "holdfast"} <= set(rows_of(closed_loop(0.1, rounds=1)))


def test_the_pipelined_load_measures_holdfast() -> None:
    assert "holdfast" in rows_of(pipelined(0.1, rounds=1))


def test_the_hand_off_is_measured_with_one_waiter_and_with_many() -> None:
    assert rows_of(handoff(0.1, rounds=1))[-2:] == ["2 connections", "10 connections"]


def test_keys_waiters_and_idle_connections_are_weighed() -> None:
    with running("holdfast", holdfast) as server:
        memory_of(server, keys=20, waiters=10)
        idle_of(server, connections=5, seconds=0.01)


def test_an_answer_that_a_measurement_does_not_expect_ends_it() -> None:
    with (
        running("holdfast", holdfast) as server,
        closing(Line(server.connect())) as line,
        pytest.raises(Unexpected, match="instead of 'ok'"),
    ):
        line.ask([("no-such-command", "_", "_")], "ok")


def test_a_server_that_does_not_start_is_reported_with_its_own_words() -> None:
    with pytest.raises(ServerFailed, match="exit code 7: out of order"), running("broken", broken):
        raise AssertionError("the server must not have started")


def broken(_port: int) -> list[str]:
    """Say how to start a server that ends at once."""
    return ["sh", "-c", "echo out of order; exit 7"]
