"""Loads on a server whose answers wait for the disk: the line door, the HTTP door, and new connections all the time.

How often the server makes the disk keep something is counted outside of it, by a library that is loaded before all
others; how many commands one commit served is what the server says on its page of metrics.
"""

import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.programs import BUILD, built_library, figures_of
from bench.servers import Server, ServerFailed, free_port, holdfast_on_disk, running
from bench.tables import Figures, medians, table

LINE_CONNECTIONS = 64
HTTP_CONNECTIONS = 80
RATE = 400  # new connections a second
# New connections come for this many times as long as another load takes: a minute with the usual three seconds.
RATE_FACTOR = 20
ANSWER_S_MAX = 10.0
COUNT_BYTES = 8
SYNCS = 200
BLOCK_BYTES = 4_096
US = 1e6

BATCHES = "holdfast_commit_batch_size_count"
COMMANDS = "holdfast_commit_batch_size_sum"


class Missing(Exception):
    """The server does not offer what a measurement needs."""


@dataclass(frozen=True, slots=True)
class Durable:
    """A server with both doors, and what can be seen of its disk."""

    server: Server
    http_port: int
    count_file: Path

    def syncs(self) -> int:
        """Tell how often it has made the disk keep something."""
        return int.from_bytes(self.count_file.read_bytes()[:COUNT_BYTES], "little")

    def metrics(self) -> dict[str, float]:
        """Read its page of metrics."""
        url = f"http://127.0.0.1:{self.http_port}/metrics"
        try:
            with urllib.request.urlopen(url, timeout=ANSWER_S_MAX) as answer:
                return read_metrics(answer.read().decode())
        except urllib.error.HTTPError as error:
            raise Missing(f"{url} was answered with {error.code}: this server has no page of metrics") from error


def durable_line(seconds: float, rounds: int) -> str:
    """Measure durable acquire and release pairs through the line door, a key for each connection."""
    with durable() as measured:
        middle = medians(
            [
                watched(measured, "lockload", "line", measured.server.port, LINE_CONNECTIONS, seconds, seconds=seconds)
                for _ in range(rounds)
            ]
        )
        sync_us = sync_cost(measured.count_file.parent)
    columns = {"pairs/s": "pairs/s", "p50 ms": "p50_ms", "p99 ms": "p99_ms"} | DISK_COLUMNS
    rows = [["line door over SQLite", *(middle[name] for name in columns.values())]]
    title = f"### Durable: {LINE_CONNECTIONS} connections, acquire and release, a key each"
    note = f"One fdatasync of 4 KiB in the same folder: {sync_us:,.0f} µs (median of {SYNCS})."
    return f"{title}\n\n{table(['server', *columns], rows)}\n\n{note}"


def http(seconds: float, rounds: int) -> str:
    """Measure acquire, renew and release through the HTTP door, a lock for each kept-alive connection."""
    with durable() as measured:
        middle = medians(
            [
                watched(measured, "httpload", measured.http_port, HTTP_CONNECTIONS, seconds, seconds=seconds)
                for _ in range(rounds)
            ]
        )
    columns = {"requests/s": "requests/s", "p50 ms": "p50_ms", "p99 ms": "p99_ms", "p99.9 ms": "p99.9_ms"}
    columns |= {"busy": "busy", "CPU µs/request": "cpu_us"} | DISK_COLUMNS
    rows = [["HTTP door over SQLite", *(middle[name] for name in columns.values())]]
    title = f"### HTTP: {HTTP_CONNECTIONS} kept-alive connections, acquire, renew and release, a lock each"
    return f"{title}\n\n{table(['server', *columns], rows)}"


def connections(seconds: float) -> str:
    """Measure a steady stream of new connections; one that gets no good answer ends the measurement."""
    rows: list[list[object]] = []
    lasting = seconds * RATE_FACTOR
    with durable() as measured:
        for kind, about in (("health", "GET /healthz"), ("lock", "acquire and release")):
            taken = figures_of("connections", measured.http_port, RATE, lasting, kind, seconds=lasting)
            rows.append([about, *in_ms(taken, "p50", "p99", "max"), taken["inflight"], taken["errors"]])
    header = ["each connection", "p50 ms", "p99 ms", "max ms", "most at once", "errors"]
    return f"### New connections: {RATE} a second for {lasting:g} s\n\n{table(header, rows)}"


DISK_COLUMNS = {"commands per commit": "batch", "syncs per commit": "syncs/batch", "commits/s": "batches/s"}


def watched(measured: Durable, program: str, *arguments: object, seconds: float) -> dict[str, float]:
    """Load the server once, and see what the load made of its processor and its disk."""
    cpu_s, syncs, before = measured.server.cpu_s(), measured.syncs(), measured.metrics()
    taken = figures_of(program, *arguments, seconds=seconds)
    after = measured.metrics()
    cpu_s, syncs = measured.server.cpu_s() - cpu_s, measured.syncs() - syncs
    requests = taken.get("requests/s", taken.get("ops/s", 0.0)) * seconds
    latencies = {f"{name}_ms": taken[name] / 1000 for name in ("p50", "p99", "p99.9")}
    return taken | latencies | {"cpu_us": cpu_s * US / requests} | on_disk(before, after, syncs, seconds)


def on_disk(before: Figures, after: Figures, syncs: int, seconds: float) -> dict[str, float]:
    """Say what one commit served and cost, from two pages of metrics and a count."""
    for name in (BATCHES, COMMANDS):
        if name not in after:
            raise Missing(f"the page of metrics has no {name}: this server does not count its commits")
    batches = after[BATCHES] - before[BATCHES]
    if not batches:
        raise Missing("nothing was committed under load: the answers did not wait for the disk")
    commands = after[COMMANDS] - before[COMMANDS]
    return {"batch": commands / batches, "syncs/batch": syncs / batches, "batches/s": batches / seconds}


def in_ms(taken: Mapping[str, float], *names: str) -> list[float]:
    """Turn microseconds into milliseconds."""
    return [taken[name] / 1000 for name in names]


def read_metrics(page: str) -> dict[str, float]:
    """Read the samples of a page in the text format, each under its name with its labels."""
    samples = {}
    for line in page.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            samples[name] = float(value)
    return samples


@contextmanager
def durable() -> Iterator[Durable]:
    """Run a server over a new file on the disk of this repository, its syncs counted."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=BUILD) as folder:
        count_file, http_port = Path(folder, "syncs"), free_port()
        count_file.write_bytes(bytes(COUNT_BYTES))
        extra = {"LD_PRELOAD": built_library("synccount"), "SYNCCOUNT_FILE": str(count_file)}

        def command(port: int) -> list[str]:
            return holdfast_on_disk(port, http_port=http_port, file=Path(folder, "locks.db"))

        with running("holdfast-on-disk", command, extra) as server:
            measured = Durable(server, http_port, count_file)
            insist_on_http(measured)
            yield measured


def insist_on_http(measured: Durable) -> None:
    """Make sure that somebody listens at the HTTP door."""
    try:
        measured.metrics()
    except OSError as error:
        raise ServerFailed(f"nobody answers at the HTTP door, 127.0.0.1:{measured.http_port}: {error}") from error


def sync_cost(folder: Path) -> float:
    """Measure what the disk takes to keep a block, in microseconds: no durable answer can be quicker."""
    path = folder / "block"
    taken = []
    with path.open("wb", buffering=0) as file:
        for _ in range(SYNCS):
            file.write(bytes(BLOCK_BYTES))
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - started) * US)
    path.unlink()
    return median(taken)
