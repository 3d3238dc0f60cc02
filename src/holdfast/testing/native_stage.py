"""The native dialect on a stage: the line stage with the real native door behind its `hello`, and callers who speak it.

Only the stage, its callers and a player of stories live here; what must happen is for a test or a story to say.
"""

import base64
import json
from typing import Any, Final

from holdfast.doors.native import NativeDoor
from holdfast.doors.native_connection import NativeSettings
from holdfast.testing.line_stage import CountingTransport, LineCaller, LineStage
from holdfast.testing.story import Action, Do, Elapse, Fences, Happening
from holdfast.wire.native import MS_MAX
from holdfast.words import FOREVER, SECOND, Mode

MILLISECOND: Final = 1_000_000

NATIVE_SETTINGS: Final[dict[str, Any]] = {
    "read_timeout_ns": 23 * SECOND,
    "write_timeout_ns": 5 * SECOND,
    "pending_bytes_max": 4096,
    "lease_default_ns": 33 * SECOND,
    "session_grace_ns": 30 * SECOND,
    "sessions_max": 0,
}

Line = dict[str, Any]


class PaperDice:
    """Gives bytes that anybody can predict, never the same twice."""

    def __init__(self) -> None:
        self.rolled = 0

    def roll(self, count: int) -> bytes:
        self.rolled += 1
        return self.rolled.to_bytes(8, "big").ljust(count, b"\0")


class NativeStage(LineStage):
    """Everything between the bytes of the callers and the table of keys; `native` changes settings of the door."""

    def __init__(self, *, native: dict[str, Any] | None = None, **line: Any) -> None:
        super().__init__(**line)
        settings = NativeSettings(**(NATIVE_SETTINGS | (native or {})))
        self.native = NativeDoor(self.desk, self.clock, self.alarms.append, PaperDice(), settings)
        self.door.dialect = self.native

    def next_deadline(self) -> int:
        return min(super().next_deadline(), self.native.next_deadline())

    def tick(self) -> None:
        self.native.tick(self.clock.now)
        super().tick()

    def client(self, transport: CountingTransport | None = None, **hello: Any) -> "NativeCaller":
        """Let somebody connect and say hello."""
        caller = NativeCaller(self, transport or CountingTransport())
        self.callers.append(caller)
        caller.hello(**hello)
        return caller


class NativeCaller(LineCaller):
    """One client: what it says, and what it hears."""

    def __init__(self, stage: NativeStage, transport: CountingTransport) -> None:
        super().__init__(stage, transport)
        self.session = ""
        self._ids = 0

    def hello(self, **fields: Any) -> Line:
        """Change to the native protocol; the answer tells the session."""
        reply = self.ask("hello", "_", json.dumps({"version": 1, **fields}))
        assert reply.startswith("ok "), reply
        greeting: Line = json.loads(reply[3:])
        self.session = greeting["session"]
        return greeting

    def post(self, op: str, **fields: Any) -> int:
        """Send a request; give its id."""
        self._ids += 1
        self.send(json.dumps({"id": self._ids, "op": op, **fields}).encode() + b"\n")
        return self._ids

    def lines(self) -> list[Line]:
        """Take what has arrived."""
        return [json.loads(line) for line in self.heard().splitlines()]

    def call(self, op: str, **fields: Any) -> Line:
        """Send a request and take its answer, which has come at once; nothing else has."""
        id_ = self.post(op, **fields)
        (answer,) = self.lines()
        assert answer.pop("id") == id_
        return answer


def ticket(name: str) -> str:
    """Make a ticket that is long enough."""
    return f"{name}-".ljust(16, "0")


# --- stories ---

# The verbs that the protocol has, and the options of each that it can express.
SPOKEN: Final = {
    "acquire": {"lease", "patience", "limit", "units", "nudges"},
    "try": {"lease", "limit", "units", "nudges"},
    "enqueue": {"lease", "limit", "units", "nudges"},
    "wait": {"patience"},
    "renew": {"lease", "with"},
    "release": {"with", "value"},
    "break": {"with"},
    "convert": {"patience", "queue", "value"},
    "hangup": {"keep"},
}

# What an error means to whoever asked like this; the others are called the same.
ERRORS: Final = {"fence_unavailable": "no_fence", "lease_lost": "lease_expired"}


def is_spoken(do: Do) -> bool:
    """Say whether the protocol has words for what a caller does."""
    if do.verb not in SPOKEN or not do.options.keys() <= SPOKEN[do.verb]:
        return False
    return do.verb != "acquire" or do.span_ns("patience") > 0  # else it is a try here


class Told(CountingTransport):
    """A transport that also says who heard what, in one order for all callers."""

    def __init__(self, who: str, heard: list[tuple[str, Line]]) -> None:
        super().__init__()
        self._who = who
        self._heard = heard

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        lines = bytes(data).decode().splitlines()
        self._heard += [(self._who, json.loads(line)) for line in lines if not line.startswith("ok ")]


