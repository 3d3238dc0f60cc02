"""A load from its first request to its last answer, on a small server that is honest or is not.

The verdicts' own cases are tested beside them; here the run has to bring in what they need.
"""

import asyncio
import random

import pytest

from holdfast.cli import load_run
from holdfast.cli.load_caller import Caller, Grant
from holdfast.cli.load_http import HttpCaller
from holdfast.cli.load_run import GRANTS_MAX, Plan, Run, percentile
from holdfast.cli.load_verdicts import judge
from tests.cli.small_server import FALLS, GRANTS_TWICE, HONEST, REPEATS_TOKENS, raw, serving

MS = 1_000_000


def plan(**changes):
    usual = {
        "lock": "hot",
        "clients": 5,
        "duration_ns": 250 * MS,
        "ttl_ns": 5_000 * MS,
        "hold_ns": 2 * MS,
        "jitter_ns": 2 * MS,
        "failrate": 0.0,
    }
    return Plan(**usual | changes)


def loaded(sin=HONEST, prepare=None, tell=None, **changes):
    async def main():
        async with serving(sin) as server:
            if prepare is not None:
                prepare(server)
            made = Run(plan(**changes), lambda owner: HttpCaller("127.0.0.1", server.port, owner), random.Random(1))
            return await made.go(tell), server

    return asyncio.run(main())


def broken(tally):
    return {verdict.promise for verdict in judge(tally.holds, tally.resource) if not verdict.kept}


def test_an_honest_server_keeps_every_promise_and_everything_adds_up():
    tally, server = loaded()
    assert broken(tally) == set()
    assert tally.acquire_success == len(tally.holds) == server.token > 0
    assert tally.acquire_fail > 0
    assert tally.release_success + tally.release_fail == tally.acquire_success
    assert tally.resource.accepted_count + tally.resource.rejected_count == tally.acquire_success
    assert (tally.errors, tally.unfinished, tally.full) == (0, False, False)
    assert len(tally.latencies["acquire"]) == len(tally.latencies["release"]) == tally.acquire_success
    assert len(tally.latencies["refused"]) == tally.acquire_fail


def test_holders_that_outlast_their_leases_break_no_promise():
    tally, _ = loaded(failrate=0.5, duration_ns=600 * MS, ttl_ns=40 * MS)
    assert broken(tally) == set()
    assert tally.release_fail > 0


@pytest.mark.parametrize(
    ("sin", "promise"),
    [
        (GRANTS_TWICE, "no two holders at once"),
        (REPEATS_TOKENS, "tokens rise in the order of grants"),
        (FALLS, "tokens rise in the order of grants"),
    ],
)
def test_a_server_that_sins_is_found_out(sin, promise):
    tally, _ = loaded(sin)
    assert promise in broken(tally)


def test_with_locks_of_their_own_nobody_is_refused():
    tally, _ = loaded(own_locks=True)
    assert {hold.lock for hold in tally.holds} == {f"hot-{client}" for client in range(5)}
    assert (tally.acquire_fail, broken(tally)) == (0, set())


def test_troubles_are_counted_the_first_one_is_kept_and_the_callers_go_on():
    def prepare(server):
        server.script += [raw(500, b"oops"), None, raw(503, b"{}")]

    tally, _ = loaded(prepare=prepare, duration_ns=400 * MS)
    assert tally.errors == 3
    assert tally.first_error.startswith(("BadAnswer: ", "IncompleteReadError: "))
    assert tally.acquire_success > 0
    assert broken(tally) == set()


def test_a_release_whose_answer_is_lost_leaves_a_hold_that_was_not_proved():
    class Forgetful(HttpCaller):
        async def release(self, lock, grant):
            await super().release(lock, grant)
            raise EOFError("the answer is lost")

    async def main():
        async with serving() as server:
            run = Run(plan(clients=1), lambda owner: Forgetful("127.0.0.1", server.port, owner), random.Random(1))
            return await run.go(None)

    tally = asyncio.run(main())
    assert tally.errors == tally.acquire_success == len(tally.holds) > 0
    assert not any(hold.released for hold in tally.holds)
    assert broken(tally) == set()


class Endless(Caller):
    """A caller whose answers come from nowhere, or never."""

    answers = True

    async def acquire(self, lock, ttl_ns):
        if not self.answers:
            await asyncio.get_running_loop().create_future()
        return Grant(1, "")

    async def release(self, lock, grant):
        return True


def test_a_run_ends_when_no_more_grants_can_be_remembered():
    run = Run(
        plan(clients=1, duration_ns=60_000 * MS, hold_ns=0, jitter_ns=0), lambda _: Endless("", 0, ""), random.Random(1)
    )
    run.tally.holds = [None] * (GRANTS_MAX - 2)
    tally = asyncio.run(run.go(None))
    assert tally.full
    assert len(tally.holds) == GRANTS_MAX


def test_a_server_that_never_answers_does_not_keep_the_run_for_ever(monkeypatch):
    monkeypatch.setattr(load_run, "LATE_S", 0.05)

    class Mute(Endless):
        answers = False

    tally = asyncio.run(Run(plan(duration_ns=1 * MS, ttl_ns=MS), lambda _: Mute("", 0, ""), random.Random(1)).go(None))
    assert tally.unfinished


def test_progress_is_told_while_the_run_goes_on(monkeypatch):
    monkeypatch.setattr(load_run, "TELL_S", 0.02)
    told = []
    loaded(tell=lambda tally: told.append(tally.acquire_success))
    assert len(told) > 1
    assert told == sorted(told)


def test_a_hint_far_beyond_the_end_does_not_lengthen_the_run(monkeypatch):
    def prepare(server):
        server.held["hot"] = (7, 2**62)
        server.script += [raw(409, b'{"acquired":false,"recommended_retry_ms":999999999}')] * 5

    tally, _ = loaded(prepare=prepare)
    assert (tally.acquire_fail, tally.unfinished) == (5, False)


def test_samples_of_latency_are_bounded(monkeypatch):
    monkeypatch.setattr(load_run, "SAMPLES_MAX", 3)
    tally, _ = loaded()
    assert [len(tally.latencies[name]) for name in ("acquire", "refused", "release")] == [3, 3, 3]
    assert tally.acquire_success > 3


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 6), (0.9, 10), (0.99, 10), (1.0, 10)])
def test_a_percentile_is_one_of_the_samples(share, value):
    assert percentile(list(range(1, 11)), share) == value
