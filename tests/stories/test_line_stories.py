"""The stories that the line protocol can tell, told through the line door: real connections, only without a network.

What the protocol has no word for is not heard here: a caller learns what became of its claims when it asks.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing.line_stage import CountingTransport, LineCaller, LineStage
from holdfast.testing.story import Action, Do, Elapse, Expect, Fences, Happening, StoryError, parse, replay
from holdfast.words import CW, EX, FOREVER, SECOND

SECONDS_MAX = 9_223_372_036

# The verbs that the protocol has, and the options of each that it can express.
SPOKEN = {
    "acquire": {"lease", "patience", "limit"},
    "try": {"lease", "limit"},
    "enqueue": {"lease", "limit"},
    "wait": {"patience"},
    "renew": {"lease", "with"},
    "release": {"with"},
    "hangup": {"keep"},
}

# What a reply means, where it does not depend on the question.
MEANINGS = {
    "queued": "waiting",
    "error_not_enqueued": "not_enqueued",
    "error_already_enqueued": "already_enqueued",
    "error_lease_expired": "lease_expired",
    "error_limit_mismatch": "limit_mismatch",
    "error_max_locks": "too_many_keys",
    "error_max_waiters": "too_many_waiters",
}

# What a plain `error` and `ok` mean to whoever asked like this.
ERRORS = {"acquire": "no_fence", "try": "no_fence", "enqueue": "no_fence", "renew": "not_held", "release": "not_held"}


def scenes(text: str) -> Iterator[tuple[Action, list[Expect]]]:
    """Put each action together with what is told of it."""
    action: Action | None = None
    expected: list[Expect] = []
    for step in parse(text):
        if isinstance(step, Expect):
            expected.append(step)
            continue
        if action is not None:
            yield action, expected
        action, expected = step, []
    if action is not None:
        yield action, expected


def can_be_told(text: str) -> bool:
    """Say whether the line protocol has words for all that the callers of a story do."""
    used_up: set[tuple[str, bytes]] = set()
    waits: dict[str, tuple[str, bytes]] = {}
    for action, expected in scenes(text):
        if isinstance(action, Do):
            place = (action.who, action.key)
            if not is_spoken(action) or (action.verb == "wait" and place in used_up):
                return False  # a wait that was granted uses the enqueue up; the bare engine lets one wait again
            if action.verb == "wait":
                waits[action.who] = place
            elif action.verb == "enqueue":
                used_up.discard(place)
        used_up |= {waits[told.who] for told in expected if told.words == ("granted",) and told.who in waits}
    return True


def is_spoken(do: Do) -> bool:
    if do.verb not in SPOKEN or not do.options.keys() <= SPOKEN[do.verb]:
        return False
    return do.verb not in ("acquire", "try", "enqueue") or do.wanted_mode() == (CW if "limit" in do.options else EX)


class Told(CountingTransport):
    """A transport that also says who heard what, in one order for all callers."""

    def __init__(self, who: str, heard: list[tuple[str, str]]) -> None:
        super().__init__()
        self._who = who
        self._heard = heard

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        self._heard += [(self._who, line) for line in bytes(data).decode().splitlines()]


class LineStoryStage:
    """Plays a story through the line door, and tells what the callers hear."""

    def __init__(self, *, keep_held: bool) -> None:
        self.stage = LineStage(release_on_disconnect=not keep_held)
        self.blocked: dict[str, Do] = {}  # who waits for an answer, and to what
        self._heard: list[tuple[str, str]] = []
        self._callers: dict[str, LineCaller] = {}
        self._tokens: dict[tuple[str, bytes], str] = {}
        self._semaphores: set[bytes] = set()
        self._first_fence = 0

    def play(self, action: Action) -> list[Happening]:
        if isinstance(action, Fences):
            self.stage.mint.dry = not action.on
        elif isinstance(action, Elapse):
            self._elapse(action)
        elif action.verb == "hangup":
            self.blocked.pop(action.who, None)
            self._callers.pop(action.who).vanish()
        else:
            return self._ask(action)
        return self._happened()

    def _ask(self, do: Do) -> list[Happening]:
        if do.who not in self._callers:
            self._callers[do.who] = self.stage.caller(Told(do.who, self._heard))
        self.blocked[do.who] = do
        self._callers[do.who].send(self._frame(do))
        happened = self._happened(asked=do.who)
        answered = happened[:1] and happened[0].who == do.who
        return happened if answered else [Happening(do.who, ("waiting",)), *happened]

    def _elapse(self, elapse: Elapse) -> None:
        if elapse.ticks == "due":
            self.stage.after(elapse.span_ns / SECOND)
            return
        self.stage.clock.advance(elapse.span_ns / SECOND)
        if elapse.ticks == "late":
            self.stage.tick()

    def _frame(self, do: Do) -> bytes:
        patience, lease = seconds(do, "patience"), seconds(do, "lease")
        limit = do.options.get("limit")
        if limit is not None:
            self._semaphores.add(do.key)
        token = self._tokens.get((do.options.get("with", do.who), do.key), "none")
        command, fields = {
            "acquire": ("l", [patience, limit, lease]),
            "try": ("l", ["0", limit, lease]),
            "enqueue": ("e", [limit, lease]),
            "wait": ("w", [patience]),
            "renew": ("n", [token, lease]),
            "release": ("r", [token]),
        }[do.verb]
        prefix = "s" if do.key in self._semaphores else ""
        arg = " ".join(field for field in fields if field is not None)
        return f"{prefix}{command}\n{do.key.decode()}\n{arg}\n".encode()

    def _happened(self, asked: str = "") -> list[Happening]:
        # The door writes its answers at the end of a read, when others have been told already; a story tells it first.
        heard = sorted(self._heard, key=lambda line: line[0] != asked)
        self._heard.clear()
        return [self._meaning(self.blocked.pop(who), reply, at_once=who == asked) for who, reply in heard]

    def _meaning(self, do: Do, reply: str, *, at_once: bool) -> Happening:
        word, *fields = reply.split()
        if word in ("ok", "acquired") and len(fields) == 2:
            return self._granted(do, *fields)
        if word == "ok":
            return Happening(do.who, ("renewed",) if fields else ("ended",))
        if word == "timeout" and not at_once:
            return Happening(do.who, ("ended", "timed_out"))
        if word == "timeout":
            return Happening(do.who, ("busy",) if do.verb == "try" else ("timed_out",))
        return Happening(do.who, (MEANINGS.get(word) or ERRORS[do.verb],))

    def _granted(self, do: Do, token: str, lease: str) -> Happening:
        self._tokens[do.who, do.key] = token
        fence = int(token[:16], 16)
        self._first_fence = self._first_fence or fence
        facts = {"fence": str(fence - self._first_fence + 1), "lease": lease, "key": do.key.decode()}
        return Happening(do.who, ("granted",), facts)


def seconds(do: Do, option: str) -> str:
    """Spell a time; for ever is as long as the protocol can say."""
    span_ns = do.span_ns(option)
    return str(SECONDS_MAX if span_ns >= FOREVER else span_ns // SECOND)


def audible(action: Action, expected: list[Expect], blocked: set[str]) -> list[Expect]:
    """Leave out what nobody is told on the line: news of claims whose callers do not wait for an answer."""
    waiting = blocked | ({action.who} if isinstance(action, Do) else set())
    if isinstance(action, Do) and action.verb == "hangup":
        waiting.discard(action.who)
    kept = []
    for told in expected:
        if told.who in waiting:
            kept.append(told)
            if told.words != ("waiting",):
                waiting.discard(told.who)
    return kept


def tell(text: str) -> None:
    """Play a story through the line door."""
    keeps = {do.is_set("keep") for do, _ in scenes(text) if isinstance(do, Do) and do.verb == "hangup"}
    assert len(keeps) < 2, "whether it keeps is a setting of the door, and not of each hangup"
    stage = LineStoryStage(keep_held=keeps == {True})
    for action, expected in scenes(text):
        replay([action, *audible(action, expected, set(stage.blocked))], stage)


STORIES = [path for path in sorted(Path(__file__).parent.glob("*.txt")) if can_be_told(path.read_text())]


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_the_story_goes_as_it_says_through_the_line_door(story: Path) -> None:
    tell(story.read_text())


def test_a_good_part_of_the_stories_can_be_told() -> None:
    assert {path.stem for path in STORIES} >= {
        "hand_over",
        "hangup",
        "hangup_that_keeps",
        "late_tick",
        "lease_expiry",
        "no_fence",
        "renewal",
        "seats",
        "try_and_leave",
        "two_phase_once",
        "two_phase_without_patience",
        "unseen_expiry",
    }


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ("a: acquire job exclusive\n-> a waiting", 2),
        ("a: acquire job exclusive\n-> a granted fence=2", 2),
        ("a: acquire job exclusive\n-> a granted\nb: acquire job exclusive\n-> b granted", 4),
        ("a: acquire job exclusive\n-> a granted\nb: try job exclusive\n-> b timed_out", 4),
        ("a: acquire job exclusive lease=5\n-> a granted\nb: acquire job exclusive\n-> b waiting\ntime +5s", 5),
    ],
)
def test_a_story_that_is_wrong_is_found_out(wrong: str, line: int) -> None:
    with pytest.raises(StoryError) as caught:
        tell(wrong)
    assert caught.value.line == line


@pytest.mark.parametrize(
    "deed", ["acquire job shared", "acquire job units=2 limit=3", "break job", "acquire job nudges=yes"]
)
def test_what_the_protocol_has_no_word_for_is_not_tried(deed: str) -> None:
    assert not can_be_told(f"a: {deed}\n-> a granted")
