"""Which pages a browser may let call, and how many requests an address may send.

No path and no lock is known here.
"""

import pytest

from holdfast.doors.http_limits import BUCKET_IDLE_NS, Cors, RateLimit
from holdfast.testing.clock import HandClock
from holdfast.wire.http import HttpRequest
from holdfast.words import SECOND

PAGE = "https://app.example"
PREFLIGHT = {"origin": PAGE, "access-control-request-method": "POST"}


def asking(method: str = "POST", **headers: str) -> HttpRequest:
    return HttpRequest(method=method, path="/", headers=headers)


def preflight(origin: str = PAGE) -> HttpRequest:
    return HttpRequest(method="OPTIONS", path="/", headers=PREFLIGHT | {"origin": origin})


# --- whose pages may call ---


@pytest.mark.parametrize("origins", [None, "", " , "])
def test_without_origins_nothing_is_said_and_options_is_no_preflight(origins: str | None) -> None:
    cors = Cors(origins)
    assert cors.headers(asking(origin=PAGE)) == ()
    assert cors.preflight(preflight()) is None


def test_a_listed_origin_is_echoed_and_caches_are_told() -> None:
    cors = Cors("https://other.example, https://app.example")
    assert cors.headers(asking(origin=PAGE)) == (("Access-Control-Allow-Origin", PAGE), ("Vary", "Origin"))


@pytest.mark.parametrize("origin", ["https://evil.example", "http://app.example", "https://app.example:8443", "null"])
def test_an_origin_that_is_not_listed_gets_no_leave(origin: str) -> None:
    cors = Cors(PAGE)
    assert cors.headers(asking(origin=origin)) == ()
    reply = cors.preflight(preflight(origin))
    assert reply is not None
    assert (reply.status, reply.headers) == (204, ())


def test_a_star_lets_all_pages_call() -> None:
    assert Cors("*").headers(asking(origin="https://any.example")) == (("Access-Control-Allow-Origin", "*"),)


def test_callers_that_are_no_pages_are_told_nothing() -> None:
    assert Cors("*").headers(asking()) == ()


def test_a_preflight_is_told_methods_headers_and_for_how_long() -> None:
    reply = Cors(PAGE).preflight(preflight())
    assert reply is not None
    assert (reply.status, reply.body) == (204, b"")
    headers = dict(reply.headers)
    assert headers["Access-Control-Allow-Origin"] == PAGE
    assert headers["Access-Control-Allow-Methods"] == "GET, POST, DELETE, OPTIONS"
    allowed = headers["Access-Control-Allow-Headers"].split(", ")
    assert {"Authorization", "Content-Type", "X-Dflockd-Session", "Idempotency-Key"} <= set(allowed)
    assert headers["Access-Control-Max-Age"] == "300"
    assert headers["Vary"] == "Origin"


@pytest.mark.parametrize(
    "request_",
    [
        HttpRequest(method="POST", path="/", headers=PREFLIGHT),
        HttpRequest(method="OPTIONS", path="/", headers={"origin": PAGE}),
        HttpRequest(method="OPTIONS", path="/", headers={"access-control-request-method": "POST"}),
    ],
)
def test_what_is_no_preflight_goes_on_to_its_path(request_: HttpRequest) -> None:
    assert Cors("*").preflight(request_) is None


# --- how many may come ---


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def burst(limit: RateLimit, count: int, address: str = "1.2.3.4") -> int:
    return sum(limit.allows(address) for _ in range(count))


def test_a_rate_of_nothing_is_no_limit(clock: HandClock) -> None:
    limit = RateLimit(0, 0, clock)
    assert burst(limit, 1000) == 1000
    assert limit.buckets == 0


def test_a_bucket_holds_the_burst_and_fills_at_the_rate(clock: HandClock) -> None:
    limit = RateLimit(2, 5, clock)
    assert burst(limit, 10) == 5
    clock.advance(0.499)
    assert burst(limit, 10) == 0
    clock.advance(0.001)
    assert burst(limit, 10) == 1
    clock.advance(100)
    assert burst(limit, 10) == 5


def test_without_a_burst_the_rate_is_the_burst(clock: HandClock) -> None:
    assert burst(RateLimit(3, 0, clock), 10) == 3


def test_refusals_cost_nothing_and_no_fraction_is_lost(clock: HandClock) -> None:
    limit = RateLimit(3, 1, clock)
    allowed = 0
    for _ in range(3000):
        clock.advance_to(clock.now + SECOND // 1000)
        allowed += limit.allows("1.2.3.4")
    assert allowed == 9


def test_addresses_do_not_share_a_bucket(clock: HandClock) -> None:
    limit = RateLimit(1, 2, clock)
    assert (burst(limit, 9, "1.1.1.1"), burst(limit, 9, "2.2.2.2")) == (2, 2)


def test_buckets_that_nobody_used_for_long_are_dropped(clock: HandClock) -> None:
    limit = RateLimit(1, 1, clock)
    for number in range(20):
        limit.allows(f"10.0.0.{number}")
    clock.advance_to(clock.now + BUCKET_IDLE_NS)
    limit.allows("1.2.3.4")
    assert limit.buckets == 21
    clock.advance_to(clock.now + 1)
    for _ in range(10):
        limit.allows("1.2.3.4")
    assert limit.buckets == 1


def test_there_are_never_more_buckets_than_allowed(clock: HandClock) -> None:
    limit = RateLimit(1, 1, clock, buckets_max=10)
    assert limit.allows("first")
    for number in range(9):
        limit.allows(f"10.0.0.{number}")
    assert not limit.allows("first")  # which makes it the one that was used last
    for number in range(9):
        limit.allows(f"10.0.1.{number}")
    assert limit.buckets == 10
    assert not limit.allows("first")
