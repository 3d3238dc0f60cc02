"""The doctor looks at the clocks: are they right, are they kept right, and do they run at their own pace?

Leases are lengths of time, so a clock that is wrong does less harm than one that runs fast. No server is asked here.
"""

import ctypes
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from holdfast.cli.doctor_findings import Finding, State

PART = "clock"
SOURCES = Path("/sys/devices/system/clocksource/clocksource0")
# A read of these leaves the processor, and a lock server reads the clock for each request.
SLOW_SOURCES = ("acpi_pm", "hpet", "jiffies", "pit")

# No clock that is right shows an earlier time than this.
EARLIEST = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
# A client ends its lease 2 % before the server does, which is what two clocks may differ by.
RATE_PPM_WARNING = 5_000
RATE_PPM_BAD = 10_000
TICK_US = 10_000  # what a tick is worth when nobody hurries the clock
STATUS_UNSYNCHRONISED = 0x0040


@dataclass(frozen=True, slots=True)
class Reading:
    """What the machine tells of its clocks; None is what it does not tell."""

    wall_s: float
    slept_s: float
    synchronised: bool | None
    rate_ppm: float | None  # by how much the clock is made to run faster than by itself
    source: str | None


class Timex(ctypes.Structure):
    """What adjtimex(2) fills in, as far as it is of interest; the rest is room."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time", ctypes.c_long * 2),
        ("tick", ctypes.c_long),
        ("rest", ctypes.c_long * 32),
    ]


def read() -> Reading:
    """Ask the machine."""
    wall_s = time.time()
    slept_s = time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    timex = Timex()
    current = SOURCES / "current_clocksource"
    told = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex)) >= 0
    return Reading(
        wall_s,
        slept_s,
        not timex.status & STATUS_UNSYNCHRONISED if told else None,
        rate_ppm(timex.freq, timex.tick) if told else None,
        current.read_text(encoding="ascii").strip() if current.exists() else None,
    )


def rate_ppm(freq: int, tick: int) -> float:
    """Sum up the two ways in which the kernel makes a clock run faster: parts in a million, and whole ticks."""
    return freq / 65_536 + (tick - TICK_US) * 1_000_000 / TICK_US


def findings(reading: Reading) -> list[Finding]:
    """Judge."""
    return [*_time(reading), *_pace(reading), *_sleep(reading), *_source(reading)]


def _time(reading: Reading) -> list[Finding]:
    shown = datetime.fromtimestamp(reading.wall_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if reading.wall_s < EARLIEST:
        advice = "Set the clock before a server starts: where nothing else is kept, fences go on from it."
        return [Finding(PART, State.BAD, f"it says {shown}, which cannot be", advice)]
    if reading.synchronised is None:
        return [Finding(PART, State.NOTE, f"{shown}; the kernel does not tell whether anybody keeps it right")]
    if not reading.synchronised:
        advice = "Run chrony or systemd-timesyncd. Leases do not need it, but logs, and fences of a memory store, do."
        return [Finding(PART, State.WARNING, f"{shown}, and nobody keeps it right", advice)]
    return [Finding(PART, State.OK, f"{shown}, kept right by NTP")]


def _pace(reading: Reading) -> list[Finding]:
    if reading.rate_ppm is None:
        return []
    fast = abs(reading.rate_ppm)
    found = f"it is made to run {fast / 10_000:.2f} % {'faster' if reading.rate_ppm > 0 else 'slower'}"
    if fast < RATE_PPM_WARNING:
        return [Finding(PART, State.OK, f"runs at its own pace (within {max(1, round(fast))} ppm)")]
    advice = (
        "Clients allow for 2 % between their clock and the server's. Let the clock step instead (chrony: makestep), or "
        "connect clients with a larger margin."
    )
    return [Finding(PART, State.BAD if fast >= RATE_PPM_BAD else State.WARNING, found, advice)]


def _sleep(reading: Reading) -> list[Finding]:
    if reading.slept_s < 1:
        return []
    advice = "Leases on a server stand still while its machine sleeps. Keep the machine of a server awake."
    return [Finding(PART, State.WARNING, f"the machine has slept {reading.slept_s:.0f} s since it was started", advice)]


def _source(reading: Reading) -> list[Finding]:
    if reading.source not in SLOW_SOURCES:
        return []
    advice = f"See whether the kernel has a better one: cat {SOURCES}/available_clocksource"
    return [Finding(PART, State.WARNING, f"it is read from {reading.source}, which takes long", advice)]
