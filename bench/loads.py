"""Loads on several servers in alternating rounds: the closed loop, the pipelined connection, the hand-off.

The servers stand side by side and one at a time is loaded, by a program in a process of its own. What the
loads do is written in C beside this file; here they are only started, charged and laid out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from bench.programs import figures_of
from bench.servers import Command, Server, floor, holdfast, redis, redis_is_here, running
from bench.tables import Figures, medians, ratio, table

CONNECTIONS = 64
DEPTH = 64
US = 1e6

# The rounds of each server, by its name.
History = Mapping[str, Sequence[Figures]]


def closed_loop(seconds: float, rounds: int) -> str:
    """Measure acquire and release pairs, one request in flight on each of 64 connections."""

    def once(server: Server) -> Figures:
        return charged(server, "lockload", CONNECTIONS, seconds)

    history = alternated({"floor": floor, "holdfast": holdfast}, rounds, once)
    columns = {
        "pairs/s": "pairs/s",
        "ops/s": "ops/s",
        "p50 µs": "p50",
        "p99 µs": "p99",
        "p99.9 µs": "p99.9",
        "CPU µs/op": "cpu_us",
    }
    title = f"### Closed loop: {CONNECTIONS} connections, acquire and release, a key each"
    return section(title, history, columns, compared="cpu_us")


def pipelined(seconds: float, rounds: int) -> str:
    """Measure one connection with 64 requests in flight."""

    def once(server: Server) -> Figures:
        return charged(server, "pipeload", DEPTH, seconds)

    history = alternated({"holdfast": holdfast}, rounds, once)
    columns = {"ops/s": "ops/s", "CPU µs/op": "cpu_us", "ops per CPU second": "ops/cpu_s"}
    return section(f"### Pipelined: one connection, {DEPTH} in flight", history, columns, compared="ops/s")


def handoff(seconds: float, rounds: int) -> str:
    """Measure the time from writing a release to reading the next waiter's grant."""
    rows = []
    with running("holdfast", holdfast) as server:
        for connections in (2, 10):
            load = ("handoff", server.port, connections, seconds)
            middle = medians([figures_of(*load, seconds=seconds) for _ in range(rounds)])
            row = [middle[name] for name in ("handoffs/s", "p50", "p99", "max")]
            rows.append([f"{connections} connections", *row])
    header = ["on one key", "hand-offs/s", "p50 µs", "p99 µs", "max µs"]
    return "### Hand-off to the next waiter\n\n" + table(header, rows)


def charged(server: Server, program: str, width: int, seconds: float) -> Figures:
    """Load a server once, and charge it the CPU time that it used meanwhile."""
    protocol = "redis" if server.name == "redis" else "line"
    before = server.cpu_s()
    figures = figures_of(program, protocol, server.port, width, seconds, seconds=seconds)
    cpu_us = (server.cpu_s() - before) * US / (figures["ops/s"] * seconds)
    return figures | {"cpu_us": cpu_us, "ops/cpu_s": US / cpu_us if cpu_us else 0.0}


def alternated(
    commands: Mapping[str, Command], rounds: int, once: Callable[[Server], Figures]
) -> dict[str, list[Figures]]:
    """Load the servers in turn, round after round, and every other round in reverse."""
    history: dict[str, list[Figures]] = {}
    with side_by_side(commands) as servers:
        for round_ in range(rounds):
            for server in servers if round_ % 2 == 0 else reversed(servers):
                history.setdefault(server.name, []).append(once(server))
    return history


@contextmanager
def side_by_side(commands: Mapping[str, Command]) -> Iterator[list[Server]]:
    """Start the servers, and Redis too where it is installed."""
    rival = {"redis": redis} if redis_is_here() else {}
    with ExitStack() as stack:
        yield [stack.enter_context(running(name, command)) for name, command in {**commands, **rival}.items()]


def section(title: str, history: History, columns: Mapping[str, str], *, compared: str) -> str:
    """Lay out the medians, and the ratios of one figure to the same figure of every other server."""
    label = {name: column for column, name in columns.items()}[compared]
    bases = [name for name in history if name != "holdfast"]
    rows = []
    for taken in history.values():
        middle = medians(taken)
        ratios = [ratio(compared, taken, history[base]) for base in bases]
        rows.append([middle[name] for name in columns.values()] + ratios)
    header = ["server", *columns, *(f"{label} ÷ {base}" for base in bases)]
    return f"{title}\n\n" + table(header, [[name, *row] for name, row in zip(history, rows, strict=True)])
