"""`python -m sim leases`: replay one lease trial, run many, or see that planted bugs are caught.

Only the command line lives here.
"""

import argparse
import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from sim.lease_bugs import BUGS
from sim.lease_trial import run
from sim.planting import planted
from sim.run import keep_quiet

REPORTS_MAX = 3
TRIALS = 10_000


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; answer the exit code."""
    options = _parse(arguments)
    with quiet():
        if options.bugs:
            return catch_all(options.trials)
        with planted(BUGS[options.bug]) if options.bug else nullcontext():
            if options.seed is not None:
                return replay(options.seed)
            return run_many(range(options.start, options.start + options.trials))


@contextmanager
def quiet() -> Iterator[None]:
    """Let neither the server nor the clients fill the screen with what they have to say of so much trouble."""
    keep_quiet()
    logger = logging.getLogger("holdfast.client")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    about = (
        "Clients that lose their leases, in virtual time: real client, real server, and everything between goes wrong."
    )
    parser = argparse.ArgumentParser(prog="python -m sim leases", description=about)
    parser.add_argument("seed", nargs="?", type=int, help="replay the trial of this seed")
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"how many to run (default {TRIALS:,})")
    parser.add_argument("--from", type=int, default=0, dest="start", help="the first of them")
    parser.add_argument("--bug", choices=BUGS, metavar="NAME", help="with this bug planted")
    parser.add_argument("--bugs", action="store_true", help="plant every bug in turn, and run until it is caught")
    return parser.parse_args(arguments)


def replay(seed: int) -> int:
    """Run one trial, and tell the end of its story if it is a bad one."""
    outcome = run(seed)
    print(outcome.report())
    return 1 if outcome.findings else 0


def run_many(seeds: range) -> int:
    """Run many trials; the first bad ones are told."""
    start = time.perf_counter()
    counts: Counter[str] = Counter()
    failed = 0
    for seed in seeds:
        outcome = run(seed)
        counts.update(outcome.counts)
        failed += bool(outcome.findings)
        if outcome.findings and failed <= REPORTS_MAX:
            print(outcome.report(), end="\n\n")
    told = ", ".join(f"{counts[name]:,} {name}" for name in sorted(counts))
    print(f"{len(seeds):,} lease trials in {time.perf_counter() - start:.0f} s: {told}")
    print(f"{len(seeds) - failed} passed, {failed} failed")
    return 1 if failed else 0


def catch_all(trials: int) -> int:
    """Plant each bug, and say in which trial and by which checker it was caught."""
    missed = 0
    for bug in BUGS.values():
        start = time.perf_counter()
        with planted(bug):
            outcome = next((outcome for seed in range(trials) if (outcome := run(seed)).findings), None)
        seconds = time.perf_counter() - start
        missed += outcome is None
        how = "MISSED" if outcome is None else f"trial {outcome.plan.seed}: {outcome.findings[0].checker}"
        print(f"{bug.name:40} {seconds:5.1f} s  {how}", flush=True)
    print(f"{len(BUGS) - missed} passed, {missed} failed")
    return 1 if missed else 0
