"""What users write, as mypy --strict and pyright see it; `make check` has both look. It is never run.

Each line that has to be refused says so in a comment: a checker complains about a comment that is not needed.
"""

import asyncio
import ssl
from datetime import timedelta
from threading import Event
from typing import Any, assert_type

import holdfast
from holdfast import aio


def note(held: holdfast.Held) -> None:
    held.check()


async def anote(held: aio.Held) -> None:
    held.check()


def blocking() -> int:
    with holdfast.connect("holdfast://127.0.0.1:6388", name="billing", timeout=timedelta(seconds=5)) as hf:
        assert_type(hf, holdfast.Client)
        with hf.lock("report", lease=30, patience=None, on_lost=note, cancel_on_lost=True) as held:
            assert_type(held, holdfast.Held)
            assert_type(held.fence, int)
            assert_type(held.token, str)
            assert_type(held.remaining, float)
            assert_type(held.lost, Event)
            assert_type(held.state, holdfast.State)
            assert_type(held.value, bytes | None)
            held.beat()
            held.renew()
        taken = hf.lock("report").try_acquire()
        assert_type(taken, holdfast.Held | None)
        if taken is not None:
            assert_type(taken.release(b"page 17"), bool)
        with hf.rwlock("book").read() as reader:
            reader.upgrade(patience=1.5)
            reader.downgrade()
        with hf.semaphore("seats", 3, units=2) as seats:
            assert_type(seats.kind, str)
        place = hf.enqueue("report", limit=None)
        assert_type(place, holdfast.Place)
        assert_type(place.wait(patience=timedelta(minutes=1)), holdfast.Held)
        with hf.all("a", "b", operation="transfer", deadlock="refuse") as group:
            assert_type(group, holdfast.HeldGroup)
            assert_type(group["a"], holdfast.Held)
            assert_type([member.key for member in group], list[str])
        with hf.election("office", on_elected=note, on_deposed=lambda held: held.fence) as election:
            assert_type(election, holdfast.Election)
            assert_type(election.held, holdfast.Held | None)
        for view in hf.keys("re", held=True):
            assert_type(view, dict[str, Any])
        assert_type(hf.ping(), dict[str, float])

        @hf.locked(lambda user, times=1: f"user-{user}", lease=5)
        def work(user: str, times: int = 1) -> list[str]:
            return [user] * times

        assert_type(work("a", times=2), list[str])
    return held.fence


@holdfast.locked("report", patience=5, on_danger=note)
def report(month: int) -> str:
    return str(month)


@holdfast.once("nightly", at_least=timedelta(minutes=5))
def nightly(day: int) -> float:
    return day / 2


@aio.locked(lambda month: f"report-{month}")
async def areport(month: int) -> str:
    return str(month)


@aio.once("nightly", at_least=300)
async def anightly() -> float:
    return 0.5


def decorated() -> None:
    assert_type(report(3), str)
    assert_type(nightly(3), float | None)
    report("three")  # type: ignore[arg-type]
    nightly()  # type: ignore[call-arg]


async def tasks(context: ssl.SSLContext) -> None:
    async with aio.connect("holdfasts://host", auth="token", tls=context, margin=0.5) as hf:
        assert_type(hf, aio.Client)
        async with hf.lock("report", on_lost=anote, on_contended=lambda held: held.abandon()) as held:
            assert_type(held, aio.Held)
            assert_type(held.lost, asyncio.Event)
            await held.renew()
        assert_type(await hf.try_lock("report"), aio.Held | None)
        async with await hf.enqueue("seats", limit=3) as place:
            assert_type(await place.wait(), aio.Held)
        async with hf.all("a", "b") as group, hf.election("office") as election:
            group.check()
            election.check()
        async for event in hf.watch(prefix="re"):
            assert_type(event, dict[str, Any])
    assert_type(await areport(3), str)
    assert_type(await anightly(), float | None)


def lock_client() -> None:
    client = holdfast.LockClient("http://127.0.0.1:8080", owner="worker-1")
    retry = holdfast.RetryPolicy(max_retries=5, max_total_wait=10, min_delay=0.1, max_delay=1)
    with client.lock("report", ttl=timedelta(seconds=30), retry=retry) as lease:
        assert_type(lease.fencing_token, int)
        lease.check()


def refused(hf: holdfast.Client) -> None:
    holdfast.connect(6388)  # type: ignore[arg-type]
    hf.lock("report", lease="30")  # type: ignore[arg-type]
    hf.lock("report", on_loss=note)  # type: ignore[call-arg]
    hf.lock("report", deadlock="ignore")  # type: ignore[arg-type]
    hf.semaphore("seats")  # type: ignore[call-arg]
    with hf.lock("report") as held:
        held.fence = 5  # type: ignore[misc]


def told(error: holdfast.HoldfastError) -> str:
    try:
        raise error
    except holdfast.LeaseLost as lost:
        return assert_type(lost.code, str)
    except (holdfast.Busy, holdfast.TimedOut, holdfast.WouldDeadlock) as refusal:
        return str(refusal.retry.value)
