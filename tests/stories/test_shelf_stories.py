"""Every story goes as it says with all keys kept in a database: each command is a durable transaction of its own.

The stories are those of the bare engine, and so is the stage; only the table behind it is a shelf.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.stores.backend import Backend
from holdfast.stores.sqlite import SqliteBackend
from holdfast.testing.paper_backend import PaperBackend
from holdfast.testing.stage import IDLE_MAX_NS, KEYS_MAX, BareStage
from holdfast.testing.story import parse, replay
from holdfast.words import Answer, Effect, Group
from tests.stores.shelf_table import ShelfTable
from tests.stories.test_stories import STORIES


class ShelfStage(BareStage):
    """The bare stage on another table."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.table: Any = ShelfTable(
            backend, self.mint, self.now, keys_max=KEYS_MAX, waiters_max=0, idle_max_ns=IDLE_MAX_NS
        )

    def ask_for_all(self, group: Group, out: list[Effect]) -> Answer:
        answer: Answer = self.table.enqueue_all(group, self.now, out)
        return answer


@pytest.fixture(params=["paper", "sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    backend = PaperBackend() if request.param == "paper" else SqliteBackend(str(tmp_path / "holdfast.db"), 1)
    yield backend
    backend.close()


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_the_story_goes_as_it_says_on_a_shelf(story: Path, backend: Backend) -> None:
    replay(parse(story.read_text()), ShelfStage(backend))
