"""Running seeds: one world after the other, judged, and what to say about them.

No decision about what is right is made here.
"""

import io
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.observe.logs import configure
from sim.checkers.every import judge
from sim.checkers.talks import Finding
from sim.history import Connected, History, Minted, Started, Taken
from sim.trace import trace
from sim.world import World

EVENTS_SHOWN = 40
COUNTED = {"grants": Minted, "requests": Taken, "connections": Connected, "starts": Started}


@dataclass(slots=True)
class Outcome:
    """What one seed came to."""

    history: History
    findings: list[Finding]

    def report(self) -> str:
        """Say what was found, and what happened right before."""
        if not self.findings:
            return f"seed {self.history.seed}: no findings in {len(self.history.events)} events"
        first = min(self.findings, key=lambda finding: finding.step)
        return "\n".join(
            [
                f"seed {self.history.seed}, commit {commit()}",
                *trace(self.history, EVENTS_SHOWN, first.step),
                *(f"  {finding}" for finding in self.findings),
            ]
        )


@dataclass(slots=True)
class Summary:
    """What many seeds came to."""

    passed: int = 0
    failed: int = 0
    findings: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        self.passed += not outcome.findings
        self.failed += bool(outcome.findings)
        self.findings += len(outcome.findings)
        for name, kind in COUNTED.items():
            self.counts[name] += sum(type(event) is kind for event in outcome.history.events)

    def __str__(self) -> str:
        counts = ", ".join(f"{self.counts[name]:,} {name}" for name in COUNTED)
        seeds = f"{self.passed + self.failed} seeds, {self.findings} findings, {counts}"
        return f"{seeds}\n{self.passed} passed, {self.failed} failed"


def run(seed: int) -> Outcome:
    """Live through one seed, and judge it."""
    history = World(seed).run()
    return Outcome(history, judge(history))


def keep_quiet() -> None:
    """Send the logs of the server nowhere: callers who make mistakes would fill them."""
    configure("error", "json", io.StringIO())


def commit() -> str:
    """Name the version of the code, so that a failure can be replayed on it."""
    command = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
