"""What `holdfast doctor` can say of one thing: how it stands, what was found, and what to do about it.

What is examined, and what is good or bad, stands in the files beside this one.
"""

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """How it stands; the value is what people read."""

    OK = "ok"
    NOTE = "note"  # nothing to mend, but good to know
    WARNING = "warning"  # works, and will hurt one day
    BAD = "bad"  # does not work, or breaks promises


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was examined."""

    part: str
    state: State
    found: str
    advice: str = ""


def size(count: int) -> str:
    """Spell a number of bytes for people."""
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if value >= 10 or unit == "bytes" else f"{value:.1f} {unit}"