class NativeStoryStage:
    """Plays a story through the native door, and tells what the callers hear."""

    def __init__(self) -> None:
        self.stage = NativeStage(native={"session_grace_ns": 0})
        self._heard: list[tuple[str, Line]] = []
        self._callers: dict[str, NativeCaller] = {}
        self._asked: dict[tuple[str, int], Do] = {}  # what is not answered yet
        self._tickets: dict[tuple[str, bytes], str] = {}  # the last one of each caller on each key
        self._tokens: dict[tuple[str, bytes], str] = {}
        self._semaphores: set[bytes] = set()
        self._first_fence = 0

    def play(self, action: Action) -> list[Happening]:
        if isinstance(action, Fences):
            self.stage.mint.dry = not action.on
            return self._take("")
        if isinstance(action, Elapse):
            self._elapse(action)
            return self._take("")
        if action.verb == "hangup":
            self._hang_up(action)
            return self._take("")
        op = {"try": "acquire", "release": "end"}.get(action.verb, action.verb)
        id_ = self._caller(action.who).post(op, **self._fields(action))
        self._asked[action.who, id_] = action
        return self._take(action.who)

    def _caller(self, who: str) -> NativeCaller:
        if who not in self._callers:
            self._callers[who] = self.stage.client(Told(who, self._heard))
        return self._callers[who]

    def _hang_up(self, do: Do) -> None:
        caller = self._callers.pop(do.who)
        if do.is_set("keep"):
            caller.vanish()
            self.stage.native.tick(self.stage.clock.now)
        else:
            caller.post("bye")
        self._heard[:] = [(who, line) for who, line in self._heard if who != do.who]
        self._asked = {asked: other for asked, other in self._asked.items() if asked[0] != do.who}
        self.stage.settle()

    def _elapse(self, elapse: Elapse) -> None:
        if elapse.ticks == "due":
            self.stage.after(elapse.span_ns / SECOND)
            return
        self.stage.clock.advance(elapse.span_ns / SECOND)
        if elapse.ticks == "late":
            self.stage.tick()

    # --- what is said ---

    def _fields(self, do: Do) -> Line:
        if do.verb in ("acquire", "try", "enqueue"):
            return self._claim(do)
        if do.verb == "break" or "with" in do.options:
            kind = "semaphore" if do.key in self._semaphores else "lock"
            token = self._tokens.get((do.options.get("with", do.who), do.key), "0" * 32)
            fields: Line = {"key": do.key.decode(), "kind": kind, "token": token}
        else:
            fields = {"ticket": self._tickets.get((do.who, do.key), ticket("none"))}
        if do.verb == "break":
            fields["reason"] = "a story"
        if do.verb in ("wait", "convert"):
            fields["patience_ms"] = _ms(do, "patience")
        if do.verb == "renew":
            fields["lease_ms"] = _ms(do, "lease") or MS_MAX
        if do.verb == "convert":
            fields["mode"] = Mode(do.wanted_mode()).name
            fields["queue"] = do.is_set("queue", "yes")
        if "value" in do.options:
            fields["value"] = base64.b64encode(do.options["value"].encode()).decode()
        return fields

    def _claim(self, do: Do) -> Line:
        name = self._tickets[do.who, do.key] = ticket(f"line-{do.line}")
        fields: Line = {"key": do.key.decode(), "ticket": name, "mode": Mode(do.wanted_mode()).name}
        fields |= {"lease_ms": _ms(do, "lease") or MS_MAX, "nudge": do.is_set("nudges")}
        if "limit" in do.options:
            self._semaphores.add(do.key)
            fields |= {"limit": do.count("limit", 1), "units": do.count("units", 1)}
        if do.verb == "acquire":
            fields["patience_ms"] = _ms(do, "patience")
        if do.verb == "try":
            fields["patience_ms"] = 0
        return fields

    # --- what is heard ---

    def _take(self, asked: str) -> list[Happening]:
        happened: list[Happening] = []
        answered = False
        for who, line in self._heard:
            do = self._asked.pop((who, line["id"]), None) if "id" in line else None
            at_once = who == asked and do is not None
            answered = answered or at_once
            told = self._meaning(who, line) if do is None else self._answer(do, line, at_once=at_once)
            if told is not None:
                happened.insert(0 if at_once else len(happened), told)
        self._heard.clear()
        if asked and not answered:
            converts = any(do.verb == "convert" for (who, _), do in self._asked.items() if who == asked)
            happened.insert(0, Happening(asked, ("converting" if converts else "waiting",)))
        return happened

    def _answer(self, do: Do, line: Line, *, at_once: bool) -> Happening | None:
        if "answer" in line:
            word = str(line["answer"])
            told = Happening(do.who, ("waiting" if word == "queued" else word,))
            return self._granted(do.who, line) if word == "granted" else told
        error = ERRORS.get(str(line["error"]), str(line["error"]))
        if not at_once and do.verb == "convert":
            return None  # the event tells it
        if not at_once and error == "timed_out":
            return Happening(do.who, ("ended", "timed_out"))
        return Happening(do.who, ("not_enqueued" if do.verb == "wait" and error == "not_held" else error,))

    def _meaning(self, who: str, line: Line) -> Happening:
        event = line["event"]
        if event == "granted":
            return self._granted(who, line)
        return Happening(who, (event, line["want"] if event == "nudged" else line["reason"]), {"key": line["key"]})

    def _granted(self, who: str, line: Line) -> Happening:
        key = line["key"].encode()
        self._tokens[who, key] = line["token"]
        self._first_fence = self._first_fence or line["fence"]
        lease_ms = line["lease_ms"]
        facts = {
            "key": line["key"],
            "fence": str(line["fence"] - self._first_fence + 1),
            "mode": line["mode"],
            "units": str(line["units"]),
            "lease": "forever" if lease_ms == MS_MAX else f"{lease_ms / 1000:g}",
        }
        if line["value"] is not None:
            facts["value"] = base64.b64decode(line["value"]).decode() + ("" if line["value_valid"] else "?")
        return Happening(who, ("granted",), facts)


def _ms(do: Do, option: str) -> int | None:
    """Spell a time; nothing stands for ever."""
    span_ns = do.span_ns(option)
    return None if span_ns >= FOREVER else span_ns // MILLISECOND
