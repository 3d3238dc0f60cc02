"""What a server costs while nothing happens: memory of keys, waiters and connections, and CPU while idle.

Memory is the resident set as the kernel counts it, so it includes what the allocator keeps for later.
"""

import resource
import time
from contextlib import ExitStack, closing

from bench.line import Line
from bench.servers import Server, holdfast, running
from bench.tables import table

KEYS = 100_000
WAITERS = 50_000
IDLE_CONNECTIONS = 2_000
FILES_SPARE = 200


def memory() -> str:
    """Measure the bytes of a held key and of a waiter."""
    with running("holdfast", holdfast) as server:
        key_bytes, waiter_bytes = memory_of(server, KEYS, WAITERS)
    rows = [[f"held key ({KEYS:,} held)", key_bytes], [f"waiter ({WAITERS:,} waiting)", waiter_bytes]]
    return "### Memory\n\n" + table(["what", "bytes each"], rows)


def memory_of(server: Server, keys: int, waiters: int) -> tuple[float, float]:
    """Hold keys over one connection, queue for some of them over another, and weigh the server in between."""
    with closing(Line(server.connect())) as holder, closing(Line(server.connect())) as waiter:
        empty = server.memory_bytes()
        holder.ask((("l", f"memory_{i}", "0 3600") for i in range(keys)), "ok ")
        held = server.memory_bytes()
        waiter.ask((("e", f"memory_{i}", "3600") for i in range(waiters)), "queued")
        queued = server.memory_bytes()
    return (held - empty) / keys, (queued - held) / waiters


def idle(seconds: float) -> str:
    """Measure what idle connections cost: nothing should be due while nobody speaks."""
    allow_files(IDLE_CONNECTIONS + FILES_SPARE)
    with running("holdfast", holdfast) as server:
        kilobytes, cpu_share = idle_of(server, IDLE_CONNECTIONS, seconds)
    rows = [[f"{IDLE_CONNECTIONS:,} idle connections", kilobytes, cpu_share]]
    return "### Idle connections\n\n" + table(["what", "kB each", "CPU % of a core"], rows)


def idle_of(server: Server, connections: int, seconds: float) -> tuple[float, float]:
    """Open connections that have spoken once, then watch the server for a while."""
    with ExitStack() as stack:
        empty = server.memory_bytes()
        for _ in range(connections):
            stack.enter_context(closing(Line(server.connect()))).ask([("ping", "_", "_")], "ok")
        kilobytes = (server.memory_bytes() - empty) / connections / 1000
        before = server.cpu_s()
        time.sleep(seconds)
        cpu_share = (server.cpu_s() - before) / seconds * 100
    return kilobytes, cpu_share


def allow_files(count: int) -> None:
    """Let this process, and the server that inherits from it, have that many files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
