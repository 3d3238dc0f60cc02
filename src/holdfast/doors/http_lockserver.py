"""LockServer's API over HTTP: from a request that has arrived whole to its reply.

Paths, bodies and spelling are in wire/lockserver.py, what is granted is decided below the desk, and no socket is here.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from holdfast.doors.asker import Asker
from holdfast.doors.rights import FORBIDDEN, UNAUTHORIZED, Right, Rights
from holdfast.observe.operations import OperationLog
from holdfast.ports import Clock
from holdfast.wire import lockserver as wire
from holdfast.wire import lockserver_answers as answers
from holdfast.wire import openapi
from holdfast.wire.http import HttpReply, HttpRequest, spell
from holdfast.wire.line import LOCK
from holdfast.wire.lockserver_answers import failure, shown
from holdfast.wire.problems import Refusal, reply_to, wants_problem
from holdfast.words import ENDED, GRANTED, NOT_HELD, RENEWED, Answer, Claim, Look, View

# Says why requests cannot be served, or None.
Ready = Callable[[], Awaitable[str | None]]

# Takes an operation, how it came out, and how long it took; such as OperationCounters.count.
Count = Callable[[str, str, int], None]

SUCCESS: Final = "success"
FAIL: Final = "fail"
BUSY: Final = "busy"

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
TEXT_TYPE: Final = "text/plain; charset=utf-8"
NO_SNIFF: Final = ("X-Content-Type-Options", "nosniff")
ALLOW_GET: Final = ("GET", "HEAD")

NOT_FOUND: Final = HttpReply(status=404, body=b"no such path\n", media_type=TEXT_TYPE, headers=(NO_SNIFF,))
WELL: Final = HttpReply(status=200, body=spell({"status": "ok"}))


@dataclass(frozen=True, slots=True, kw_only=True)
class LockServerSettings:
    """What an operator may decide about this API."""

    name_bytes_max: int
    wait_max_ns: int
    lease_ids_shown: bool


async def always_ready() -> str | None:
    return None


class LockServerApi:
    """Serves LockServer's API, and the paths about the service itself."""

    def __init__(
        self,
        asker: Asker,
        clock: Clock,
        settings: LockServerSettings,
        *,
        version: str,
        rights: Rights | None = None,
        ready: Ready = always_ready,
        metrics: Callable[[], Awaitable[bytes]] | None = None,
        count: Count | None = None,
        log: OperationLog | None = None,
    ) -> None:
        self._asker = asker
        self._clock = clock
        self._settings = settings
        self._rights = rights
        self._ready = ready
        self._metrics = metrics
        self._count = count
        self._log = log
        self._verbs = {
            wire.ACQUIRE: self._acquire,
            wire.RENEW: self._renew,
            wire.RELEASE: self._release,
            wire.GET: self._get,
            wire.LIST: self._list,
        }
        self._document = HttpReply(status=200, body=openapi.document(version, name_bytes_max=settings.name_bytes_max))
        self._version = HttpReply(status=200, body=spell({"name": "holdfast", "version": version}))

    async def handle(self, request: HttpRequest) -> HttpReply:
        """Serve one request. If its caller goes away, cancel this: what it waited for is withdrawn."""
        path = request.path
        try:
            elsewhere = wire.moved(path, request.query)
            if elsewhere is not None:
                return elsewhere
            if path == wire.LOCKS or path.startswith(wire.LOCKS + "/"):
                verb, name = wire.route(request.method, path)
                return await self._verbs[verb](request, name)
            return await self._about_the_service(request)
        except Refusal as refusal:
            return reply_to(refusal, request.headers.get("accept"))

    def waits(self, request: HttpRequest) -> bool:
        """Say whether a request may take long because of others."""
        # Who comes again with a key may find its first request waiting, and waits on in its place.
        return "wait_ms" in request.query or "idempotency-key" in request.headers

    # --- locks ---

    async def _acquire(self, request: HttpRequest, text: str) -> HttpReply:
        started = self._clock()
        name = self._name_for("hold", request, text)
        claim = wire.acquire(name, request.body, wire.wait_of(request.query, self._settings.wait_max_ns))
        key = request.headers.get("idempotency-key")
        if key is not None:
            claim.ticket = wire.ticket_of(name, key)
        answer, given = await self._asker.ask(claim)
        if answer is GRANTED:
            assert given is not None
            if given.owner != claim.owner or given.lease_ns != claim.lease_ns:
                raise Refusal(422, "key_reused", "this Idempotency-Key came with another request before")
            return self._granted(request, given, started)
        raise self._not_granted(request, given or claim, answer, started)

    def _granted(self, request: HttpRequest, claim: Claim, started: int) -> HttpReply:
        lease = answers.lease(claim)
        took_ns = self._clock() - started
        if self._count is not None:
            self._count(wire.ACQUIRE, SUCCESS, took_ns)
        if self._log is not None:
            self._log.acquired(
                lock=lease.lock_name,
                owner=lease.owner_id,
                lease_id=lease.lease_id,
                token=lease.fencing_token,
                latency_ns=took_ns,
                request_id=request.id,
            )
        return HttpReply(status=200, body=spell(lease))

    def _not_granted(self, request: HttpRequest, claim: Claim, answer: Answer, started: int) -> Refusal:
        now = self._clock()
        refusal = answers.not_acquired(claim, answer, now)
        held = refusal.fields if isinstance(refusal.fields, answers.NotAcquired) else None
        took_ns = now - started
        if self._count is not None and held is not None:
            self._count(wire.ACQUIRE, FAIL if held.current_owner_id else BUSY, took_ns)
        if self._log is not None:
            lock, owner = answers.lock_name(claim.key), shown(claim.owner)
            if held is not None and held.current_owner_id:
                self._log.refused(
                    lock=lock,
                    owner=owner,
                    cur_owner=held.current_owner_id,
                    latency_ns=took_ns,
                    request_id=request.id,
                )
            else:
                self._log.not_acquired(
                    lock=lock, owner=owner, error=refusal.detail, latency_ns=took_ns, request_id=request.id
                )
        return refusal

    async def _renew(self, request: HttpRequest, text: str) -> HttpReply:
        started = self._clock()
        name = self._name_for("hold", request, text)
        asked, renew = wire.renew(name, request.body)
        answer, claim = NOT_HELD, None
        if renew is not None:
            answer, claim = await self._asker.ask(renew)
        refusal = None if answer is RENEWED else answers.not_renewed(answer)
        took_ns = self._counted(wire.RENEW, answer, started)
        if self._log is not None:
            self._log.renewed(
                lock=shown(name),
                owner=asked.owner_id,
                lease_id=asked.lease_id,
                token=asked.fencing_token,
                renewed=refusal is None,
                latency_ns=took_ns,
                request_id=request.id,
                error=_fault(answer, refusal),
            )
        if refusal is not None:
            raise refusal
        assert claim is not None
        return HttpReply(status=200, body=spell(answers.Renewed(True, claim.deadline // wire.MILLISECOND)))

    async def _release(self, request: HttpRequest, text: str) -> HttpReply:
        started = self._clock()
        name = self._name_for("hold", request, text)
        asked, end = wire.release(name, request.body)
        answer = NOT_HELD
        if end is not None:
            answer, _ = await self._asker.ask(end)
        outcome = answers.Released(True) if answer is ENDED else answers.not_released(answer)
        refusal = outcome if isinstance(outcome, Refusal) else None
        took_ns = self._counted(wire.RELEASE, answer, started)
        if self._log is not None:
            self._log.released(
                lock=shown(name),
                owner=asked.owner_id,
                lease_id=asked.lease_id,
                token=asked.fencing_token,
                released=answer is ENDED,
                latency_ns=took_ns,
                request_id=request.id,
                error=_fault(answer, refusal),
            )
        if refusal is not None:
            raise refusal
        return HttpReply(status=200, body=spell(outcome))

    def _counted(self, operation: str, answer: Answer, started: int) -> int:
        """Count an operation on a lease, and say how long it took. What the service failed to do counts nowhere."""
        took_ns = self._clock() - started
        if self._count is not None and answer in RESULTS:
            self._count(operation, RESULTS[answer], took_ns)
        return took_ns

    async def _get(self, request: HttpRequest, text: str) -> HttpReply:
        name = self._name_for("read", request, text)
        views = await self._look(Look(key=LOCK + name))
        state = answers.state(
            name,
            views,
            self._clock(),
            lease_id=request.headers.get("x-lease-id", "").encode("latin-1", "replace"),
            open_to_all=self._settings.lease_ids_shown,
        )
        return HttpReply(status=200, body=spell(state))

    async def _list(self, request: HttpRequest, _: str) -> HttpReply:
        self._check("read", request, request.query.get("prefix", ""))
        look = wire.look_of(request.query)
        views = await self._look(look)
        locks = answers.listing(views, self._clock(), count=look.count - 1, held=look.held)
        return HttpReply(status=200, body=spell(locks))

    async def _look(self, look: Look) -> list[View]:
        answer, views = await self._asker.see(look)
        if answer is not None:
            raise failure(answer)
        return views

    def _name_for(self, right: Right, request: HttpRequest, text: str) -> bytes:
        """Check the name of a lock, and that the caller has this right to it."""
        name = wire.name_of(text, self._settings.name_bytes_max)
        self._check(right, request, text)
        return name

    def _check(self, right: Right, request: HttpRequest, key_name: str) -> None:
        if self._rights is None:
            return
        status = self._rights.allows(request.headers.get("authorization"), right, key_name)
        if status == UNAUTHORIZED:
            raise Refusal(401, "unauthorized", "show a bearer token that is known here", ("WWW-Authenticate", "Bearer"))
        if status == FORBIDDEN:
            raise Refusal(403, "forbidden", f"the token has no right to {right} this")

    # --- the service itself ---

    async def _about_the_service(self, request: HttpRequest) -> HttpReply:
        path = request.path
        if path in OLD_PAGES and request.method not in METHODS:
            raise wire.method_not_allowed(", ".join(METHODS))
        if path == "/healthz":
            return WELL
        if path == "/metrics" and self._metrics is not None:
            self._check("read", request, "")
            return HttpReply(status=200, body=await self._metrics(), media_type=METRICS_TYPE)
        if path not in PAGES:
            if wants_problem(request.headers.get("accept")):
                raise wire.not_found("no such path")
            return NOT_FOUND
        if request.method not in ALLOW_GET:
            raise wire.method_not_allowed(", ".join(ALLOW_GET))
        if path == "/livez":
            return WELL
        if path == "/version":
            return self._version
        if path != "/readyz":
            return self._document
        why_not = await self._ready()
        if why_not is not None:
            raise Refusal(503, "unavailable", why_not, answers.RETRY_AFTER)
        return WELL


# These were there before us, and never asked for a method.
OLD_PAGES: Final = frozenset({"/healthz", "/metrics"})
METHODS: Final = tuple(method.upper() for method in openapi.METHODS)

PAGES: Final = frozenset({"/livez", "/readyz", "/version", "/openapi.json"})

RESULTS: Final = {
    RENEWED: SUCCESS,
    ENDED: SUCCESS,
    NOT_HELD: FAIL,
    Answer.STORE_BUSY: BUSY,
}


def _fault(answer: Answer, refusal: Refusal | None) -> str:
    """Say for the log what the service is to blame for; that a lease is over is an ordinary answer."""
    if answer is Answer.STORE_BUSY:
        return "the store was busy"
    return refusal.detail if refusal is not None and answer is not NOT_HELD else ""
