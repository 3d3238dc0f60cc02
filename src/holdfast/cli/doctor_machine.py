"""The doctor looks at what a server takes from its machine: open files, a queue at the door, ports, and programs.

Nothing is changed, and no port is kept; who already listens on one is only greeted.
"""

import errno
import importlib.util
import platform
import resource
import socket
import sqlite3
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from holdfast import __version__
from holdfast.cli.doctor_findings import Finding, State
from holdfast.config import Config
from holdfast.settings import split_address

LIMITS, PORTS, VERSIONS = "limits", "ports", "versions"

KERNEL = Path("/proc/sys/net")
# What a server opens beside its connections: the store, logs, listeners, the event loop.
FILES_OF_ITS_OWN = 64
FILES_UNLESS_SAID = 1_024  # what it should have at least, even for few connections

GREET_S_MAX = 2.0
PRIVILEGED = 1_024
SQLITE_LEAST = (3, 24, 0)  # the store updates rows that are there already


# --- limits ---


def limits(config: Config, kernel: Path = KERNEL) -> list[Finding]:
    """Compare what the machine allows with what the settings may need."""
    from holdfast.doors.listener import BACKLOG

    found = [open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0], wanted_files(config))]
    somaxconn = kernel / "core/somaxconn"
    if somaxconn.exists():
        found.append(backlog(int(somaxconn.read_text(encoding="ascii")), BACKLOG))
    return found


def wanted_files(config: Config) -> int:
    """Count the files that may be open at once; each door has as many connections as it may."""
    doors = sum(door != "off" for door in (config.line, config.http))
    return max(FILES_UNLESS_SAID, doors * config.connections_max + FILES_OF_ITS_OWN)


def open_files(allowed: int, wanted: int) -> Finding:
    """Judge how many files may be open."""
    if allowed == resource.RLIM_INFINITY or allowed >= wanted:
        return Finding(LIMITS, State.OK, f"open files: {_count(allowed)} allowed, up to {wanted} wanted")
    advice = (
        f"Allow {wanted}, by ulimit -n or LimitNOFILE= of the service, or have fewer connections: --connections-max. "
        "A server whose files run out takes nobody in until some are closed."
    )
    return Finding(LIMITS, State.WARNING, f"open files: only {allowed} allowed here, up to {wanted} wanted", advice)


def _count(allowed: int) -> str:
    return "any number" if allowed == resource.RLIM_INFINITY else str(allowed)


def backlog(allowed: int, wanted: int) -> Finding:
    """Judge how many callers may stand at the door."""
    if allowed >= wanted:
        return Finding(LIMITS, State.OK, f"callers at the door at once: {allowed} allowed, {wanted} wanted")
    found = f"callers at the door at once: only {allowed} allowed, {wanted} wanted"
    advice = f"When many come at once, some wait for seconds: sysctl -w net.core.somaxconn={wanted}"
    return Finding(LIMITS, State.WARNING, found, advice)


# --- ports ---


def ports(config: Config, kernel: Path = KERNEL) -> list[Finding]:
    """See whether a server could listen where it is to listen."""
    found = []
    for name, address, greet in (("line", config.line, greet_line), ("http", config.http, greet_http)):
        if address == "off":
            found.append(Finding(PORTS, State.OK, f"{name}: off"))
            continue
        host, port = split_address(address)
        found.append(listen(name, host, port, greet))
        if trouble := borrowed(name, port, kernel):
            found.append(trouble)
    return found


def listen(name: str, host: str, port: int, greet: Callable[[str, int], bool]) -> Finding:
    """Try to listen there."""
    from holdfast.doors.listener import bind

    where = f"{name}: {host or '*'}:{port}"
    flag = f"--{name}"
    try:
        sockets = bind(host, port)
    except OSError as error:
        return _refused(where, flag, port, error, lambda: greet(host or "localhost", port))
    for one in sockets:
        one.close()
    return Finding(PORTS, State.OK, f"{where} is free")


