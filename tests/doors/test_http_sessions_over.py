"""Sessions over HTTP in the long run: calls that take turns, callers who go away or fall silent, a server that stops.

A real desk and store stand behind; time is moved by hand, and nothing is waited for.
"""

import asyncio
from typing import Any

import pytest

from holdfast.words import SECOND
from tests.doors.lobby import GONE, JOB, TIMEOUT, Lobby, code, grant, played, settle, token, told
from tests.office import Caller


@pytest.fixture
def lobby() -> Lobby:
    return Lobby()


# --- one call at a time ---


@played
async def test_calls_of_a_session_take_turns_in_their_order(lobby: Lobby) -> None:
    holder, session = await lobby.open(), await lobby.open()
    await lobby.call(holder, JOB)
    assert await lobby.call(session, "/v1/locks/mine") == grant(2)
    blocked = await lobby.begin(session, JOB, acquire_timeout_s=10)
    renewal = await lobby.begin(session, "/v1/locks/mine/renew", token=token(2))
    release = await lobby.begin(session, "/v1/locks/mine/release", token=token(2))
    lobby.office.after(10)
    assert await blocked == TIMEOUT
    assert (await renewal)[0] == 200
    assert (await release)[0] == 204


@played
async def test_a_ping_does_not_wait_behind_a_blocked_call(lobby: Lobby) -> None:
    holder, session = await lobby.open(), await lobby.open()
    await lobby.call(holder, JOB)
    await lobby.begin(session, JOB, acquire_timeout_s=10)
    assert await lobby.ping(session) == 204


@played
async def test_a_caller_who_gives_up_its_turn_lets_the_next_one_in(lobby: Lobby) -> None:
    holder, session = await lobby.open(), await lobby.open()
    await lobby.call(holder, JOB)
    blocked = await lobby.begin(session, JOB, acquire_timeout_s=10)
    second = await lobby.begin(session, "/v1/locks/second")
    third = await lobby.begin(session, "/v1/locks/third")
    await give_up(second)
    await give_up(blocked)
    assert await third == grant(2)


# --- callers who go away ---


