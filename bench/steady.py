"""`python -m bench.steady`: a long HTTP load on one server over a file, and whether its memory stays what it was.

80 callers take, renew and give back locks of their own all the time, while new connections come and take new names.
"""

import argparse
import subprocess
import sys
import time
from statistics import median

from bench.durable import durable
from bench.programs import GRACE_S, built, read_figures
from bench.tables import table

SECONDS = 600.0
CONNECTIONS = 80
RATE = 20  # new connections a second
SAMPLES = 60
# What counts as flat: names that were used and are not forgotten yet come and go.
GROWTH_MAX = 1.10
MEGABYTE = 1_000_000


def steady(seconds: float) -> tuple[str, bool]:
    """Load a server, look at its memory, and say whether it stays flat once names are forgotten as they come."""
    samples: list[tuple[float, int]] = []
    with durable() as measured:
        loads = [
            subprocess.Popen([built(name), *map(str, arguments)], stdout=subprocess.PIPE, text=True)
            for name, *arguments in (
                ("httpload", measured.http_port, CONNECTIONS, seconds),
                ("connections", measured.http_port, RATE, seconds, "lock"),
            )
        ]
        started = time.monotonic()
        while (passed := time.monotonic() - started) < seconds:
            time.sleep(seconds / SAMPLES)
            samples.append((passed, measured.server.memory_bytes()))
        figures = [read_figures(load.communicate(timeout=GRACE_S)[0]) for load in loads]
    return report(samples, figures)


def report(samples: list[tuple[float, int]], figures: list[dict[str, float]]) -> tuple[str, bool]:
    """Compare the second quarter of the run, when all is warm, with the last."""
    quarter = len(samples) // 4
    early = median(taken for _, taken in samples[quarter : 2 * quarter])
    late = median(taken for _, taken in samples[-quarter:])
    flat = late <= early * GROWTH_MAX and not any(one["errors"] for one in figures)
    rows: list[list[object]] = [
        ["requests/s", figures[0]["requests/s"]],
        ["p99 ms", figures[0]["p99"] / 1000],
        ["BUSY_RETRY answers", figures[0]["busy"]],
        ["errors", sum(one["errors"] for one in figures)],
        ["memory in the second quarter, MB", early / MEGABYTE],
        ["memory in the last quarter, MB", late / MEGABYTE],
        ["flat", "yes" if flat else "no"],
    ]
    return table(["of the whole run", ""], rows), flat


def main() -> int:
    """Run and tell; answer the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.steady", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"how long (default {SECONDS:g})")
    text, flat = steady(parser.parse_args().seconds)
    print(text)
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
