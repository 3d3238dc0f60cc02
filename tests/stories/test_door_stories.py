"""Stories in which every caller may come through either door: all of them are played for every choice of doors, on
memory and on SQLite.

One key, one queue, one order of fences, whatever the door: that is what has to come out the same each time.
"""

from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from holdfast.testing.story import Action, Do, Elapse, Expect, Happening, StoryError
from holdfast.words import EX
from tests.stories.hall import Hall
from tests.stories.test_line_stories import audible, scenes

# What both doors have words for. A renewal over HTTP never shortens a lease and asks for more than a token.
COMMON = {
    "acquire": {"lease", "patience"},
    "try": {"lease"},
    "renew": {"lease"},
    "release": set[str](),
    "hangup": set[str](),
}


def is_common(action: Action) -> bool:
    if isinstance(action, Elapse):
        return True
    if not isinstance(action, Do) or action.verb not in COMMON or not action.options.keys() <= COMMON[action.verb]:
        return False
    return action.verb not in ("acquire", "try") or action.wanted_mode() == EX


def can_be_told(text: str) -> bool:
    return all(is_common(action) for action, _ in scenes(text))


def casts(text: str) -> Iterator[dict[str, str]]:
    """List all ways in which the callers may be spread over the doors; only the line door notices who hangs up."""
    deeds = [action for action, _ in scenes(text) if isinstance(action, Do)]
    callers = sorted({do.who for do in deeds})
    leavers = {do.who for do in deeds if do.verb == "hangup"}
    for doors in product(("line", "http"), repeat=len(callers)):
        cast = dict(zip(callers, doors, strict=True))
        if all(cast[who] == "line" for who in leavers):
            yield cast


STORIES = [path for path in sorted(Path(__file__).parent.glob("*.txt")) if can_be_told(path.read_text())]
PLAYS = [
    pytest.param(path, cast, store, id=f"{path.stem}-{'-'.join(cast.values())}-{store}")
    for path in STORIES
    for cast in casts(path.read_text())
    for store in ("memory", "sqlite")
]


def compare(action: Action, expected: list[Expect], happened: list[Happening], facts: set[str]) -> None:
    """Each caller hears what the story says; who hears first at one instant is left open."""
    left = list(happened)
    for told in expected:
        # A caller whose patience ran out is told so in words that both doors have.
        known = {name: fact for name, fact in told.facts.items() if name in facts}
        wanted = Expect(told.line, told.who, words_of(told), known)
        found = next((one for one in left if one.answers(wanted)), None)
        if found is None:
            raise StoryError(told.line, f"expected: {told}\n  happened: {[str(one) for one in happened]}")
        left.remove(found)
    if left:
        raise StoryError(action.line, f"the story does not tell this: {left[0]}")


def words_of(told: Expect) -> tuple[str, ...]:
    return ("timed_out",) if told.words == ("ended", "timed_out") else told.words


def tell(text: str, cast: dict[str, str], store: str, folder: Path) -> None:
    blocked: set[str] = set()
    keys = {action.key for action, _ in scenes(text) if isinstance(action, Do) and action.key}
    # In a file every key counts its own grants; a story counts all of them.
    facts = {"fence"} if store == "memory" or len(keys) == 1 else set[str]()
    with closing(Hall(store, folder, cast)) as hall:
        for action, expected in scenes(text):
            heard = audible(action, expected, set(blocked))
            compare(action, heard, hall.play(action), facts)
            blocked |= {told.who for told in heard if told.words == ("waiting",)}
            blocked -= {told.who for told in heard if told.words != ("waiting",)}
            if isinstance(action, Do) and action.verb == "hangup":
                blocked.discard(action.who)


@pytest.mark.parametrize(("story", "cast", "store"), PLAYS)
def test_the_story_goes_as_it_says_through_any_doors(
    story: Path, cast: dict[str, str], store: str, tmp_path: Path
) -> None:
    tell(story.read_text(), cast, store, tmp_path)


def test_a_good_part_of_the_stories_can_be_told() -> None:
    told = {path.stem for path in STORIES}
    assert told >= {"hand_over", "lease_expiry", "two_doors", "renewal_in_time"}
    assert len(PLAYS) >= 100


@pytest.mark.parametrize("doors", list(product(("line", "http"), repeat=2)))
@pytest.mark.parametrize("wrong", ["b granted fence=2", "b busy", "b granted"])
def test_a_story_that_is_wrong_is_found_out(doors: tuple[str, str], wrong: str, tmp_path: Path) -> None:
    text = f"a: acquire job exclusive\n-> a granted fence=1\nb: acquire job exclusive\n-> {wrong}"
    with pytest.raises(StoryError):
        tell(text, dict(zip("ab", doors, strict=True)), "memory", tmp_path)
