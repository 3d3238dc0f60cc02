"""A caller who can be awaited: each request gets its own answer, and whoever stops waiting leaves nothing behind.

What is granted is tested with the engine, who is told what with the desk.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast.doors.asker import Asker
from holdfast.words import (
    ENDED,
    EX,
    FOREVER,
    GRANTED,
    QUEUED,
    SECOND,
    UNLIMITED,
    Answer,
    Claim,
    Effect,
    End,
    Look,
    WaitFor,
)
from tests.office import KEY, Office


def claim(*, queue: bool = True, tracked: bool = False, key: bytes = KEY) -> Claim:
    return Claim(key, EX, 1, UNLIMITED, 30 * SECOND, FOREVER if queue else 0, queue, tracked)


def asker(office: Office, **more: Any) -> Asker:
    return Asker(office.desk, office.clock, **more)


def play(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 10))


async def turns() -> None:
    """Let everybody go on who can."""
    for _ in range(5):
        await asyncio.sleep(0)


def is_free(office: Office, key: bytes = KEY) -> bool:
    views = {view.key: view for view in _views(office)}
    return key not in views or not (views[key].holders or views[key].waiters)


def _views(office: Office) -> list[Any]:
    caller = office.caller()
    caller.submit(Look())
    if office.late.pending:
        office.commit()
    caller.leave()
    return caller.views or []


def test_requests_that_wait_do_not_hold_up_others() -> None:
    async def story() -> None:
        me = asker(Office())
        answer, first = await me.ask(claim())
        assert answer is GRANTED
        assert first is not None
        second = asyncio.ensure_future(me.ask(claim()))
        await turns()
        assert not second.done()
        assert (await me.ask(claim(queue=False)))[0] is Answer.BUSY
        assert (await me.ask(End(KEY, first.token)))[0] is ENDED
        assert (await second)[0] is GRANTED

    play(story())


def test_who_leaves_while_waiting_is_out_of_the_queue() -> None:
    async def story() -> None:
        office = Office()
        holder = office.caller()
        held = holder.acquire()
        waiting = asyncio.ensure_future(asker(office).ask(claim()))
        await turns()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await turns()
        holder.release(held)
        assert is_free(office)

    play(story())


def test_what_is_granted_to_somebody_who_has_left_is_given_back() -> None:
    async def story() -> None:
        office = Office(late=True)
        waiting = asyncio.ensure_future(asker(office).ask(claim()))
        await turns()
        waiting.cancel()
        await turns()
        office.commit()  # the grant, and then the withdrawal, which comes too late
        await turns()
        office.commit()
        assert is_free(office)

    play(story())


def test_an_answer_that_is_there_already_is_given_back_too() -> None:
    async def story() -> None:
        office = Office(late=True)
        waiting = asyncio.ensure_future(asker(office).ask(claim()))
        await turns()
        office.commit()
        waiting.cancel()  # between the answer and the moment when it is heard
        await turns()
        office.commit()
        assert is_free(office)

    play(story())


def test_what_was_asked_for_by_name_is_kept_for_who_comes_back() -> None:
    async def story() -> None:
        office = Office(late=True)
        me = asker(office)
        named = claim()
        named.ticket = b"mine"
        waiting = asyncio.ensure_future(me.ask(named))
        await turns()
        office.commit()
        waiting.cancel()
        await turns()
        again = claim(queue=False)
        again.ticket = b"mine"
        coming_back = asyncio.ensure_future(me.ask(again))
        await turns()
        office.commit()
        assert await coming_back == (GRANTED, named)

    play(story())


def test_who_comes_back_takes_the_place_of_who_still_waits() -> None:
    async def story() -> None:
        office = Office()
        holder = office.caller()
        held = holder.acquire()
        me = asker(office)
        asked = []
        for _ in range(2):
            named = claim()
            named.ticket = b"mine"
            asked.append(asyncio.ensure_future(me.ask(named)))
            await turns()
        assert (await asked[0])[0] is Answer.CANCELLED
        holder.release(held)
        assert (await asked[1])[0] is GRANTED

    play(story())


def test_who_leaves_the_second_phase_withdraws_the_first() -> None:
    async def story() -> None:
        office = Office()
        holder = office.caller()
        held = holder.acquire()
        me = asker(office)
        assert (await me.ask(claim(tracked=True)))[0] is QUEUED
        waiting = asyncio.ensure_future(me.ask(WaitFor(KEY, FOREVER)))
        await turns()
        waiting.cancel()
        await turns()
        holder.release(held)
        assert is_free(office)

    play(story())


def test_who_leaves_before_hearing_of_a_place_in_the_queue_loses_it() -> None:
    async def story() -> None:
        office = Office(late=True)
        holder = office.caller()
        held = holder.acquire()
        office.commit()
        enqueuing = asyncio.ensure_future(asker(office).ask(claim(tracked=True)))
        await turns()
        office.commit()
        enqueuing.cancel()
        await turns()
        holder.release(held)
        office.commit()
        assert is_free(office)

    play(story())


def test_leaving_without_waiting_for_a_claim_changes_nothing() -> None:
    async def story() -> None:
        office = Office(late=True)
        me = asker(office)
        held = claim()
        first = asyncio.ensure_future(me.ask(held))
        await turns()
        office.commit()
        await first
        ending = asyncio.ensure_future(me.ask(End(KEY, held.token)))
        await turns()
        ending.cancel()
        await turns()
        office.commit()  # its answer comes to nobody
        assert is_free(office)

    play(story())


# --- looking ---


def test_looks_are_answered_in_their_order() -> None:
    async def story() -> None:
        office = Office(late=True)
        me = asker(office)
        office.caller().acquire()
        looks = [asyncio.ensure_future(me.look(Look(key=key))) for key in (b"lock:none", KEY)]
        await turns()
        office.commit()
        assert [[view.key for view in await look] for look in looks] == [[], [KEY]]

    play(story())


def test_a_look_that_is_refused_does_not_get_the_sight_of_another() -> None:
    async def story() -> None:
        office = Office(late=True)
        me = asker(office)
        office.caller().acquire()
        first = asyncio.ensure_future(me.see(Look(key=KEY)))
        await turns()
        office.desk.drain(office.clock())
        assert await me.see(Look(key=KEY)) == (Answer.DRAINING, [])
        assert await me.look(Look(key=KEY)) == []
        office.commit()
        answer, views = await first
        assert answer is None
        assert [view.key for view in views] == [KEY]

    play(story())


def test_who_stops_looking_does_not_confuse_who_looks_on() -> None:
    async def story() -> None:
        office = Office(late=True)
        me = asker(office)
        office.caller().acquire()
        gone = asyncio.ensure_future(me.look(Look(key=b"lock:none")))
        stays = asyncio.ensure_future(me.look(Look(key=KEY)))
        await turns()
        gone.cancel()
        await turns()
        office.commit()
        assert [view.key for view in await stays] == [KEY]

    play(story())


# --- the end ---


@pytest.mark.parametrize("dismissed", [False, True])
def test_who_waits_when_the_session_ends_is_told(dismissed: bool) -> None:
    async def story() -> None:
        office = Office(late=True)
        me = asker(office)
        waiting = asyncio.ensure_future(me.ask(claim()))
        looking = asyncio.ensure_future(me.see(Look()))
        await turns()
        (me.dismiss if dismissed else me.close)()
        assert await waiting == (Answer.CLOSED, None)
        assert await looking == (Answer.CLOSED, [])
        office.commit()
        assert is_free(office)

    play(story())


def test_a_session_that_is_cut_off_may_keep_what_it_holds_and_one_that_leaves_does_not() -> None:
    async def story() -> None:
        office = Office(release_on_disconnect=False)
        for end, free in ((Asker.close, False), (Asker.dismiss, True)):
            me = asker(office)
            key = b"lock:%d" % free
            await me.ask(claim(key=key))
            end(me)
            assert is_free(office, key) is free

    play(story())


def test_a_resident_is_not_counted_among_those_who_come_and_go() -> None:
    async def story() -> None:
        office = Office()
        me = asker(office, resident=True)
        answer, held = await me.ask(claim())
        assert answer is GRANTED
        assert held is not None
        assert (held.session, office.desk.connections) == (0, 0)

    play(story())


def test_news_is_passed_on_to_who_wants_it() -> None:
    async def story() -> None:
        office = Office()
        told: list[Effect] = []
        me = asker(office, told=told.append)
        listening = Claim(KEY, EX, 1, UNLIMITED, 30 * SECOND, 0, False, listens=True)
        await me.ask(listening)
        await asker(office).ask(claim(queue=False))
        office.caller().acquire()
        assert [effect.claim for effect in told] == [listening]

    play(story())
