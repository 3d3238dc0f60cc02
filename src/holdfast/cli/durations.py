"""Lengths of time on a command line, written as Go writes them: 800ms, 1.5s, 1m30s.

Nothing here knows what a length of time is for, nor how long it may be.
"""

import re
from decimal import Decimal

UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
CHARACTERS_MAX = 64

_PART = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_PARTS = re.compile(_PART, re.ASCII)
_WHOLE = re.compile(f"(?:{_PART})+", re.ASCII)


def parse(text: str) -> int:
    """Read a length of time as nanoseconds; raises ValueError."""
    if text == "0":
        return 0
    if len(text) > CHARACTERS_MAX or not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is no length of time, such as 800ms, 20s or 1m30s")
    return int(sum(Decimal(number) * UNITS[unit] for number, unit in _PARTS.findall(text)))


def spell(ns: int) -> str:
    """Write a length of time in the way it is read, as short as it gets."""
    found = ""
    for unit in ("h", "m"):
        count, ns = divmod(ns, UNITS[unit])
        found += f"{count}{unit}" if count else ""
    if ns or not found:
        unit = next((unit for unit in ("s", "ms", "us") if ns >= UNITS[unit]), "ns") if ns else "s"
        number = f"{Decimal(ns) / UNITS[unit]:f}"
        found += (number.rstrip("0").rstrip(".") if "." in number else number) + unit
    return found
