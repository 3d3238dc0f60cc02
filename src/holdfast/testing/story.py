"""Stories: transcripts in plain text of what callers do and what becomes of it, and how they are replayed.

Nothing here knows what a lock is: a stage does what the story says, and the story says what must come of it.

    # A waiter is granted when the holder's lease runs out.
    a: acquire orders/17 exclusive lease=30
    -> a granted fence=1
    b: acquire orders/17 exclusive patience=60
    -> b waiting
    time +30s
    -> a ended expired
    -> b granted fence=2

A line is a comment, a caller who does something, time that passes (`late`: with one tick at its end; `unseen`: with
none), `fences off` and `fences on`, or something that happened. All that happens has to be told, in its order; of the
facts behind it, those that matter.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from holdfast.words import CW, EX, FOREVER, PR, SECOND, Mode

# What a caller may do, and the options that go with it. All but a hangup are about a key, which comes first.
VERBS: Final[Mapping[str, frozenset[str]]] = {
    "acquire": frozenset({"lease", "patience", "units", "limit", "nudges", "also"}),
    "try": frozenset({"lease", "units", "limit", "nudges", "also"}),
    "enqueue": frozenset({"lease", "patience", "units", "limit", "nudges"}),
    "wait": frozenset({"patience"}),
    "renew": frozenset({"lease", "with"}),
    "release": frozenset({"value", "with"}),
    "break": frozenset({"with"}),
    "convert": frozenset({"patience", "queue", "value"}),
    "cancel": frozenset(),
    "hangup": frozenset({"keep"}),
}

# The verbs that take the name of a mode after the key; those that ask for a new claim can do without.
MODAL: Final = frozenset({"acquire", "try", "enqueue", "convert"})

MODES: Final[Mapping[str, int]] = {"exclusive": EX, "shared": PR} | {mode.name: int(mode) for mode in Mode}

_UNITS: Final = {"s": SECOND, "ms": SECOND // 1000}
_TIME: Final = re.compile(r"time \+(\d+)(s|ms)(?: (late|unseen))?")


class StoryError(Exception):
    """A story that cannot be read, or that did not go as it says."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line


@dataclass(frozen=True, slots=True)
class Do:
    """A caller does something."""

    line: int
    who: str
    verb: str
    key: bytes = b""
    mode: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def span_ns(self, option: str, default: int = FOREVER) -> int:
        """Read an option that is a number of seconds, or `forever`."""
        text = self.options.get(option)
        if text is None:
            return default
        return FOREVER if text == "forever" else round(float(text) * SECOND)

    def count(self, option: str, default: int) -> int:
        return int(self.options.get(option, default))

    def is_set(self, option: str, default: str = "no") -> bool:
        return self.options.get(option, default) == "yes"

    @property
    def keys(self) -> list[bytes]:
        """List all keys that are asked for at once; there is more than one where `also` names others, with commas."""
        return [self.key, *(key.encode() for key in self.options.get("also", "").split(",") if key)]

    def wanted_mode(self) -> int:
        """Say which mode is asked for: the one that is named, or a seat where there is a limit, or all of the key."""
        if self.mode is not None:
            return self.mode
        return CW if "limit" in self.options else EX


@dataclass(frozen=True, slots=True)
class Elapse:
    """Time passes."""

    line: int
    span_ns: int
    ticks: str = "due"  # due: at every deadline; late: once, at the end; unseen: not at all


@dataclass(frozen=True, slots=True)
class Fences:
    """From here on fences can be had, or not."""

    line: int
    on: bool


@dataclass(frozen=True, slots=True)
class Expect:
    """Something has happened to a caller."""

    line: int
    who: str
    words: tuple[str, ...]
    facts: Mapping[str, str]

    def __str__(self) -> str:
        return _spell(self.who, self.words, self.facts)


