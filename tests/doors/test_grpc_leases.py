"""Leases over gRPC from request to reply, with a clock that is moved by hand: every outcome, and what goes wrong.

How calls arrive, and how refusals leave, is tested with the door.
"""

import asyncio
import json
from typing import Any

import pytest

from holdfast.doors import grpc_leases
from holdfast.doors.grpc_leases import Caller, Releases
from holdfast.doors.rights import Rights
from holdfast.wire import grpc_leases as wire
from holdfast.wire.grpc_leases import Outcome, Refusal
from holdfast.words import EX, SECOND, UNLIMITED, Answer, Claim, Command, End, Look, Renew
from tests.doors.booth import ANYBODY, Booth, lock_data
from tests.doors.refusing import CounterStore
from tests.doors.shop import play, turns

KEY = "lock:cluster/"


def test_a_lease_from_acquire_to_release() -> None:
    async def story() -> None:
        booth = Booth()
        assert await booth.acquire() == wire.ClusterLockReply(
            acquired=True, outcome=Outcome.DONE, fence=1, left_ms=60_000
        )
        booth.office.clock.advance(20)
        busy = await booth.acquire("two")
        assert (busy.acquired, busy.outcome, busy.fence, busy.left_ms) == (False, Outcome.BUSY, 0, 40_000)
        assert busy.holder == lock_data()
        refreshed = await booth.refresh()
        assert (refreshed.success, refreshed.outcome, refreshed.fence, refreshed.left_ms) == (True, 1, 1, 60_000)
        assert (await booth.release()).success
        assert await booth.holder() == wire.ClusterLockHolderReply()
        assert (await booth.acquire("two")).fence == 2
        success = {"acquire": 2, "renew": 1, "release": 1}
        assert booth.counted() == {
            name: {"success": count} | ({"fail": 1} if name == "acquire" else {}) for name, count in success.items()
        }

    play(story())


def test_a_lease_that_has_run_out_is_lost_and_not_revived() -> None:
    async def story() -> None:
        booth = Booth()
        await booth.acquire()
        booth.office.clock.advance(60)  # nobody has swept it up yet
        assert await booth.holder() == wire.ClusterLockHolderReply()
        assert await booth.existing() == []
        lost = wire.StatusReply(outcome=Outcome.LOST)
        assert await booth.refresh() == lost
        assert await booth.release() == lost
        assert (await booth.acquire("two")).fence == 2
        assert await booth.refresh() == await booth.release() == lost

    play(story())


def test_who_asks_again_with_its_id_finds_its_claim_and_a_new_lease() -> None:
    async def story() -> None:
        booth = Booth()
        first = await booth.acquire(lease_ms=30_000)
        booth.office.clock.advance(29)
        assert await booth.acquire(lease_ms=30_000) == first
        booth.office.clock.advance(29)
        assert (await booth.holder()).held
        # The same id on another lock is another claim.
        assert (await booth.acquire(type_="other")).fence == 2

    play(story())


def test_a_claim_that_ends_just_when_it_is_found_is_taken_anew() -> None:
    async def story() -> None:
        booth = Booth()
        await booth.acquire()
        submit = booth.office.memory.submit

        def slowly(command: Command, now: int) -> None:
            if isinstance(command, Renew):
                booth.office.clock.advance(60)
            submit(command, booth.office.clock.now)

        CounterStore(booth.office.desk, slowly)
        assert await booth.acquire() == wire.ClusterLockReply(True, Outcome.DONE, 2, 60_000)
        booth.answer_with(Renew, Answer.NOT_HELD)  # and one that always seems to be over is no reason to go on for ever
        with pytest.raises(Refusal) as refused:
            await booth.acquire()
        assert refused.value.status == "UNAVAILABLE"

    play(story())


def test_a_release_whose_answer_was_lost_is_told_again() -> None:
    async def story() -> None:
        booth = Booth()
        await booth.acquire()
        assert (await booth.release()).count == 1
        await booth.acquire("two")
        again = await booth.release()
        assert (again.success, again.count) == (True, 0)
        assert (await booth.holder()).held
        assert not (await booth.release("three")).success
        # Taken again under the same id, as Shaken Fist does, and lost: that is no old release.
        await booth.release("two")
        await booth.acquire()
        booth.office.clock.advance(60)
        assert not (await booth.release()).success

    play(story())


def test_what_somebody_else_has_cleared_is_lost_for_its_holder() -> None:
    async def story() -> None:
        booth = Booth()
        await booth.acquire()
        assert (await booth.release(clears=True)).success
        assert not (await booth.release(clears=True)).success
        assert not (await booth.release()).success

    play(story())


