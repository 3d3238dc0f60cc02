"""`python -m bench.run`: measure Holdfast, a bare C server and, where it is installed, Redis, in one run.

Only the order of the parts and the page they make are decided here; each part measures in a file of its own.
"""

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from bench.client import client
from bench.cluster_locks import cluster_locks
from bench.durable import connections, durable_line, http
from bench.loads import closed_loop, handoff, pipelined
from bench.programs import built, built_library
from bench.standing import idle, memory

SECONDS = 3.0
ROUNDS = 5


def engine() -> str:
    """Measure the transitions alone, in a process of their own."""
    done = subprocess.run([sys.executable, "-m", "bench.engine"], capture_output=True, text=True, check=True)
    return "### Engine\n\n" + done.stdout.strip()


Part = Callable[[float, int], str]
PARTS: dict[str, Part] = {
    "closed": closed_loop,
    "pipelined": pipelined,
    "handoff": handoff,
    "memory": lambda _seconds, _rounds: memory(),
    "idle": lambda seconds, _rounds: idle(seconds),
    "durable": durable_line,
    "http": http,
    "connections": lambda seconds, _rounds: connections(seconds),
    "client": client,
    "leases": cluster_locks,
}
if find_spec("bench.engine"):
    PARTS["engine"] = lambda _seconds, _rounds: engine()


def machine() -> str:
    """Name what the figures depend on."""
    processor = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    return (
        f"{os.cpu_count()} cores of {processor}; Linux {platform.release()}; "
        f"Python {platform.python_version()}, uvloop {version('uvloop')}"
    )


def main() -> int:
    """Measure the parts asked for, and print a page of Markdown."""
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of each load (default {SECONDS:g})")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"to take medians of (default {ROUNDS})")
    parser.add_argument("--only", action="append", choices=sorted(PARTS), help="part to measure; may repeat")
    options = parser.parse_args()
    if options.seconds <= 0 or options.rounds < 1:
        parser.error("--seconds must be more than 0 and --rounds at least 1")

    for program in ("floor", "lockload", "pipeload", "handoff", "httpload", "connections"):
        built(program)
    built_library("synccount")
    print(f"{machine()}\n\nMedians of {options.rounds} alternating rounds of {options.seconds:g} s.", flush=True)
    for name, part in PARTS.items():
        if not options.only or name in options.only:
            print("\n" + part(options.seconds, options.rounds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