@dataclass(frozen=True, slots=True)
class Happening:
    """What a stage saw happen, with all the facts that it knows."""

    who: str
    words: tuple[str, ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return _spell(self.who, self.words, self.facts)

    def answers(self, expected: Expect) -> bool:
        told = all(self.facts.get(name) == value for name, value in expected.facts.items())
        return told and (self.who, self.words) == (expected.who, expected.words)


Action = Do | Elapse | Fences
Step = Action | Expect


def _spell(who: str, words: tuple[str, ...], facts: Mapping[str, str]) -> str:
    return " ".join(["->", who, *words, *(f"{name}={value}" for name, value in facts.items())])


# --- reading ---


def parse(text: str) -> list[Step]:
    """Read a story."""
    steps: list[Step] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if (stripped := line.strip()) and not stripped.startswith("#"):
            steps.append(_parse_line(number, stripped))
    if steps and isinstance(steps[0], Expect):
        raise StoryError(steps[0].line, "something happens before anybody did anything")
    return steps


def title(text: str) -> str:
    """Give the comment that a story begins with."""
    first = text.partition("\n")[0]
    return first.removeprefix("#").strip() if first.startswith("#") else ""


def _parse_line(number: int, line: str) -> Step:
    if line.startswith("-> "):
        who, *rest = line.split()[1:]
        words, facts = _sort(number, rest)
        return Expect(number, who, tuple(words), facts)
    if line in ("fences on", "fences off"):
        return Fences(number, line == "fences on")
    if passed := _TIME.fullmatch(line):
        count, unit, ticks = passed.groups()
        return Elapse(number, int(count) * _UNITS[unit], ticks or "due")
    who, colon, deed = line.partition(": ")
    if colon and who.isidentifier():
        return _parse_deed(number, who, deed)
    raise StoryError(number, f"not a line of a story: {line!r}")


def _parse_deed(number: int, who: str, deed: str) -> Do:
    (verb, *words), options = _sort(number, deed.split())
    if verb not in VERBS:
        raise StoryError(number, f"nobody knows how to {verb!r}")
    if unknown := options.keys() - VERBS[verb]:
        raise StoryError(number, f"{verb!r} has no option {sorted(unknown)}")
    if verb == "hangup":
        key = ""
    elif words:
        key = words.pop(0)
    else:
        raise StoryError(number, f"{verb!r} needs a key")
    mode = None
    if verb in MODAL and words:
        name = words.pop(0)
        if name not in MODES:
            raise StoryError(number, f"no mode is called {name!r}")
        mode = MODES[name]
    if words or (verb == "convert" and mode is None):
        raise StoryError(number, f"{verb!r} cannot be read with {words}")
    return Do(number, who, verb, key.encode(), mode, options)


def _sort(number: int, words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Part the bare words from those with an equals sign, which come last."""
    bare = [word for word in words if "=" not in word]
    if not bare or bare != words[: len(bare)]:
        raise StoryError(number, "bare words come first, then options")
    pairs = [word.partition("=") for word in words[len(bare) :]]
    return bare, {name: value for name, _, value in pairs}


# --- replaying ---


class Stage(Protocol):
    """Where a story is played: a bare engine, or a door."""

    def play(self, action: Action) -> list[Happening]:
        """Do what the story says, and tell all that came of it, in order."""


def replay(steps: list[Step], stage: Stage) -> None:
    """Play a story; raise StoryError where it goes another way than it says."""
    for action, expected in _scenes(steps):
        happened = stage.play(action)
        for number in range(max(len(expected), len(happened))):
            wanted = expected[number] if number < len(expected) else None
            got = happened[number] if number < len(happened) else None
            if wanted is None:
                raise StoryError(action.line, f"the story does not tell this: {got}")
            if got is None:
                raise StoryError(wanted.line, f"this did not happen: {wanted}")
            if not got.answers(wanted):
                raise StoryError(wanted.line, f"expected: {wanted}\n  happened: {got}")


def _scenes(steps: list[Step]) -> Iterator[tuple[Action, list[Expect]]]:
    """Put each action together with what is told of it."""
    action: Action | None = None
    expected: list[Expect] = []
    for step in steps:
        if isinstance(step, Expect):
            expected.append(step)
            continue
        if action is not None:
            yield action, expected
        action, expected = step, []
    if action is not None:
        yield action, expected
