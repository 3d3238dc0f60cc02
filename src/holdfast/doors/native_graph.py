"""How the native door shows who waits for whom: explanations and cycles, as plain facts for JSON.

What is true of them is decided in engine/graph.py. Secrets and tickets never come by here.
"""

from holdfast.engine.graph import Cycle, Edge, Explanation, Hindrance, Party, Wish
from holdfast.wire import native_answers as answers
from holdfast.words import FOREVER, UNLIMITED

Facts = dict[str, object]


def explanation(told: Explanation, now: int) -> Facts:
    """Show why a key is not to be had at once."""
    return {
        **_on(told.key, told.limit),
        "holders": [answers.holder_view(holder, now) for holder in told.holders[: answers.HOLDERS_SHOWN_MAX]],
        "waiting": len(told.queue),
        "queue": [_wish(wish, now) for wish in told.queue[: answers.QUEUE_SHOWN_MAX]],
        "chain": [_wish(wish, now) for wish in told.chain],
        "cycles": [cycle(one, now) for one in told.cycles],
    }


def cycle(told: Cycle, now: int) -> list[Facts]:
    """Show a circle: each waits for the next, and the last for the first."""
    return [_edge(edge, now) for edge in told.edges]


def _on(key: bytes, limit: int) -> Facts:
    shown: Facts = {"key": answers.name_of(key), "kind": answers.kind_of(key)}
    return shown if limit == UNLIMITED else shown | {"limit": limit}


def _party(party: Party) -> Facts:
    shown = answers.introduction(party.owner, party.about, party.session)
    return shown | {"kept": True} if party.kept else shown


def _hindrance(hindrance: Hindrance, now: int) -> Facts:
    shown = _party(hindrance.party) | {
        "ahead": hindrance.ahead,
        "mode": answers.MODE_NAMES[hindrance.mode],
        "units": hindrance.units,
        "since_ms": answers.ms(now - hindrance.since),
    }
    return shown | {"fence": hindrance.fence} if hindrance.fence else shown


def _wants(wish: Wish | Edge, now: int) -> Facts:
    shown = _party(wish.party) | _on(wish.key, wish.limit)
    shown |= {
        "want": answers.MODE_NAMES[wish.want],
        "units": wish.units,
        "since_ms": answers.ms(now - wish.since),
        "converting": wish.converting,
    }
    return shown | {"group": wish.group} if wish.group else shown


def _wish(wish: Wish, now: int) -> Facts:
    return _wants(wish, now) | {
        "left_ms": None if wish.deadline >= FOREVER else answers.ms(wish.deadline - now),
        "blocked": wish.blocked,
        "before": wish.ahead,
        "deadlocked": wish.deadlocked,
        "behind": [_hindrance(one, now) for one in wish.hindrances],
    }


def _edge(edge: Edge, now: int) -> Facts:
    return _wants(edge, now) | {"behind": _hindrance(edge.hindrance, now)}