def _refused(where: str, flag: str, port: int, error: OSError, ours: Callable[[], bool]) -> Finding:
    if error.errno == errno.EADDRINUSE:
        if ours():
            return Finding(PORTS, State.OK, f"{where} is in use, and a lock server answers there")
        advice = f"If that is not your server under TLS, see who it is (ss -ltnp sport = :{port}), or change {flag}."
        return Finding(PORTS, State.WARNING, f"{where} is in use by something that does not answer us", advice)
    if error.errno in (errno.EACCES, errno.EPERM):
        advice = f"Choose a port from {PRIVILEGED} up with {flag}, or give the service CAP_NET_BIND_SERVICE."
        return Finding(PORTS, State.BAD, f"{where} is not for this user", advice)
    advice = f"Choose an address of this machine with {flag}."
    return Finding(PORTS, State.BAD, f"{where} cannot be listened on: {error.strerror or error}", advice)


def borrowed(name: str, port: int, kernel: Path) -> Finding | None:
    """Say whether the kernel may lend this port to somebody who calls out."""
    lent, kept = kernel / "ipv4/ip_local_port_range", kernel / "ipv4/ip_local_reserved_ports"
    if not lent.exists():
        return None
    least, most = map(int, lent.read_text(encoding="ascii").split())
    if not least <= port <= most or (kept.exists() and _reserves(kept.read_text(encoding="ascii"), port)):
        return None
    advice = f"Keep it free: sysctl -w net.ipv4.ip_local_reserved_ports={port}"
    return Finding(PORTS, State.WARNING, f"{name}: port {port} may be taken by any program that calls out", advice)


def _reserves(told: str, port: int) -> bool:
    for piece in told.strip().split(","):
        first, _, last = piece.partition("-")
        if first and int(first) <= port <= int(last or first):
            return True
    return False


def greet_line(host: str, port: int) -> bool:
    """Ask whether it is a lock server; one that wants a token first is one too."""
    return _ask(host, port, b"ping\n_\n_\n").startswith((b"ok\n", b"error_auth\n"))


def greet_http(host: str, port: int) -> bool:
    """Ask whether it is one of ours, or somebody who answers as LockServer does."""
    answer = _ask(host, port, b"GET /healthz HTTP/1.1\r\nHost: doctor\r\nConnection: close\r\n\r\n")
    return answer.startswith(b"HTTP/1.1 200 ")


def _ask(host: str, port: int, question: bytes) -> bytes:
    try:
        with socket.create_connection((host, port), GREET_S_MAX) as peer:
            peer.sendall(question)
            return peer.recv(4_096)
    except OSError:
        return b""


# --- versions ---


def versions() -> list[Finding]:
    """Tell which programs and libraries this is."""
    return [
        Finding(VERSIONS, State.OK, f"holdfast {__version__}, {compiled()}"),
        python(platform.python_implementation(), platform.python_version()),
        sqlite(sqlite3.sqlite_version_info),
        uvloop(_installed("uvloop")),
    ]


def compiled() -> str:
    """Tell whether the path of a request runs as machine code."""
    found = importlib.util.find_spec("holdfast.engine.table")
    assert found is not None
    plain = str(found.origin).endswith(".py")
    return "not compiled (make fast makes it quicker)" if plain else "compiled"


def python(implementation: str, version: str) -> Finding:
    """Judge the interpreter; one that is too old does not get as far as this."""
    if implementation != "CPython":
        advice = "Run the server with CPython, with which it is tested."
        return Finding(VERSIONS, State.WARNING, f"{implementation} {version}", advice)
    return Finding(VERSIONS, State.OK, f"Python {version} ({sys.executable})")


def sqlite(version: tuple[int, ...]) -> Finding:
    """Judge the library that the store is made of."""
    shown = ".".join(map(str, version))
    if version < SQLITE_LEAST:
        least = ".".join(map(str, SQLITE_LEAST))
        return Finding(VERSIONS, State.BAD, f"SQLite {shown}", f"The store needs {least} or newer.")
    return Finding(VERSIONS, State.OK, f"SQLite {shown}")


def uvloop(version: str | None) -> Finding:
    """Judge the event loop."""
    if version is None:
        return Finding(VERSIONS, State.WARNING, "no uvloop", "The server is quicker with it: pip install uvloop")
    return Finding(VERSIONS, State.OK, f"uvloop {version}")


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
