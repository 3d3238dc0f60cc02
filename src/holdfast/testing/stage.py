"""The bare stage: plays a story on a table without desk, door or store, and checks all invariants after each step.

It translates between the words of a story and those of the engine; what must happen is for the story to say.
"""

from typing import Final

from holdfast.engine import group as groups
from holdfast.engine.invariants import check_table
from holdfast.engine.table import Table
from holdfast.testing.mint import CountingMint
from holdfast.testing.story import Action, Do, Elapse, Fences, Happening
from holdfast.words import (
    FOREVER,
    SECOND,
    UNLIMITED,
    Answer,
    Cancel,
    Claim,
    Convert,
    Effect,
    End,
    Ended,
    Granted,
    Group,
    Hangup,
    Mode,
    Nudged,
    Reason,
    Renew,
    Ticket,
    Wait,
    member_ticket,
)

# How the answers that a story would spell in another way are called there.
WORDS: Final = {Answer.QUEUED: "waiting"}

KEYS_MAX: Final = 1000
IDLE_MAX_NS: Final = 60 * SECOND


class BareStage:
    """A table, and callers by name: each is one session, with one claim on a key at a time, alone or in a group."""

    def __init__(self, *, waiters_max: int = 0) -> None:
        self.mint = CountingMint(start=1000)
        self.table = Table(self.mint, KEYS_MAX, waiters_max, IDLE_MAX_NS)
        self.now = 1_000_000 * SECOND
        self._sessions: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._tickets: dict[tuple[str, bytes], Ticket] = {}  # the last one of each caller on each key
        self._tokens: dict[tuple[str, bytes], bytes] = {}
        self._first_fence = 0
        self._verbs = {
            "acquire": self._enqueue,
            "try": self._enqueue,
            "enqueue": self._enqueue,
            "wait": self._wait,
            "renew": self._renew,
            "release": self._end,
            "break": self._end,
            "convert": self._convert,
            "cancel": self._cancel,
            "hangup": self._hangup,
        }

    def play(self, action: Action) -> list[Happening]:
        out: list[Effect] = []
        happened: list[Happening] = []
        if isinstance(action, Do):
            happened = self._verbs[action.verb](action, out)
        elif isinstance(action, Fences):
            self.mint.dry = not action.on
        else:
            self._elapse(action, out)
        happened += [self._told(effect) for effect in out]
        check_table(self.table, self.now)
        return happened

    # --- verbs ---

    def _enqueue(self, do: Do, out: list[Effect]) -> list[Happening]:
        if len(do.keys) > 1:
            return self._enqueue_all(do, out)
        c = self._claim(do, do.key)
        c.session = self._session(do.who)
        c.ticket = self._tickets[do.who, do.key] = do.line
        return self._answered(do, self.table.enqueue(c, self.now, out), c)

    def _claim(self, do: Do, key: bytes) -> Claim:
        return Claim(
            key,
            do.wanted_mode(),
            do.count("units", 1),
            do.count("limit", UNLIMITED),
            do.span_ns("lease"),
            do.span_ns("patience"),
            queue=do.verb != "try",
            tracked=do.verb == "enqueue",
            listens=do.is_set("nudges"),
        )

    def _enqueue_all(self, do: Do, out: list[Effect]) -> list[Happening]:
        ticket = b"line-%d" % do.line
        for index, key in enumerate(do.keys):
            self._tickets[do.who, key] = member_ticket(ticket, index)
        claims = [self._claim(do, key) for key in do.keys]
        group = Group(ticket, claims, do.span_ns("patience"), do.verb != "try")
        group.session = self._session(do.who)
        answer = self.ask_for_all(group, out)
        if answer is not Answer.GRANTED:
            return self._answered(do, answer)
        return [told for c in group.claims for told in self._answered(do, answer, c)]

    def ask_for_all(self, group: Group, out: list[Effect]) -> Answer:
        return groups.enqueue(self.table, group, self.now, out)[0]

    def _wait(self, do: Do, out: list[Effect]) -> list[Happening]:
        how = Wait(self._session(do.who), self._ticket(do), do.span_ns("patience"))
        return self._answered(do, *self.table.wait(how, self.now, out))

    def _renew(self, do: Do, out: list[Effect]) -> list[Happening]:
        return self._answered(do, self.table.renew(Renew(do.key, self._token(do), do.span_ns("lease")), self.now, out))

    def _end(self, do: Do, out: list[Effect]) -> list[Happening]:
        reason = Reason.BROKEN if do.verb == "break" else Reason.RELEASED
        value = do.options.get("value")
        how = End(do.key, self._token(do), reason, None if value is None else value.encode())
        how.session = self._session(do.who)
        return self._answered(do, self.table.end(how, self.now, out))

    def _convert(self, do: Do, out: list[Effect]) -> list[Happening]:
        value = do.options.get("value")
        how = Convert(
            self._session(do.who),
            self._ticket(do),
            do.wanted_mode(),
            do.span_ns("patience"),
            do.is_set("queue", "yes"),
            None if value is None else value.encode(),
        )
        return self._answered(do, *self.table.convert(how, self.now, out))

    def _cancel(self, do: Do, out: list[Effect]) -> list[Happening]:
        how = Cancel(self._session(do.who), self._ticket(do))
        return self._answered(do, self.table.cancel(how, self.now, out)[0])

    def _hangup(self, do: Do, out: list[Effect]) -> list[Happening]:
        self.table.hangup(Hangup(self._session(do.who), keep_held=do.is_set("keep")), self.now, out)
        return []  # nobody is left to be answered

    def _elapse(self, elapse: Elapse, out: list[Effect]) -> None:
        until = self.now + elapse.span_ns
        while elapse.ticks == "due" and self.table.next_deadline() <= until:
            self.now = max(self.now, self.table.next_deadline())
            self.table.tick(self.now, out)
        self.now = until
        if elapse.ticks == "late":
            self.table.tick(self.now, out)

    # --- who is who ---

    def _session(self, who: str) -> int:
        session = self._sessions.setdefault(who, len(self._sessions) + 1)
        self._names[session] = who
        return session

    def _ticket(self, do: Do) -> Ticket:
        return self._tickets.get((do.who, do.key), 0)

    def _token(self, do: Do) -> bytes:
        return self._tokens.get((do.options.get("with", do.who), do.key), b"")

    # --- telling ---

    def _answered(self, do: Do, answer: Answer, c: Claim | None = None) -> list[Happening]:
        word = WORDS.get(answer, answer.name.lower())
        if answer is Answer.GRANTED and c is not None:
            return [Happening(do.who, (word,), self._facts_of_grant(c))]
        return [Happening(do.who, (word,), {"key": do.key.decode()})]

    def _told(self, effect: Effect) -> Happening:
        c = effect.claim
        who = self._names[c.session]
        if isinstance(effect, Granted):
            return Happening(who, ("granted",), self._facts_of_grant(c))
        facts = {"key": c.key.decode()}
        if isinstance(effect, Nudged):
            return Happening(who, ("nudged", Mode(effect.want).name), facts)
        word = "ended" if isinstance(effect, Ended) else "stayed"
        return Happening(who, (word, effect.reason.name.lower()), facts)

    def _facts_of_grant(self, c: Claim) -> dict[str, str]:
        """Tell what a holder may know. Fences are counted from the first one of the story."""
        self._first_fence = self._first_fence or c.fence
        self._tokens[self._names[c.session], c.key] = c.token
        facts = {
            "key": c.key.decode(),
            "fence": str(c.fence - self._first_fence + 1),
            "mode": Mode(c.mode).name,
            "units": str(c.units),
            "lease": "forever" if c.lease_ns == FOREVER else f"{c.lease_ns / SECOND:g}",
        }
        r = self.table.resources[c.key]
        if r.value is not None:
            facts["value"] = r.value.decode() if r.value_valid else f"{r.value.decode()}?"
        return facts
