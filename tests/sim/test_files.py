"""The files of a world: torn ends are torn where nothing was promised, and nothing is left behind in the machine.

What the real database makes of them is shown by running the simulator.
"""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import StoreBusy, StoreFailed
from holdfast.stores.backend import Keeping, Record
from holdfast.testing.disk import PowerCut
from sim.files import CUTS, Files, SickBackend, read, rows_in, tear, write
from sim.history import Committed, History
from sim.world import World

SAFE, UNSAFE = b"safe", b"unsafe"


def backend(path: Path, seed: int = 0) -> SickBackend:
    made = SickBackend(path, History(0), random.Random(seed))
    made.open()
    return made


def grant(to: SickBackend, fence: int) -> None:
    record = Record(b"lock:job", fence, fence, None, held_fence=fence)
    to.begin()
    to.keep(Keeping([record], [record], [], fence))
    to.commit()


@pytest.mark.parametrize("seed", range(20))
def test_what_was_synced_is_never_torn(seed: int) -> None:
    database, log = tear((b"database", SAFE + UNSAFE), SAFE, random.Random(seed))
    assert database == b"database"
    assert log.startswith(SAFE)


def test_what_was_not_synced_is_torn_in_many_ways() -> None:
    logs = {tear((b"", SAFE + UNSAFE), SAFE, random.Random(seed))[1] for seed in range(60)}
    assert {SAFE + UNSAFE, SAFE} < logs
    assert len(logs) > 10


def test_a_log_that_is_safe_stays_as_it_is() -> None:
    assert tear((b"", SAFE), SAFE, random.Random(1)) == (b"", SAFE)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("seed", range(8))
def test_after_a_power_cut_there_is_all_of_a_commit_or_nothing(tmp_path: Path, cut: str, seed: int) -> None:
    sick = backend(tmp_path / "locks.db", seed)
    grant(sick, 1)
    sick.cut = cut
    with pytest.raises(PowerCut):
        grant(sick, 2)
    history = sick._history
    write(tmp_path / "after.db", sick.remains(lose=True))
    committed = sum(isinstance(event, Committed) for event in history.events)
    assert committed in {"before a commit": (1,), "inside a commit": (1, 2), "after a commit": (2,)}[cut]
    with closing(sqlite3.connect(tmp_path / "after.db")) as connection:
        assert connection.execute("SELECT last_token FROM tokens").fetchall() == [(committed,)]


def test_files_that_refuse_keep_nothing(tmp_path: Path) -> None:
    sick = backend(tmp_path / "locks.db")
    sick.refuse({"commit"})
    with pytest.raises(StoreFailed, match="refuses to commit"):
        grant(sick, 1)
    sick.rollback()
    assert sick.is_sick
    sick.heal()
    assert rows_in(tmp_path / "locks.db")[1] == []
    sick.close()


def test_another_process_keeps_us_out_until_it_ends(tmp_path: Path) -> None:
    sick = backend(tmp_path / "locks.db")
    sick.intrude()
    with pytest.raises(StoreBusy):
        grant(sick, 1)
    sick.let_go()
    grant(sick, 1)
    sick.close()


def test_the_next_server_finds_other_files_with_the_same_in_them() -> None:
    files = Files()
    write(files.path, (b"database", b"log"))
    first = files.path
    files.replace(read(first))
    assert files.path != first
    assert not first.exists()
    assert read(files.path) == (b"database", b"log")
    files.remove()
    assert not files.path.parent.exists()


def test_a_world_leaves_nothing_behind() -> None:
    world = World(6)
    world.run()
    assert world.files is not None
    assert not world.files.path.parent.exists()