async def give_up(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settle()


@played
async def test_whoever_goes_away_while_it_waits_leaves_the_queue(lobby: Lobby) -> None:
    holder, session, other = await lobby.open(), await lobby.open(), await lobby.open()
    await lobby.call(holder, JOB)
    await give_up(await lobby.begin(session, JOB, acquire_timeout_s=10))
    waiting = await lobby.begin(other, JOB, acquire_timeout_s=10)
    await lobby.call(holder, JOB + "/release", token=token(1))
    assert await waiting == grant(2)


@played
async def test_whoever_goes_away_in_its_second_phase_leaves_the_queue(lobby: Lobby) -> None:
    holder, session, other = await lobby.open(), await lobby.open(), await lobby.open()
    await lobby.call(holder, JOB)
    await lobby.call(session, JOB + "/enqueue")
    await give_up(await lobby.begin(session, JOB + "/wait", timeout_s=10))
    waiting = await lobby.begin(other, JOB, acquire_timeout_s=10)
    await lobby.call(holder, JOB + "/release", token=token(1))
    assert await waiting == grant(2)
    assert code(await lobby.call(session, JOB + "/wait")) == (409, "not_enqueued")


@pytest.mark.parametrize("two_phases", [False, True])
@played
async def test_a_grant_that_finds_nobody_is_given_back(lobby: Lobby, two_phases: bool) -> None:
    holder, session, other = await lobby.open(), await lobby.open(), await lobby.open()
    await lobby.call(holder, JOB)
    if two_phases:
        await lobby.call(session, JOB + "/enqueue")
        blocked = await lobby.begin(session, JOB + "/wait", timeout_s=10)
    else:
        blocked = await lobby.begin(session, JOB, acquire_timeout_s=10)
    await lobby.call(holder, JOB + "/release", token=token(1))  # grants it, and nobody has looked yet
    await give_up(blocked)
    assert await lobby.call(other, JOB) == grant(3)


@played
async def test_whoever_goes_away_as_its_second_phase_is_refused_leaves_nothing(lobby: Lobby) -> None:
    session = await lobby.open()
    task = asyncio.create_task(lobby.call(session, JOB + "/wait"))
    task.cancel()
    await settle()
    assert task.cancelled()
    assert await lobby.call(session, JOB) == grant(1)


@played
async def test_whoever_goes_away_before_a_slow_store_has_answered_leaves_nothing() -> None:
    lobby = Lobby(late=True)
    session, other = await lobby.open(), await lobby.open()
    held, queued = await lobby.begin(session, JOB), await lobby.begin(other, JOB + "/enqueue")
    await give_up(held)
    await give_up(queued)
    for _ in range(2):  # what is given back goes to the store again
        lobby.office.commit()
        await settle()
    assert code(await lobby.call(other, JOB + "/wait")) == (409, "not_enqueued")
    again = await lobby.begin(other, JOB)
    lobby.office.commit()
    assert await again == grant(2)


@played
async def test_a_place_that_nobody_was_told_of_is_withdrawn() -> None:
    lobby = Lobby(late=True)
    session, line = await lobby.open(), Caller(lobby.office)
    line.acquire()
    queued = await lobby.begin(session, JOB + "/enqueue")
    lobby.office.commit()  # answers that it is queued, which nobody reads
    await give_up(queued)
    lobby.office.commit()
    again = await lobby.begin(session, JOB + "/enqueue")
    lobby.office.commit()
    assert await again == (200, {"status": "queued"})


# --- silence ---


@played
async def test_a_session_that_is_silent_for_twice_the_time_ends(lobby: Lobby) -> None:
    session, other = await lobby.open(), await lobby.open()
    await lobby.call(session, JOB, lease_ttl_s=600)
    lobby.office.after(40)
    lobby.sweep()
    assert lobby.api.sessions == 2
    assert await lobby.ping(other) == 204
    lobby.office.after(0.001)
    lobby.sweep()
    assert lobby.api.sessions == 1
    assert await lobby.call(other, JOB) == grant(2)
    assert await lobby.ping(session) == 410


@played
async def test_a_silent_session_is_like_a_cut_connection() -> None:
    lobby = Lobby(release_on_disconnect=False)
    session, other = await lobby.open(), await lobby.open()
    await lobby.call(session, JOB, lease_ttl_s=50)
    lobby.office.after(41)
    other = await lobby.open()
    lobby.sweep()
    assert await lobby.call(other, JOB) == TIMEOUT
    lobby.office.after(9)
    assert await lobby.call(other, JOB) == grant(2)


@played
async def test_a_call_that_waits_is_no_silence_and_its_end_is_a_sign_of_life(lobby: Lobby) -> None:
    holder, session = await lobby.open(), await lobby.open()
    await lobby.call(holder, JOB, lease_ttl_s=600)
    waiting = await lobby.begin(session, JOB, acquire_timeout_s=300)
    lobby.office.after(300)
    assert await waiting == TIMEOUT
    lobby.office.after(40)
    lobby.sweep()
    assert await lobby.ping(session) == 204
    assert await lobby.ping(holder) == 410


@played
async def test_a_sweep_spares_a_session_in_the_middle_of_a_call(lobby: Lobby) -> None:
    session, line = await lobby.open(), Caller(lobby.office)
    held = line.acquire(lease_s=600)
    waiting = await lobby.begin(session, JOB, acquire_timeout_s=300)
    lobby.office.after(200)
    lobby.sweep()
    line.release(held)
    assert await waiting == grant(2)


@played
async def test_sessions_may_be_silent_for_ever_where_that_is_the_setting() -> None:
    lobby = Lobby(idle_s=0)
    session = await lobby.open()
    lobby.office.after(1_000_000)
    lobby.sweep()
    assert await lobby.ping(session) == 204


@pytest.mark.parametrize(("idle_s", "interval_s"), [(0, 0), (20, 20), (30, 30), (600, 30)])
def test_sweeps_come_often_enough(idle_s: int, interval_s: int) -> None:
    assert Lobby(idle_s=idle_s).api.sweep_interval_ns == interval_s * SECOND


# --- the end of the server ---


@played
async def test_a_server_that_stops_opens_no_session_and_sends_waiters_away(lobby: Lobby) -> None:
    holder, session = await lobby.open(), await lobby.open()
    await lobby.call(holder, JOB)
    blocked = await lobby.begin(session, JOB, acquire_timeout_s=10)
    lobby.office.desk.drain(lobby.office.clock.now)
    draining = (503, "draining")
    assert code(await blocked) == draining
    assert code(told(await lobby.ask("POST", "/v1/sessions"))) == draining
    assert code(await lobby.call(holder, JOB + "/release", token=token(1))) == draining
    assert code(told(await lobby.ask("GET", "/v1/stats"))) == draining
    assert told(await lobby.ask("GET", "/ready")) == (503, {"status": "draining"})
    assert told(await lobby.ask("GET", "/health")) == (200, {"status": "ok"})
    assert (await lobby.leave(session)).status == 204


@played
async def test_closing_ends_all_sessions(lobby: Lobby) -> None:
    holder, session, line = await lobby.open(), await lobby.open(), Caller(lobby.office)
    await lobby.call(holder, JOB)
    blocked = await lobby.begin(session, JOB, acquire_timeout_s=10)
    lobby.api.close_all()
    assert code(await blocked) == GONE
    assert (lobby.api.sessions, lobby.office.desk.connections) == (0, 1)
    line.acquire(patience_ns=0)
    assert [answer.name for answer in line.answers] == ["GRANTED"]
