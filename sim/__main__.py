"""`python -m sim`: replay one seed, run many, or see that planted bugs are caught. `leases` does so with lease trials.

Only the command line lives here.
"""

import argparse
import sys
import time
from contextlib import nullcontext

from sim import leases
from sim.bugs import BUGS
from sim.planting import planted
from sim.run import Summary, keep_quiet, run

REPORTS_MAX = 3
SEEDS_FOR_A_BUG = 2_000


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; answer the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["leases"]:
        return leases.main(arguments[1:])
    options = _parse(arguments)
    keep_quiet()
    if options.bugs:
        return catch_all(options.seeds or SEEDS_FOR_A_BUG)
    with planted(BUGS[options.bug]) if options.bug else nullcontext():
        if options.seed is not None:
            return replay(options.seed)
        return run_many(range(options.start, options.start + (options.seeds or SEEDS_FOR_A_BUG)))


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m sim",
        description="The real server under a seed.",
        epilog="`python -m sim leases` is about clients that lose their leases; it has its own --help.",
    )
    parser.add_argument("seed", nargs="?", type=int, help="replay this seed")
    parser.add_argument("--seeds", type=int, help=f"how many seeds to run (default {SEEDS_FOR_A_BUG})")
    parser.add_argument("--from", type=int, default=0, dest="start", help="the first of them")
    parser.add_argument("--bug", choices=BUGS, metavar="NAME", help="with this bug planted")
    parser.add_argument("--bugs", action="store_true", help="plant every bug in turn, and run until it is caught")
    return parser.parse_args(arguments)


def replay(seed: int) -> int:
    """Run one seed, and tell the end of its story if it is a bad one."""
    outcome = run(seed)
    print(outcome.report())
    return 1 if outcome.findings else 0


def run_many(seeds: range) -> int:
    """Run many seeds; the first bad ones are told."""
    summary = Summary()
    for seed in seeds:
        outcome = run(seed)
        summary.add(outcome)
        if outcome.findings and summary.failed <= REPORTS_MAX:
            print(outcome.report(), end="\n\n")
    print(summary)
    return 1 if summary.failed else 0


def catch_all(seeds: int) -> int:
    """Plant each bug, and say by which seed and which checker it was caught."""
    missed = 0
    for bug in BUGS.values():
        start = time.perf_counter()
        with planted(bug):
            outcome = next((outcome for seed in range(seeds) if (outcome := run(seed)).findings), None)
        seconds = time.perf_counter() - start
        missed += outcome is None
        how = "MISSED" if outcome is None else f"seed {outcome.history.seed}: {outcome.findings[0].checker}"
        print(f"{bug.name:40} {seconds:5.1f} s  {how}", flush=True)
    print(f"{len(BUGS) - missed} passed, {missed} failed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
