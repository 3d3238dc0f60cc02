"""What is decided about an HTTP request before it is looked at: whose pages may send it, and how many may come.

No path and no lock is known here.
"""

from typing import Final

from holdfast.ports import Clock
from holdfast.wire.http import Headers, HttpReply, HttpRequest
from holdfast.words import SECOND

METHODS: Final = "GET, POST, DELETE, OPTIONS"
HEADERS: Final = "Authorization, Content-Type, X-Dflockd-Session, Idempotency-Key, X-Request-ID, X-Lease-ID"
PREFLIGHT_AGE_S: Final = 300

BUCKET_IDLE_NS: Final = 600 * SECOND
BUCKETS_MAX: Final = 100_000


class Cors:
    """Tells browsers which pages may call: those of the origins in a list with commas, `*` for all, None for none."""

    def __init__(self, origins: str | None) -> None:
        self._origins = frozenset(filter(None, (origin.strip() for origin in (origins or "").split(","))))

    def preflight(self, request: HttpRequest) -> HttpReply | None:
        """Answer a browser that asks before it sends the real request; None if this is no such question."""
        if not self._origins or request.method != "OPTIONS":
            return None
        if "origin" not in request.headers or "access-control-request-method" not in request.headers:
            return None
        headers = self.headers(request)
        if headers:
            headers += (
                ("Access-Control-Allow-Methods", METHODS),
                ("Access-Control-Allow-Headers", HEADERS),
                ("Access-Control-Max-Age", str(PREFLIGHT_AGE_S)),
            )
        return HttpReply(status=204, media_type="", headers=headers)

    def headers(self, request: HttpRequest) -> Headers:
        """Say what has to be added to each reply, refusals included, so that the page may read it."""
        origin = request.headers.get("origin")
        if origin is None:
            return ()
        if "*" in self._origins:
            return (("Access-Control-Allow-Origin", "*"),)
        if origin in self._origins:
            return (("Access-Control-Allow-Origin", origin), ("Vary", "Origin"))
        return ()


class RateLimit:
    """A bucket for each address: it holds `burst` requests (0: as many as `rate`) and gains `rate` of them a second."""

    def __init__(self, rate: int, burst: int, clock: Clock, *, buckets_max: int = BUCKETS_MAX) -> None:
        self._rate = rate  # 0: no limit
        # Levels are counted in requests times a second's nanoseconds, so that no fraction gets lost.
        self._level_max = (burst or rate) * SECOND
        self._clock = clock
        self._buckets_max = buckets_max
        self._buckets: dict[str, tuple[int, int]] = {}  # level and when, those used longest ago first

    def allows(self, address: str) -> bool:
        """Take a request out of the bucket of an address, if there is one."""
        if not self._rate:
            return True
        now = self._clock()
        self._forget_the_idle(now)
        level, when = self._buckets.pop(address, (self._level_max, now))
        level = min(self._level_max, level + (now - when) * self._rate)
        allowed = level >= SECOND
        self._buckets[address] = (level - SECOND if allowed else level, now)
        if len(self._buckets) > self._buckets_max:
            self._forget_one()
        return allowed

    def _forget_the_idle(self, now: int) -> None:
        """Drop at most two, which is more than can come in one call."""
        for _ in range(2):
            oldest = next(iter(self._buckets), None)
            if oldest is None or now - self._buckets[oldest][1] <= BUCKET_IDLE_NS:
                return
            del self._buckets[oldest]

    def _forget_one(self) -> None:
        del self._buckets[next(iter(self._buckets))]

    @property
    def buckets(self) -> int:
        """Count the addresses that are remembered."""
        return len(self._buckets)
