"""What the Python client costs: pairs over one connection beside the C load tool, renewals in CPU time, the import.

Each figure is taken in a fresh process, which is this module once more: `python -m bench.client pairs PORT SECONDS`.
"""

import argparse
import subprocess
import sys
import time

import holdfast
from bench.programs import GRACE_S, ProgramFailed, figures_of, read_figures
from bench.servers import holdfast as holdfast_server
from bench.servers import running
from bench.tables import Figures, medians, ratio, table

LOCKS = 1000
LEASE_S = 3.0  # so that a round of renewals comes each second
MS = 1e3

# What the client is held to.
PAIRS_RATIO_MIN = 0.6
ROUND_MS_MAX = 20.0
IMPORT_MS_MAX = 60.0

IMPORTS = {
    "import holdfast": "import holdfast",
    "from holdfast import connect": "from holdfast import connect",
}


def client(seconds: float, rounds: int) -> str:
    """Measure all three."""
    return "\n\n".join((pairs(seconds, rounds), renewals(seconds, rounds), imports(rounds)))


def pairs(seconds: float, rounds: int) -> str:
    """Measure acquire and release pairs of one caller, of the C load tool and of the client in turn."""
    taken: dict[str, list[Figures]] = {"lockload": [], "client": []}
    with running("holdfast", holdfast_server) as server:
        for round_ in range(rounds):
            for who in ("lockload", "client") if round_ % 2 == 0 else ("client", "lockload"):
                if who == "lockload":
                    figures: Figures = figures_of(who, "line", server.port, 1, seconds, seconds=seconds)
                else:
                    figures = in_a_fresh_process("pairs", server.port, seconds, seconds=seconds)
                taken[who].append(figures)
    of_half = 2 * ratio("pairs/s", taken["client"], taken["lockload"])
    rows: list[list[object]] = [
        ["C load tool", medians(taken["lockload"])["pairs/s"], ""],
        ["sync client", medians(taken["client"])["pairs/s"], of_half],
    ]
    title = f"### Client: acquire and release over one connection (at least {PAIRS_RATIO_MIN:g} of half the C tool)"
    return f"{title}\n\n" + table(["caller", "pairs/s", "÷ half of the C tool"], rows)


def renewals(seconds: float, rounds: int, locks: int = LOCKS) -> str:
    """Measure the CPU time of the client's process for each round in which all of its locks are renewed."""
    with running("holdfast", holdfast_server) as server:
        taken = [
            in_a_fresh_process("renewals", server.port, seconds, locks, seconds=seconds + LEASE_S)
            for _ in range(rounds)
        ]
    title = f"### Client: a round of renewals of {locks:,} locks (less than {ROUND_MS_MAX:g} ms)"
    return f"{title}\n\n" + table(["", "CPU ms"], [["a round", medians(taken)["cpu_ms"]]])


def imports(rounds: int) -> str:
    """Measure how long the import takes in a fresh interpreter, beyond its own start."""
    taken: dict[str, list[Figures]] = {name: [] for name in IMPORTS}
    for _ in range(rounds):
        for name, statement in IMPORTS.items():
            code = f"import time; t = time.perf_counter(); {statement}; print('ms', (time.perf_counter() - t) * 1e3)"
            taken[name].append(_figures([sys.executable, "-c", code], GRACE_S))
    rows: list[list[object]] = [[name, medians(figures)["ms"]] for name, figures in taken.items()]
    return f"### Client: import (less than {IMPORT_MS_MAX:g} ms)\n\n" + table(["statement", "ms"], rows)


def in_a_fresh_process(what: str, *arguments: object, seconds: float) -> Figures:
    """Have this module take one figure."""
    return _figures([sys.executable, "-m", "bench.client", what, *map(str, arguments)], seconds + GRACE_S)


def _figures(command: list[str], seconds: float) -> Figures:
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode != 0:
        raise ProgramFailed(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()}")
    return read_figures(done.stdout)


# --- in the fresh process ---


def load_pairs(port: int, seconds: float) -> Figures:
    """Take and give back one lock, again and again."""
    done = 0
    with holdfast.connect(f"holdfast://127.0.0.1:{port}") as client:
        lock = client.lock("bench")
        with lock:
            pass  # the connection is there
        start = time.perf_counter()
        end = start + seconds
        while time.perf_counter() < end:
            with lock:
                done += 1
        took = time.perf_counter() - start
    return {"pairs/s": done / took}


def load_renewals(port: int, seconds: float, locks: int) -> Figures:
    """Hold many locks, do nothing else, and see what their renewal costs."""
    with holdfast.connect(f"holdfast://127.0.0.1:{port}") as client:
        held = [client.lock(f"bench-{number}", lease=LEASE_S).acquire() for number in range(locks)]
        time.sleep(min(LEASE_S / 3, seconds))  # the first round comes with the connection
        cpu_s, started = time.process_time(), time.perf_counter()
        time.sleep(seconds)
        cpu_s, took = time.process_time() - cpu_s, time.perf_counter() - started
        for one in held:
            one.check()
    return {"cpu_ms": cpu_s * MS / (took / (LEASE_S / 3))}


def main() -> int:
    """Take one figure, and print it as the C programs do."""
    parser = argparse.ArgumentParser(prog="python -m bench.client", description=__doc__)
    parser.add_argument("what", choices=["pairs", "renewals"])
    parser.add_argument("port", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("locks", type=int, nargs="?", default=LOCKS)
    options = parser.parse_args()
    if options.what == "pairs":
        figures = load_pairs(options.port, options.seconds)
    else:
        figures = load_renewals(options.port, options.seconds, options.locks)
    print(*(f"{name} {value}" for name, value in figures.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
