"""Stories are read line by line, and a story that goes another way than it says is noticed, whichever way that is.

The stories of the engine are in tests/stories.
"""

import pytest

from holdfast.testing.story import Action, Do, Elapse, Expect, Fences, Happening, StoryError, parse, replay, title
from holdfast.words import CR, CW, EX, FOREVER, PR, SECOND

STORY = """
# A waiter is granted when the holder's lease runs out.
a: acquire orders/17 exclusive lease=30
-> a granted fence=1

   b: try orders/17 CR
-> b busy
time +30s
-> a ended expired
"""


class Script:
    """A stage on which just that happens which is written down, one list for each action."""

    def __init__(self, *scenes: list[Happening]) -> None:
        self.scenes = list(scenes)
        self.played: list[Action] = []

    def play(self, action: Action) -> list[Happening]:
        self.played.append(action)
        return self.scenes.pop(0)


GRANTED = Happening("a", ("granted",), {"key": "orders/17", "fence": "1"})
BUSY = Happening("b", ("busy",))
EXPIRED = Happening("a", ("ended", "expired"))


# --- reading ---


def test_a_story_becomes_steps() -> None:
    assert parse(STORY) == [
        Do(3, "a", "acquire", b"orders/17", EX, {"lease": "30"}),
        Expect(4, "a", ("granted",), {"fence": "1"}),
        Do(6, "b", "try", b"orders/17", CR, {}),
        Expect(7, "b", ("busy",), {}),
        Elapse(8, 30 * SECOND),
        Expect(9, "a", ("ended", "expired"), {}),
    ]


def test_the_title_is_the_comment_in_the_first_line() -> None:
    assert title(STORY.lstrip()) == "A waiter is granted when the holder's lease runs out."
    assert title("a: hangup\n") == ""
    assert title("") == ""


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("time +500ms", Elapse(1, SECOND // 2)),
        ("time +1s late", Elapse(1, SECOND, "late")),
        ("time +1s unseen", Elapse(1, SECOND, "unseen")),
        ("fences off", Fences(1, on=False)),
        ("fences on", Fences(1, on=True)),
        ("a: hangup keep=yes", Do(1, "a", "hangup", b"", None, {"keep": "yes"})),
        ("a: convert k shared value=v", Do(1, "a", "convert", b"k", PR, {"value": "v"})),
        ("a: release k:1 with=b", Do(1, "a", "release", b"k:1", None, {"with": "b"})),
    ],
)
def test_a_line_becomes_a_step(line: str, step: Action) -> None:
    assert parse(line) == [step]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("once upon a time", "not a line"),
        ("a b: hangup", "not a line"),
        ("time +3", "not a line"),
        ("time -3s", "not a line"),
        ("fences maybe", "not a line"),
        ("a: ponder k", "nobody knows how to 'ponder'"),
        ("a: acquire", "needs a key"),
        ("a: acquire k royal", "no mode is called 'royal'"),
        ("a: acquire k exclusive now", "cannot be read with"),
        ("a: release k exclusive", "cannot be read with"),
        ("a: hangup k", "cannot be read with"),
        ("a: convert k", "cannot be read with"),
        ("a: try k patience=5", "has no option"),
        ("a: acquire lease=3 k", "bare words come first"),
        ("a: lease=3", "bare words come first"),
    ],
)
def test_a_line_that_makes_no_sense_is_refused_with_its_number(line: str, why: str) -> None:
    with pytest.raises(StoryError, match=why) as caught:
        parse(f"# A story.\n{line}")
    assert caught.value.line == 2
    assert str(caught.value).startswith("line 2: ")


def test_a_story_cannot_begin_with_what_came_of_it() -> None:
    with pytest.raises(StoryError, match="before anybody did anything"):
        parse("-> a granted")


def test_options_are_read_as_what_they_mean() -> None:
    do = Do(1, "a", "acquire", b"k", options={"lease": "0.5", "patience": "forever", "units": "2", "nudges": "yes"})
    assert do.span_ns("lease") == SECOND // 2
    assert do.span_ns("patience", default=0) == FOREVER
    assert do.span_ns("other", default=7) == 7
    assert (do.count("units", 1), do.count("limit", 9)) == (2, 9)
    assert do.is_set("nudges")
    assert not do.is_set("queue")
    assert do.is_set("queue", "yes")


def test_what_names_no_mode_asks_for_a_seat_where_there_is_a_limit_and_else_for_everything() -> None:
    assert Do(1, "a", "acquire", b"k").wanted_mode() is EX
    assert Do(1, "a", "acquire", b"k", options={"limit": "3"}).wanted_mode() is CW
    assert Do(1, "a", "acquire", b"k", PR, {"limit": "3"}).wanted_mode() is PR


# --- replaying ---


def test_a_story_that_goes_as_it_says_is_played_to_its_end() -> None:
    stage = Script([GRANTED], [BUSY], [EXPIRED])
    replay(parse(STORY), stage)
    assert [action.line for action in stage.played] == [3, 6, 8]


def test_a_story_may_tell_as_many_facts_as_it_likes() -> None:
    story = "a: acquire orders/17\n-> a granted key=orders/17 fence=1"
    replay(parse(story), Script([GRANTED]))
    with pytest.raises(StoryError, match="expected: -> a granted colour=red"):
        replay(parse("a: acquire orders/17\n-> a granted colour=red"), Script([GRANTED]))


def test_an_empty_story_needs_no_stage() -> None:
    replay(parse("# Nothing ever happens.\n"), Script())


@pytest.mark.parametrize(
    ("scenes", "why"),
    [
        ([[GRANTED], [], [EXPIRED]], "line 7: this did not happen: -> b busy"),
        ([[GRANTED, BUSY], [BUSY], [EXPIRED]], "line 3: the story does not tell this: -> b busy"),
        ([[GRANTED], [BUSY], [BUSY]], "line 9: expected: -> a ended expired"),
        ([[EXPIRED], [BUSY], [EXPIRED]], "line 4: expected: -> a granted fence=1"),
        ([[Happening("a", ("granted",), {"fence": "2"})]], "happened: -> a granted fence=2"),
        ([[Happening("b", ("granted",), {"fence": "1"})]], "happened: -> b granted fence=1"),
    ],
)
def test_a_story_that_goes_another_way_is_noticed(scenes: list[list[Happening]], why: str) -> None:
    with pytest.raises(StoryError, match=why):
        replay(parse(STORY), Script(*scenes))
