"""Files of LockServer, and LockServer itself at work on the same file: its word counts, and its tokens go on.

The original's hand is lockserver.py; nothing of it knows Holdfast.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.secret import token_of
from holdfast.testing.clock import HandClock
from holdfast.words import SECOND, Answer, End, Ended, Granted, Proof, Reason, Renew
from tests.stores.lockserver import LockServer
from tests.stores.rig import KEY, SqliteRig

LEASE_ID = "12345678-1234-4123-a123-123456789abc"
NOW = HandClock().now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lockserver.db"


@pytest.fixture
def other(path: Path) -> Iterator[LockServer]:
    with LockServer(path) as other:
        yield other


@pytest.fixture
def opened(path: Path, other: LockServer) -> Iterator[SqliteRig]:
    """A file that the original has used: one live lease, one that has run out, one lock that is free."""
    for number in range(4):
        other.acquire("job", "w1", LEASE_ID if number == 3 else "old", NOW - SECOND, NOW + 30 * SECOND)
    other.acquire("late", "w2", LEASE_ID, NOW - 90 * SECOND, NOW - 60 * SECOND)
    for _ in range(3):
        other.acquire("free", "w3", LEASE_ID, NOW - 90 * SECOND, NOW + 60 * SECOND)
    other.release("free", NOW - SECOND)
    with SqliteRig(path) as rig:
        yield rig


def test_a_live_lease_is_still_held(opened: SqliteRig) -> None:
    opened.ask(patience_s=0)
    assert opened.log.take() == [Answer.TIMED_OUT]
    (holder,) = opened.look(key=KEY)[0].holders
    assert (holder.owner, holder.fence, holder.deadline) == (b"w1", 4, NOW + 30 * SECOND)


def test_its_holder_renews_and_releases_with_what_the_original_gave_it(opened: SqliteRig, other: LockServer) -> None:
    token = token_of(4, LEASE_ID.encode())
    assert token is not None
    assert opened.do(Renew(KEY, token, 60 * SECOND, Proof(b"w2", LEASE_ID.encode()))) is Answer.NOT_HELD
    assert opened.do(Renew(KEY, token, 60 * SECOND, Proof(b"w1", LEASE_ID.encode()))) is Answer.RENEWED
    assert other.row("job") == ("w1", LEASE_ID, 4, NOW + 60 * SECOND, 5)
    assert opened.do(End(KEY, token, proof=Proof(b"w1", LEASE_ID.encode()))) is Answer.ENDED
    assert other.row("job") == (None, None, 4, 0, 6)
    assert opened.ask().fence == 5


def test_what_has_run_out_is_cleared_and_counted(opened: SqliteRig, other: LockServer) -> None:
    opened.tick()
    assert opened.log.take() == [(Ended, Reason.EXPIRED)]
    assert other.row("late") == (None, None, 1, 0, 2)
    assert opened.ask(b"lock:late").fence == 2


def test_tokens_of_free_locks_go_on(opened: SqliteRig, other: LockServer) -> None:
    assert opened.ask(b"lock:free").fence == 4
    assert other.token("free") == 4
    assert opened.ask(b"lock:new").fence == 1


def test_the_clock_starts_no_earlier_than_the_latest_row(path: Path, other: LockServer) -> None:
    other.acquire("job", "w1", LEASE_ID, NOW + 500 * SECOND, NOW + 530 * SECOND)
    with SqliteRig(path) as rig:
        assert rig.steady() == NOW + 500 * SECOND


def test_the_original_reads_on_where_we_stop(opened: SqliteRig, other: LockServer) -> None:
    opened.ask(b"lock:ours", owner=b"me")
    opened.kill()
    assert other.row("ours")[0] == "me"
    assert other.acquire("ours", "w1", LEASE_ID, NOW, NOW + SECOND) == 2
    opened.start()
    assert opened.held()[b"lock:ours"] == [2]


def test_a_name_that_is_no_utf_8_is_the_same_name_for_both(path: Path, other: LockServer) -> None:
    other.acquire("x", "w1", LEASE_ID, NOW, NOW + 5 * SECOND)
    for table in ("locks", "tokens"):
        other.connection.execute(f"UPDATE {table} SET lock_name = CAST(x'FF00FE' AS TEXT)")
    with SqliteRig(path) as rig:
        assert rig.held() == {b"lock:\xff\0\xfe": [1]}
        rig.after(100)
        rig.sweep()
        assert rig.ask(b"lock:\xff\0\xfe").fence == 2


# --- side by side ---


def test_who_lost_the_lock_to_the_original_is_told_so(path: Path) -> None:
    with SqliteRig(path) as rig, LockServer(path) as other:
        held = rig.ask(tracked=True)
        waiters = [rig.ask(session=session) for session in (2, 3)]
        rig.log.take()
        assert other.acquire("job", "w1", LEASE_ID, rig.clock.now, rig.clock.now + 20 * SECOND) == 2
        assert rig.renew(held, 10) is Answer.NOT_HELD
        assert rig.log.take() == [(Ended, Reason.BROKEN), Answer.NOT_HELD]
        assert other.row("job")[0] == "w1"
        rig.ask(session=4, patience_s=0)
        assert rig.log.take() == [Answer.TIMED_OUT]
        rig.after(20)
        assert rig.log.take() == [(Ended, Reason.EXPIRED), Granted]
        assert rig.now_is(waiters[0]).fence == 3
        assert rig.end(waiters[0]) is Answer.ENDED
        assert rig.now_is(waiters[1]).fence == 4


def test_a_lock_that_the_original_released_goes_to_whoever_waits(path: Path) -> None:
    with SqliteRig(path) as rig, LockServer(path) as other:
        rig.ask()
        waiter = rig.ask(session=2)
        rig.log.take()
        other.release("job", rig.clock.now)
        assert rig.probe() is None
        assert rig.log.take() == [(Ended, Reason.BROKEN), Granted]
        assert rig.now_is(waiter).fence == 2
        assert other.row("job")[2:] == (2, rig.now_is(waiter).deadline, 3)


def test_a_lease_that_the_original_renewed_lasts_as_long_as_it_says(path: Path) -> None:
    with SqliteRig(path) as rig, LockServer(path) as other:
        held = rig.ask(lease_s=5)
        other.renew("job", rig.clock.now + 50 * SECOND)
        rig.probe()
        rig.after(49)
        assert rig.held() == {KEY: [1]}
        assert rig.end(held) is Answer.ENDED


def test_tokens_are_never_given_out_twice_by_the_two_of_them(path: Path) -> None:
    with SqliteRig(path) as rig, LockServer(path) as other:
        tokens = []
        for _ in range(5):
            claim = rig.ask()
            tokens.append(claim.fence)
            rig.end(claim)
            tokens.append(other.acquire("job", "w1", LEASE_ID, rig.clock.now, rig.clock.now + 1))
            other.release("job", rig.clock.now)
        assert tokens == list(range(1, 11))
