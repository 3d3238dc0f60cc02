"""Whoever says nothing of itself is shown by its door and its address, as long as its connection is there.

What is shown beside that is tested with the doors that show it.
"""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.doors.whois import about_peer, introduce
from holdfast.testing.line_stage import CountingTransport, LineStage
from holdfast.words import Look, View


class Wired(CountingTransport):
    """A transport that knows where its peer is."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.3", 5171) if name == "peername" else default


def look(stage: LineStage) -> View:
    seen: list[View] = []
    stage.desk.look(Look(deep=True), seen.extend, stage.clock.now)
    (view,) = introduce(stage.desk, seen)
    return view


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (("10.0.0.3", 5171), {"door": "line", "peer": "10.0.0.3:5171"}),
        (("::1", 5171, 0, 0), {"door": "line", "peer": "[::1]:5171"}),
        ("10.0.0.3", {"door": "line", "peer": "10.0.0.3"}),
        ("", {"door": "line"}),
        (None, {"door": "line"}),
    ],
)
def test_an_address_is_spelled_as_people_do(address: object, shown: dict[str, str]) -> None:
    assert json.loads(about_peer("line", address)) == shown


def test_holders_and_waiters_of_the_line_protocol_are_shown_by_their_addresses() -> None:
    stage = LineStage()
    holder, waiter = stage.caller(Wired()), stage.caller(Wired())
    holder.ask("l", "job", "0 30")
    waiter.ask("l", "job", "9 30")
    view = look(stage)
    assert [json.loads(seen.about) for seen in (*view.holders, *view.queue)] == [
        {"door": "line", "peer": "10.0.0.3:5171"}
    ] * 2


def test_what_a_claim_says_itself_is_left_as_it_is() -> None:
    stage = LineStage()
    holder = stage.caller()
    holder.ask("l", "job", "0 30")
    (claim,) = stage.memory.table.sessions[1].values()
    claim.about = b'{"door":"native"}'
    assert look(stage).holders[0].about == b'{"door":"native"}'


def test_of_who_is_gone_nothing_is_said_even_if_another_run_has_given_its_number_again() -> None:
    stage = LineStage(release_on_disconnect=False)
    holder = stage.caller()
    holder.ask("l", "job", "0 30")
    holder.vanish()
    assert look(stage).holders[0].about == b""
    stage.desk.sessions[1] = SimpleNamespace(face=stage.caller().connection)  # type: ignore[assignment]
    assert look(stage).holders[0].about == b""


def test_a_session_that_nobody_knows_is_not_made_up() -> None:
    stage = LineStage()
    stage.caller().ask("l", "job", "0 30")
    del stage.desk.sessions[1]
    assert look(stage).holders[0].about == b""
