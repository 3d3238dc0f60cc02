"""Every story goes on the bare engine as it says.

Which stories can be told through a door, and are, is tested where the doors are.
"""

from pathlib import Path

import pytest

from holdfast.testing.stage import BareStage
from holdfast.testing.story import parse, replay, title

STORIES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_the_story_goes_as_it_says(story: Path) -> None:
    replay(parse(story.read_text()), BareStage())


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_the_story_says_in_its_first_line_what_it_is_about(story: Path) -> None:
    assert title(story.read_text()).endswith(".")