def test_only_so_many_releases_are_remembered() -> None:
    releases = Releases(2)
    for ticket in (b"a", b"b", b"a", b"c"):
        releases.add(ticket)
    assert [ticket in releases for ticket in (b"a", b"b", b"c")] == [True, False, True]
    releases.forget(b"a")
    releases.forget(b"never")
    assert b"a" not in releases


def test_who_waits_stands_in_the_queue_and_is_granted_in_turn() -> None:
    async def story() -> None:
        booth = Booth()
        await booth.acquire("one")
        second = asyncio.ensure_future(booth.acquire("two", wait_ms=5_000))
        third = asyncio.ensure_future(booth.acquire("three", wait_ms=1_000))
        await turns()
        assert not second.done()
        booth.office.after(1)
        assert (await third).outcome == Outcome.BUSY
        await booth.release("one")
        assert (await second).fence == 2
        # Whoever goes away leaves no claim behind.
        fourth = asyncio.ensure_future(booth.acquire("four", wait_ms=5_000))
        await turns()
        fourth.cancel()
        await asyncio.gather(fourth, return_exceptions=True)
        await booth.release("two")
        assert not (await booth.holder()).held

    play(story())


def test_a_release_withdraws_what_only_waits() -> None:
    async def story() -> None:
        booth = Booth()
        await booth.acquire("one")
        waiting = asyncio.ensure_future(booth.acquire("two", wait_ms=5_000))
        await turns()
        assert await booth.release("two") == wire.StatusReply(outcome=Outcome.LOST)
        with pytest.raises(Refusal) as refused:
            await waiting
        assert refused.value.status == "UNAVAILABLE"

    play(story())


def test_one_queue_and_one_order_of_fences_with_other_doors() -> None:
    async def story() -> None:
        booth = Booth()
        line = booth.office.caller()
        held = line.acquire(key=KEY.encode(), lease_s=30)
        busy = await booth.acquire()
        assert (busy.outcome, busy.left_ms) == (Outcome.BUSY, 30_000)
        assert json.loads(busy.holder)["node"] == f"session/{line.session.id}"
        line.release(held)
        assert (await booth.acquire()).fence == 2
        waiter = booth.office.caller()
        claim = waiter.acquire(key=KEY.encode())
        assert not (await booth.acquire("two")).acquired
        await booth.release()
        assert claim.fence == 3
        assert not (await booth.refresh()).success
        # No id makes a claim of another door one of ours.
        booth.office.desk.store.submit(End(claim.key, claim.token), booth.office.clock.now)
        forged = Claim(KEY.encode(), EX, 1, UNLIMITED, 30 * SECOND, 0, False)
        forged.about = b'{"door":"grpc","id":"one","lock_data":"{}"}'
        waiter.submit(forged)
        assert not (await booth.refresh()).success
        assert not (await booth.release("forged")).success

    play(story())


def test_all_that_is_held_is_listed_through_whichever_door() -> None:
    async def story() -> None:
        booth = Booth()
        await booth.acquire(process="boot:1")
        booth.office.caller().acquire(key=b"lock:a\xff", lease_s=10**10)
        booth.office.caller().acquire(key=b"sem:x", limit=3)
        await booth.acquire("two", type_="zone", node="sf-8")
        booth.office.clock.advance(5)
        entries = await booth.existing()
        assert [entry.key for entry in entries] == ["a\\xff", "cluster/", "zone/"]
        cluster = entries[1]
        assert (cluster.holder, cluster.process, cluster.fence) == (lock_data(), "boot:1", 1)
        assert (cluster.left_ms, cluster.age_ms) == (55_000, 5_000)
        assert [entry.key for entry in await booth.existing("z")] == ["zone/"]
        assert (await booth.holder()).age_ms == 5_000
        # For others nothing is left only of what is free.
        booth.office.clock.now += 55 * SECOND - 1
        assert (await booth.holder()).left_ms == 1
        assert (await booth.refresh()).success

    play(story())


