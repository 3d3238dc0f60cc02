"""Records in a real SQLite file: what a restart finds, what people see in the tables, and what is too long or odd.

Trouble with the file is in test_sqlite_trouble.py, the company of the original in test_sqlite_original.py.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.stores.backend import Keeping, Record
from holdfast.stores.sqlite import ROWS_MAX, SqliteBackend, _pieces
from holdfast.words import CW, FOREVER, PR, RESIDENT, SECOND, Answer, Ended, Reason
from tests.stores.lockserver import LockServer
from tests.stores.rig import KEY, SqliteRig

YEAR = 365 * 86_400


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@pytest.fixture
def rig(path: Path) -> Iterator[SqliteRig]:
    with SqliteRig(path) as rig:
        yield rig


# --- what lasts ---


def test_after_a_kill_leases_go_on_and_waiters_are_gone(rig: SqliteRig) -> None:
    held = rig.ask(lease_s=30)
    rig.ask(session=2)
    pool = [rig.ask(b"sem:pool", CW, limit=3, units=2, session=3), rig.ask(b"sem:pool", CW, limit=3, session=4)]
    readers = [rig.ask(b"lock:shared", PR, session=session) for session in (5, 6)]
    rig.restart()
    assert rig.held() == {KEY: [1], b"sem:pool": [1, 2], b"lock:shared": [1, 2]}
    assert rig.census().waiting == 0
    assert rig.renew(held, 10) is Answer.RENEWED
    assert [rig.end(claim) for claim in (*pool, *readers)] == [Answer.ENDED] * 4
    rig.log.take()
    rig.after(10)
    assert rig.log.take() == [(Ended, Reason.EXPIRED)]


def test_a_claim_without_a_session_of_its_own_is_found_again_by_its_ticket(rig: SqliteRig) -> None:
    held = rig.ask(session=RESIDENT, ticket=b"once", owner=b"me")
    rig.restart()
    again = rig.ask(session=RESIDENT, ticket=b"once", owner=b"me")
    assert rig.log.take() == [Answer.GRANTED, Answer.GRANTED]
    assert (rig.now_is(again).fence, rig.now_is(again).token) == (held.fence, held.token)


@pytest.mark.parametrize(
    "key", [KEY, b"sem:pool", b"lock:", b"lock:\0nul\0", b"lock:\xff\xfe", "lock:ключ".encode(), b"lock:" + b"k" * 1000]
)
def test_fences_are_dense_from_one_over_releases_expiries_sweeps_and_restarts(rig: SqliteRig, key: bytes) -> None:
    for fence in range(1, 9):
        claim = rig.ask(key, limit=3, lease_s=5)
        assert claim.fence == fence
        rig.ask(key, limit=3, patience_s=0)  # who is refused uses none up
        if fence % 2:
            rig.end(claim)
        rig.after(70)
        if fence % 3 == 0:
            rig.sweep()
            assert key not in rig.table.resources
        if fence % 4 == 0:
            rig.restart()


def test_the_clock_does_not_go_back_over_restarts(rig: SqliteRig, path: Path) -> None:
    held = rig.ask(lease_s=30)
    then = rig.clock.now
    rig.kill()
    rig.clock.now -= YEAR * SECOND
    rig.start()
    assert rig.steady() == then
    rig.clock.advance(20)
    assert rig.renew(held, 30) is Answer.RENEWED
    rig.restart()
    rig.clock.advance(31)
    rig.tick()
    assert rig.log.take()[-1] == (Ended, Reason.EXPIRED)


def test_a_lease_that_never_ends_does_not_end_and_is_shown_far_in_the_future(rig: SqliteRig, path: Path) -> None:
    rig.ask(lease_s=None)
    rig.ask(b"lock:long", lease_s=290 * YEAR)
    rig.restart()
    rig.after(100 * YEAR)
    assert set(rig.held()) == {KEY, b"lock:long"}
    with LockServer(path) as other:
        assert other.row("job")[3] == (1 << 63) - 1
        assert other.row("long")[3] == (1 << 63) - 1  # beyond what a row can hold
    deadlines = {view.key: view.holders[0].deadline for view in rig.look()}
    assert deadlines[KEY] >= FOREVER


def test_of_a_group_a_kill_leaves_all_or_nothing(rig: SqliteRig) -> None:
    keys = (b"lock:left", b"lock:right", b"sem:seats")
    held = rig.ask_all(*keys, session=1, lease_s=30)
    rig.ask_all(*reversed(keys), session=2)
    fences = rig.held()
    assert sorted(fences) == sorted(keys)
    rig.restart()
    assert rig.held() == fences
    assert rig.census().waiting == 0
    again = rig.ask_all(*keys, session=9, ticket=held.ticket)
    assert [rig.now_is(claim).fence for claim in again.claims] == [fences[key][0] for key in keys]
    assert rig.renew(again.claims[0], 60) is Answer.RENEWED
    rig.restart()
    rig.after(30)
    assert list(rig.held()) == [keys[0]]
    rig.after(30)
    assert rig.held() == {}


# --- what people see ---


def test_the_row_of_a_lock_says_who_holds_it(rig: SqliteRig, path: Path) -> None:
    claim = rig.ask(owner=b"me", lease_s=30)
    with LockServer(path) as other:
        owner, lease_id, token, expiry, version = other.row("job")
        assert (owner, token, expiry, version) == ("me", 1, claim.deadline, 1)
        assert len(str(lease_id)) == 36
        rig.renew(claim, 60)
        assert other.row("job")[3:] == (rig.clock.now + 60 * SECOND, 2)
        rig.end(claim)
        assert other.row("job") == (None, None, 1, 0, 3)
        assert other.token("job") == 1


def test_of_a_lock_that_was_swept_away_its_token_stays(rig: SqliteRig, path: Path) -> None:
    rig.end(rig.ask())
    rig.end(rig.ask(b"sem:pool", CW, limit=3))
    rig.after(61)
    rig.sweep()
    with LockServer(path) as other:
        assert other.row("job") == ()
        assert other.token("job") == 1
        kept = other.connection.execute("SELECT * FROM holdfast_keys").fetchall()
    assert kept == [(b"sem:pool", 1, 2, None)]


def test_a_value_that_was_swept_away_is_gone(rig: SqliteRig) -> None:
    for key in (KEY, b"sem:pool"):
        rig.end(rig.ask(key), value=b"left")
    rig.after(61)
    rig.sweep()
    for key in (KEY, b"sem:pool"):
        rig.ask(key)
        assert rig.table.resources[key].value is None


def test_an_owner_that_is_no_text_is_shown_as_well_as_can_be(rig: SqliteRig, path: Path) -> None:
    rig.ask(owner=b"me\xff")
    with LockServer(path) as other:
        assert other.row("job")[0] == "me\ufffd"
    rig.restart()
    assert rig.look()[0].holders[0].owner == b"me\xff"


def test_every_commit_is_on_the_disk_when_it_returns(rig: SqliteRig) -> None:
    connection = rig.backend._connection
    assert connection is not None
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == (b"wal",)


# --- many ---


@pytest.mark.parametrize("count", [1, 2, 3, 127, 128, 129, 1000])
def test_lists_are_cut_into_pieces_whose_lengths_are_powers_of_two(count: int) -> None:
    pieces = list(_pieces(range(count)))
    assert [one for piece in pieces for one in piece] == list(range(count))
    assert all(len(piece) <= ROWS_MAX and len(piece).bit_count() == 1 for piece in pieces)


def test_hundreds_of_keys_in_one_transaction_come_back_after_a_restart(path: Path) -> None:
    with SqliteRig(path, keys_max=1000) as rig:
        keys = [b"%s:%d" % (kind, number) for kind in (b"lock", b"sem") for number in range(300)]
        rig.do(*(rig.claim(key, lease_s=None) for key in keys))
        rig.restart()
        assert rig.held() == {key: [1] for key in keys}
        rig.do(*(rig.claim(key, session=2) for key in keys))
        rig.log.take()
        rig.after(100)
        rig.hangup(2)
        rig.sweep()
        rig.restart()
        assert len(rig.held()) == 600


def test_what_a_backend_was_given_it_gives_back(path: Path) -> None:
    backend = SqliteBackend(str(path), 1)
    assert backend.open() == 0
    records = [
        Record(b"lock:held", 7, 3, b"\0document", b"me", b"lease", 7, 99),
        Record(b"lock:free", 5, 2, None, held_fence=5),
        Record(b"sem:held", 1, 1, b"document"),
        Record(b"sem:free", 4, 9),
    ]
    backend.begin()
    assert not backend.has_changed()
    backend.keep(Keeping(records, records, [], 123))
    backend.commit()
    keys = [record.key for record in records]
    assert sorted(backend.load([*keys, b"lock:no", b"sem:no"]), key=lambda r: keys.index(r.key)) == records
    assert [record.key for record in backend.load_busy()] == [b"lock:held", b"sem:held"]
    backend.close()
    backend.close()
    again = SqliteBackend(str(path), 1)
    assert again.open() == 123
    again.close()


def test_a_row_that_was_tampered_with_is_named(rig: SqliteRig, path: Path) -> None:
    rig.ask()
    with LockServer(path) as other:
        other.connection.execute("UPDATE locks SET version = 'many'")
        rig.ask(b"lock:else")
        assert rig.log.take() == [Answer.GRANTED, Answer.STORE_FAILED]
        assert rig.shelf.fault == "the row of b'job' in locks holds what none should"
        other.connection.execute("UPDATE locks SET version = 1")
    rig.ask(b"lock:else")
    assert rig.log.take() == [Answer.GRANTED]


def test_a_rollback_that_fails_ends_the_connection_and_the_next_transaction_has_a_new_one(
    rig: SqliteRig, path: Path
) -> None:
    class Stubborn(sqlite3.Connection):
        def execute(self, *arguments: str) -> sqlite3.Cursor:
            if arguments[0] in ("ROLLBACK", "COMMIT"):
                raise sqlite3.OperationalError("no")
            return super().execute(*arguments)

    held = rig.ask()
    connection = rig.backend._connection
    assert connection is not None
    connection.close()
    stubborn = sqlite3.connect(path, factory=Stubborn, isolation_level=None, check_same_thread=False)
    stubborn.text_factory = bytes
    rig.backend._connection = stubborn
    assert rig.end(held) is Answer.STORE_FAILED
    assert rig.backend._connection is None
    with LockServer(path) as other:
        other.acquire("job", "them", "odd", rig.clock.now, rig.clock.now + 9 * SECOND)
    rig.log.take()
    assert rig.end(held) is Answer.NOT_HELD  # what others wrote in between is seen
    assert rig.log.take() == [(Ended, Reason.BROKEN), Answer.NOT_HELD]
    assert rig.held() == {KEY: [2]}
