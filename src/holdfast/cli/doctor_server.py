"""The doctor calls the server: does it answer, how quickly, is it well, and does anybody wait in a circle there?

What the answers to the questions mean is judged here; how they are asked is the client's business.
"""

import time
from typing import Any

from holdfast import __version__
from holdfast.cli.calling import reached, scheme_of, url_of, without_token
from holdfast.cli.doctor_findings import Finding, State
from holdfast.cli.peek import Uninvited, fetch, targets
from holdfast.client.url import Target
from holdfast.errors import BadRequest, Forbidden, HoldfastError, Unavailable

PART = "server"
TIMEOUT_S = 3.0
SLOW_MS = 100.0
# From here on, what the API calls an instant is misread by whoever compares it with a clock of this machine.
SKEW_MS_MAX = 2_000


def findings(server: str | None, *, expected: bool) -> list[Finding]:
    """Call it; whether somebody should be there is for the caller to know."""
    url = without_token(url_of(server))
    try:
        if scheme_of(url) == "http":
            return [one for target in targets(server) for one in _by_http(target)]
        return _by_client(server)
    except HoldfastError as error:
        if not expected:
            found = f"nobody answers at {url}, where one would be by default"
            return [Finding(PART, State.NOTE, found, "If one runs elsewhere, name it: --server or HOLDFAST_SERVER.")]
        advice = "See whether it runs, whether its port can be reached from here, and whether the token is right."
        return [Finding(PART, State.BAD, f"{url}: {error}", advice)]


def _by_client(server: str | None) -> list[Finding]:
    found = []
    with reached(server, timeout_s=TIMEOUT_S) as client:
        client.ping()  # the first time includes the way there
        found += [answer(address, took_s * 1000) for address, took_s in client.ping().items()]
        for address, told in client.stats().items():
            found += health(address, told)
        if scheme_of(url_of(server)) == "holdfast":
            found.append(circles(len(client.deadlocks())))
    return found


def answer(address: str, took_ms: float) -> Finding:
    """Judge how long an answer takes."""
    if took_ms >= SLOW_MS:
        advice = "Leases have to be much longer than that; look at the network, and at the load of the server."
        return Finding(PART, State.WARNING, f"{address} answers, but only after {took_ms:.0f} ms", advice)
    return Finding(PART, State.OK, f"{address} answers in {took_ms:.1f} ms")


def health(address: str, told: dict[str, Any]) -> list[Finding]:
    """Judge what a server tells of itself; others than ours tell nothing of the kind."""
    found = []
    program = told.get("server")
    if program is not None and program != f"holdfast {__version__}":
        advice = "That may be as it should: newer servers know older clients. Bring both to one release when you can."
        found.append(Finding(PART, State.NOTE, f"{address} is {program}, and this is {__version__}", advice))
    if told.get("draining"):
        advice = "It takes no new requests. If it does not come back, look at its log."
        found.append(Finding(PART, State.WARNING, f"{address} is about to stop", advice))
    return found


def circles(count: int) -> Finding:
    """Judge how many circles there are of those who wait for each other."""
    if count:
        advice = "See who it is: holdfast deadlocks. End one of each circle, or take a lock away: holdfast break."
        return Finding(PART, State.WARNING, f"{count} {'deadlock' if count == 1 else 'deadlocks'}", advice)
    return Finding(PART, State.OK, "no deadlocks")


def _by_http(target: Target) -> list[Finding]:
    fetch(target, "/healthz", timeout_s=TIMEOUT_S)
    began = time.monotonic()
    _, now_ms = fetch(target, "/healthz", timeout_s=TIMEOUT_S)
    took_ms = (time.monotonic() - began) * 1000
    address = str(target.address)
    ahead_ms = now_ms - time.time_ns() // 1_000_000
    return [answer(address, took_ms), *_ready(target), *_token(target), skew(address, ahead_ms)]


def _ready(target: Target) -> list[Finding]:
    """Ask whether it can grant; only servers of ours tell."""
    try:
        fetch(target, "/readyz", timeout_s=TIMEOUT_S)
    except BadRequest:
        return []
    except Unavailable as error:
        return [Finding(PART, State.BAD, f"{target.address} is there, and grants nothing: {error}", "Look at its log.")]
    return [Finding(PART, State.OK, f"{target.address} is ready to grant")]


def _token(target: Target) -> list[Finding]:
    """Ask something that is not for everybody; what LockServer knows of keys, all servers of its kind tell."""
    try:
        fetch(target, "/v1/locks/holdfast-doctor", timeout_s=TIMEOUT_S)
    except Uninvited as error:
        advice = "Name the token in the URL; on the server, it is auth_token, or stands in the file of tokens."
        return [Finding(PART, State.BAD, f"{target.address} does not let us in: {error}", advice)]
    except (BadRequest, Forbidden):
        return []
    return [Finding(PART, State.OK, f"{target.address} lets us in")]


def skew(address: str, ahead_ms: int) -> Finding:
    """Judge by how much the server's clock differs from ours; it tells whole seconds."""
    if abs(ahead_ms) < SKEW_MS_MAX:
        return Finding(PART, State.OK, f"{address} has the same time as this machine")
    found = f"the clock of {address} is {abs(ahead_ms) / 1000:.0f} s {'ahead of' if ahead_ms > 0 else 'behind'} ours"
    advice = "Do not compare lease_expiry_ms with a clock of this machine; better, keep both right with NTP."
    return Finding(PART, State.WARNING, found, advice)
