"""The value block: a few bytes that travel with the lock, from the last writer to the next reader.

Only who writes and when it is trusted is decided here (statements S32 to S36); modes are granted elsewhere.
"""

from typing import Final

from holdfast.engine.resource import Resource
from holdfast.words import BIT, CR, CW, EX, NL, PR, PW, VALUE_BYTES_MAX, Claim, Reason

# WRITES[mode] is the mask of the modes to which a conversion from `mode` leaves the caller's value behind (S33).
WRITES: Final[tuple[int, ...]] = (
    0,
    0,
    0,
    0,
    BIT[NL] | BIT[CR] | BIT[CW] | BIT[PR] | BIT[PW],
    BIT[NL] | BIT[CR] | BIT[CW] | BIT[PR] | BIT[PW] | BIT[EX],
)

# The block is lost with its writer, not with an orderly farewell (S35).
ABRUPT: Final = (Reason.EXPIRED, Reason.LAPSED, Reason.BROKEN)


def writes(mode: int, want: int) -> bool:
    return bool(WRITES[mode] & BIT[want])


def leave(r: Resource, value: bytes) -> None:
    """Write the block; from now on it is trusted again."""
    assert len(value) <= VALUE_BYTES_MAX
    r.value = value
    r.value_seq += 1
    r.value_valid = True


def on_convert(r: Resource, c: Claim, want: int, value: bytes | None) -> None:
    if value is not None and writes(c.mode, want):
        leave(r, value)


def on_end(r: Resource, mode: int, reason: Reason, value: bytes | None) -> None:
    """A holder leaves: a writer writes (S34), a writer that vanished leaves the block in doubt."""
    if mode not in (PW, EX):
        return
    if value is not None:
        leave(r, value)
    elif reason in ABRUPT and r.value is not None:
        r.value_valid = False
