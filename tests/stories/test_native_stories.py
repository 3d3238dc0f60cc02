"""Every story that the native protocol can tell goes through its door as it says: modes, conversions, nudges, values.

Who hears of something first is not told apart where several callers hear of it at one instant.
"""

from pathlib import Path

import pytest

from holdfast.testing.native_stage import NativeStoryStage, is_spoken
from holdfast.testing.story import Action, Do, Expect, Happening, StoryError
from tests.stories.test_line_stories import scenes

STORIES = sorted(Path(__file__).parent.glob("*.txt"))


# What is another story here: a client that asks for another mode gives up what it asked for before.
OTHERWISE = "# One conversion at a time"


def can_be_told(text: str) -> bool:
    return not text.startswith(OTHERWISE) and all(
        is_spoken(action) for action, _ in scenes(text) if isinstance(action, Do)
    )


def audible(action: Action, expected: list[Expect], gone: set[str]) -> list[Expect]:
    """Leave out what nobody is told: who has hung up hears nothing more, and who gives back is told so once."""
    if isinstance(action, Do):
        gone.discard(action.who)
        if action.verb == "hangup":
            gone.add(action.who)
        elif action.verb == "release":
            expected = [told for told in expected if (told.who, told.words) != (action.who, ("ended", "released"))]
    return [told for told in expected if told.who not in gone]


def compare(action: Action, expected: list[Expect], happened: list[Happening]) -> None:
    """Each caller hears what the story says, in its order."""
    for who in sorted({one.who for one in [*expected, *happened]}):
        wanted = [told for told in expected if told.who == who]
        got = [told for told in happened if told.who == who]
        if len(wanted) != len(got) or not all(map(Happening.answers, got, wanted)):
            raise StoryError(action.line, f"expected: {[*map(str, wanted)]}\n  happened: {[*map(str, got)]}")


def tell(text: str) -> None:
    stage = NativeStoryStage()
    gone: set[str] = set()
    for action, expected in scenes(text):
        compare(action, audible(action, expected, gone), stage.play(action))


@pytest.mark.parametrize(
    "story", [path for path in STORIES if can_be_told(path.read_text())], ids=lambda path: path.stem
)
def test_the_story_goes_as_it_says_through_the_native_door(story: Path) -> None:
    tell(story.read_text())


def test_nearly_all_stories_can_be_told() -> None:
    left_out = {path.stem for path in STORIES if not can_be_told(path.read_text())}
    withdrawals = {"conversion_patience", "patience"}  # to withdraw a conversion alone, and to wait for no time
    assert left_out == {*withdrawals, "conversion_once", "group", "group_patience"}  # groups are answered as one


@pytest.mark.parametrize(
    "wrong",
    [
        "a: acquire job exclusive\n-> a waiting",
        "a: acquire job exclusive\n-> a granted fence=2",
        "a: acquire job shared\n-> a granted mode=EX",
        "a: acquire job exclusive\n-> a granted\nb: acquire job exclusive\n-> b granted",
        "a: acquire job exclusive\n-> a granted\nb: try job exclusive\n-> b timed_out",
        "a: acquire job PR nudges=yes\n-> a granted\nb: acquire job EX\n-> b waiting",
        "a: acquire job exclusive lease=5\n-> a granted\ntime +5s",
    ],
)
def test_a_story_that_is_wrong_is_found_out(wrong: str) -> None:
    with pytest.raises(StoryError):
        tell(wrong)
