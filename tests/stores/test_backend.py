"""What every backend owes a shelf: one suite, run on paper and on a SQLite file.

What becomes of a shelf when one fails is tested with the shelf.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.stores.backend import Backend, Keeping, Record
from holdfast.stores.sqlite import SqliteBackend
from holdfast.testing.paper_backend import PaperBackend

HELD = Record(b"lock:held", 7, 3, b"document", b"me", b"lease", 7, 99)
FREE = Record(b"lock:free", 5, 2, None, held_fence=5)
SEAT = Record(b"sem:held", 1, 1, b"document")


class Backends:
    """Makes a backend, and what the next start makes of the same."""

    def __init__(self, kind: str, path: Path) -> None:
        self._path = path
        self._paper = PaperBackend() if kind == "paper" else None
        self.backend: Backend = self._paper or SqliteBackend(str(path), 0.01)
        self.backend.open()

    def restart(self) -> int:
        self.backend.close()
        if self._paper is not None:
            self._paper = self.backend = self._paper.restarted()
        else:
            self.backend = SqliteBackend(str(self._path), 0.01)
        return self.backend.open()


@pytest.fixture(params=["paper", "sqlite"])
def backends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backends]:
    backends = Backends(request.param, tmp_path / "holdfast.db")
    yield backends
    backends.backend.close()


def keep(
    backend: Backend, *records: Record, granted: bool = True, forgotten: tuple[bytes, ...] = (), now: int = 1
) -> None:
    backend.begin()
    assert not backend.has_changed()
    backend.keep(Keeping(records, records if granted else (), forgotten, now))
    backend.commit()


def shown(records: object) -> list[tuple[bytes, int, int, bytes | None]]:
    return sorted((r.key, r.fence, r.version, r.document) for r in records)  # type: ignore[attr-defined]


def test_what_was_committed_is_there_after_a_restart(backends: Backends) -> None:
    keep(backends.backend, HELD, FREE, SEAT, now=77)
    assert backends.restart() == 77
    assert shown(backends.backend.load_busy()) == shown([HELD, SEAT])
    assert shown(backends.backend.load([b"lock:free", b"lock:none", b"sem:none"])) == shown([FREE])


def test_what_was_rolled_back_is_not(backends: Backends) -> None:
    keep(backends.backend, FREE)
    backends.backend.begin()
    backends.backend.keep(Keeping([HELD], [HELD], [], 99))
    backends.backend.rollback()
    backends.backend.rollback()
    assert backends.restart() == 1
    assert list(backends.backend.load_busy()) == []


def test_a_record_takes_the_place_of_the_one_before(backends: Backends) -> None:
    keep(backends.backend, HELD, SEAT)
    freed = [Record(b"lock:held", 7, 4, None, held_fence=7), Record(b"sem:held", 1, 2, None)]
    keep(backends.backend, *freed, granted=False)
    assert list(backends.backend.load_busy()) == []
    assert shown(backends.backend.load([b"lock:held", b"sem:held"])) == shown(freed)


def test_of_what_is_forgotten_the_fence_is_kept(backends: Backends) -> None:
    keep(backends.backend, FREE, SEAT)
    keep(backends.backend, forgotten=(b"lock:free", b"sem:held"))
    assert list(backends.backend.load_busy()) == []
    found = {record.key: record.fence for record in backends.backend.load([b"lock:free", b"sem:held"])}
    assert found == {b"lock:free": 5, b"sem:held": 1}


def test_a_transaction_without_records_keeps_the_time(backends: Backends) -> None:
    keep(backends.backend, now=123)
    assert backends.restart() == 123


def test_closing_twice_is_closing(backends: Backends) -> None:
    backends.backend.close()
    backends.backend.close()
