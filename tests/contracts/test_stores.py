"""Every store keeps the contract, store.py and group.py: in memory, on paper, in a real file with and without a thread.

What only some of them promise, such as outliving a restart, is tested beside them.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.contracts.group import GroupContract
from tests.contracts.store import StoreContract
from tests.stores.rig import MemoryRig, PaperRig, Rig, SqliteRig


class TestMemory(StoreContract, GroupContract):
    @pytest.fixture
    def rig(self) -> Rig:
        return self.limited()

    def limited(self, **limits: int) -> Rig:
        return MemoryRig(**limits)


class TestPaper(StoreContract, GroupContract):
    """A shelf that performs one transaction at a time."""

    @pytest.fixture
    def rig(self) -> Rig:
        return self.limited()

    def limited(self, **limits: int) -> Rig:
        return PaperRig(**limits)


class TestPaperAhead(TestPaper):
    """A shelf whose next transaction is over before anybody hears of the last one."""

    def limited(self, **limits: int) -> Rig:
        return PaperRig(ahead=True, **limits)


class TestPaperOneByOne(TestPaper):
    """A shelf that may do one command at a time only."""

    def limited(self, **limits: int) -> Rig:
        return PaperRig(batch_max=1, **limits)


class TestSqlite(StoreContract, GroupContract):
    """A shelf on a real file."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> Iterator[None]:
        self.path = tmp_path / "holdfast.db"
        with ExitStack() as self.opened:
            yield

    @pytest.fixture
    def rig(self, folder: None) -> Rig:
        return self.limited()

    def limited(self, **limits: int) -> Rig:
        return self.opened.enter_context(SqliteRig(self.path, **limits))