def test_more_locks_than_one_look_shows_and_more_than_one_list(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        booth = Booth()
        for number in range(5):
            await booth.acquire(type_=f"t{number}")
        assert [entry.key for entry in await booth.existing()] == [f"t{number}/" for number in range(5)]
        assert (await booth.clear("sf-7")).count == 5

    async def too_many() -> None:
        booth = Booth()
        for number in range(5):
            await booth.acquire(type_=f"t{number}")
        with pytest.raises(Refusal, match="prefix") as refused:
            await booth.existing()
        assert refused.value.status == "RESOURCE_EXHAUSTED"

    monkeypatch.setattr(grpc_leases, "PAGE", 2)
    play(story())
    monkeypatch.setattr(grpc_leases, "LISTED_MAX", 4)
    play(too_many())


def test_what_dead_processes_of_a_node_have_left_is_ended_and_nothing_else() -> None:
    async def story() -> None:
        booth = Booth()
        booth.office.caller().acquire(key=b"lock:line")
        await booth.acquire("a", type_="a", pid=1)
        await booth.acquire("b", type_="b", pid=2)
        await booth.acquire("c", type_="c", pid=1, node="sf-8")
        cleared = await booth.clear("sf-7", 2, 3)
        assert (cleared.success, cleared.count) == (True, 1)
        assert [entry.key for entry in await booth.existing()] == ["b/", "c/", "line"]
        assert (await booth.clear("sf-7")).count == 1
        assert (await booth.clear("sf-7")).count == 0
        with pytest.raises(Refusal, match="node_name"):
            await booth.clear("")

    play(story())


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Answer.STORE_BUSY, "UNAVAILABLE"),
        (Answer.STORE_FAILED, "UNAVAILABLE"),
        (Answer.NO_FENCE, "UNAVAILABLE"),
        (Answer.DRAINING, "UNAVAILABLE"),
        (Answer.TOO_MANY_KEYS, "RESOURCE_EXHAUSTED"),
        (Answer.LIMIT_MISMATCH, "INTERNAL"),
    ],
)
def test_no_failure_looks_like_busy_or_lost(answer: Answer, status: str) -> None:
    async def story() -> None:
        for kind, call in ((Claim, "acquire"), (Renew, "refresh"), (Look, "refresh"), (object, "release")):
            booth = Booth()
            if kind is not Claim:
                await booth.acquire()
            booth.answer_with(kind, answer)  # type: ignore[arg-type]
            with pytest.raises(Refusal) as refused:
                await getattr(booth, call)()
            assert refused.value.status == status
        for kind, look in ((Look, "holder"), (Look, "existing"), (Renew, "acquire")):
            booth = Booth()
            await booth.acquire()
            booth.answer_with(kind, answer)
            with pytest.raises(Refusal):
                await getattr(booth, look)()
        booth = Booth()
        await booth.acquire()
        booth.answer_with(End, answer)
        with pytest.raises(Refusal):
            await booth.clear("sf-7")

    play(story())


TOKENS = json.dumps(
    {
        "tokens": [
            {"name": "all", "token": "A", "rights": {"": ["read", "hold"]}},
            {"name": "some", "token": "S", "rights": {"cluster/": ["hold"]}},
            {"name": "eye", "token": "E", "rights": {"": ["read"]}},
        ]
    }
)


def test_tokens_decide_who_may_do_what() -> None:
    async def story() -> None:
        booth = Booth(rights=Rights.load(TOKENS))

        async def status_of(token: str | None, call: str, *arguments: Any) -> str:
            booth.caller = Caller(None if token is None else f"Bearer {token}")
            try:
                await getattr(booth, call)(*arguments)
            except Refusal as refusal:
                return refusal.status
            return "OK"

        for call in ("acquire", "refresh", "release", "holder", "existing"):
            for nobody in (None, "X", "", "A B"):
                assert await status_of(nobody, call) == "UNAUTHENTICATED"
        assert await status_of("X", "clear", "sf-7") == "UNAUTHENTICATED"
        for token, call, status in [
            ("S", "acquire", "OK"),
            ("E", "acquire", "PERMISSION_DENIED"),
            ("S", "refresh", "OK"),
            ("E", "refresh", "PERMISSION_DENIED"),
            ("E", "release", "PERMISSION_DENIED"),
            ("S", "holder", "PERMISSION_DENIED"),
            ("E", "holder", "OK"),
            ("S", "existing", "PERMISSION_DENIED"),
            ("A", "existing", "OK"),
        ]:
            assert await status_of(token, call) == status, (token, call)
        booth.caller = Caller("Bearer E")
        assert (await booth.clear("sf-7")).count == 0
        booth.caller = Caller("Bearer S")
        assert (await booth.clear("sf-7")).count == 1
        assert (await booth.api.time(wire.TimeRequest(), booth.caller)).now_us == booth.office.clock.now // 1000
        with pytest.raises(Refusal):
            await booth.api.time(wire.TimeRequest(), ANYBODY)

    play(story())
