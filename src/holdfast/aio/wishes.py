"""What a caller may say about a lock beside its name, its lease and its patience; the same for everything one can lock.

Only names and types live here; they are checked in `client/options.py`.
"""

from collections.abc import Callable
from typing import Literal, TypedDict

from holdfast.aio.held import Held
from holdfast.client.options import Options, Seconds, options_of


class Wishes(TypedDict, total=False):
    """All of them may be left out."""

    margin: Seconds | None
    """By how much earlier than the server this side lets the lease end; as said to `connect` where it is left out."""

    beat_timeout: Seconds | None
    """The lease is renewed no longer than that after the last `held.beat()`."""

    on_danger: Callable[[Held], object] | None
    """Called when a third of the lease is left, because renewing fails."""

    on_lost: Callable[[Held], object] | None
    """Called when it is lost."""

    on_contended: Callable[[Held], object] | None
    """Called when somebody else wants it."""

    cancel_on_lost: bool
    """Whether the body of the `with` is interrupted when it is lost."""

    operation: str | None
    """What it is for; shown to those who look who holds it."""

    deadlock: Literal["refuse"] | None
    """"refuse": raise WouldDeadlock rather than close a circle of callers that wait for each other."""


def options_for(
    lease: Seconds,
    patience: Seconds | None,
    wishes: Wishes,
    margin: Seconds | None,
    *,
    mode: str = "EX",
    limit: int | None = None,
    units: int = 1,
) -> Options:
    """Check what a caller says; `margin` is that of the client."""
    return options_of(
        lease=lease,
        patience=patience,
        margin=wishes.get("margin", margin),
        mode=mode,
        limit=limit,
        units=units,
        beat_timeout=wishes.get("beat_timeout"),
        on_danger=wishes.get("on_danger"),
        on_lost=wishes.get("on_lost"),
        on_contended=wishes.get("on_contended"),
        cancel_on_lost=wishes.get("cancel_on_lost", False),
        operation=wishes.get("operation"),
        deadlock=wishes.get("deadlock"),
    )
