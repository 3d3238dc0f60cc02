"""The gRPC door: from calls as they arrive to the leases that serve them, and back; health, reflection and the way out.

What a call means is in doors/grpc_leases.py. Nothing that fails in here ever looks like an answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import grpc
from grpc_health.v1 import health
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server
from grpc_reflection.v1alpha import reflection

from holdfast.doors.grpc_leases import Caller, LeasesApi
from holdfast.doors.grpc_reflection import pool
from holdfast.errors import ConfigError
from holdfast.observe.logs import get_logger
from holdfast.wire.grpc_leases import CODE_KEY, SERVICES, Method, Refusal, bad_request
from holdfast.wire.protobuf import BadMessage, decode, encode

# Longer than any request can be that is not refused anyway; pids of a busy machine are what takes most.
REQUEST_BYTES_MAX: Final = 1 << 20
METADATA_BYTES_MAX: Final = 128 << 10
STREAMS_MAX: Final = 1_000
# A peer that vanished without a word is found after about a minute and a half.
KEEPALIVE_IDLE_MS: Final = 60_000
KEEPALIVE_TIMEOUT_MS: Final = 20_000
PINGS_LEAST_APART_MS: Final = 5_000
IDLE_MS_MAX: Final = 30 * 60_000

OPTIONS: Final = (
    ("grpc.so_reuseport", 0),  # two servers on one port would each serve some of the callers
    ("grpc.max_receive_message_length", REQUEST_BYTES_MAX),
    ("grpc.max_metadata_size", METADATA_BYTES_MAX),
    ("grpc.max_concurrent_streams", STREAMS_MAX),
    ("grpc.max_connection_idle_ms", IDLE_MS_MAX),
    ("grpc.keepalive_time_ms", KEEPALIVE_IDLE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", PINGS_LEAST_APART_MS),
)

# Far longer than anybody waits here.
FOR_EVER_S: Final = 10 * 365 * 86_400.0

log = get_logger(part="grpc")

Serve = Callable[[bytes, Any], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class GrpcSettings:
    """What an operator decides about this door."""

    address: str  # HOST:PORT; a host that is empty means every interface
    calls_max: int | None
    certificate: tuple[bytes, bytes] | None = None  # the private key, and the chain
    client_authority: bytes | None = None


class GrpcDoor:
    """One listening address, and all who call there."""

    def __init__(self, api: LeasesApi, settings: GrpcSettings, bug: Callable[[BaseException], None]) -> None:
        self._api = api
        self._settings = settings
        self._bug = bug
        self._calls = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._health = health.aio.HealthServicer()
        self._server: Any = None
        self.address = ""

    @property
    def calls(self) -> int:
        """Count the calls that are being served."""
        return self._calls

    async def start(self) -> None:
        """Take calls from now on; raises ConfigError."""
        server = self._server = grpc.aio.server(
            options=OPTIONS, maximum_concurrent_rpcs=self._settings.calls_max, compression=None
        )
        for service, (_, methods) in SERVICES.items():
            handlers = {name: self._handler(name, method) for name, method in methods.items()}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
            await self._health.set(service, HealthCheckResponse.SERVING)
        await self._health.set("", HealthCheckResponse.SERVING)
        add_HealthServicer_to_server(self._health, server)
        names = (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server, pool())
        port = self._bind(server)
        await server.start()
        self.address = f"{self._settings.address.rpartition(':')[0]}:{port}"

    def _bind(self, server: Any) -> int:
        address = self._settings.address
        try:
            port: int = self._add_port(server, address)
        except (RuntimeError, ValueError) as error:
            raise ConfigError(f"grpc: cannot listen on {address}: {error}") from error
        if not port:
            raise ConfigError(f"grpc: cannot listen on {address}")
        return port

    def _add_port(self, server: Any, address: str) -> int:
        settings = self._settings
        if settings.certificate is None:
            return int(server.add_insecure_port(address))
        credentials = grpc.ssl_server_credentials(
            [settings.certificate],
            root_certificates=settings.client_authority,
            require_client_auth=settings.client_authority is not None,
        )
        return int(server.add_secure_port(address, credentials))

    async def stop(self, limit_s: float | None) -> None:
        """Take no more calls, and wait until those that are here are answered, or for so long; None is for ever."""
        if self._server is None:
            return
        await self._health.enter_graceful_shutdown()
        stopping = asyncio.ensure_future(self._server.stop(FOR_EVER_S if limit_s is None else limit_s))
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._quiet.wait()
        # What is left only watches, and would do so for ever.
        await self._server.stop(None)
        await stopping

    # --- one call ---

    def _handler(self, name: str, method: Method) -> Any:
        serve = self._api.calls[name]

        async def answer(data: bytes, context: Any) -> bytes:
            self._enter(context)
            try:
                request = decode(method.request, data)
                return encode(await serve(request, _caller_of(context)))
            except BadMessage as error:
                refusal = bad_request(error.detail)
            except Refusal as refused:
                refusal = refused
            except Exception as error:  # noqa: BLE001  whatever it is, nobody may take it for an answer
                self._bug(error)
                refusal = Refusal("internal", "this should not happen; please report it")
            await _abort(context, refusal)
            raise AssertionError("a call goes on that was aborted")

        return grpc.unary_unary_rpc_method_handler(answer)

    def _enter(self, context: Any) -> None:
        """Count a call until its last byte has left."""
        self._calls += 1
        self._quiet.clear()
        context.add_done_callback(self._leave)

    def _leave(self, context: Any) -> None:
        self._calls -= 1
        if not self._calls:
            self._quiet.set()


async def _abort(context: Any, refusal: Refusal) -> None:
    await context.abort(grpc.StatusCode[refusal.status], refusal.detail, trailing_metadata=((CODE_KEY, refusal.code),))


def _caller_of(context: Any) -> Caller:
    """Read what a call shows, and where it comes from."""
    shown = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
    authorization = shown[0] if len(shown) == 1 and isinstance(shown[0], str) else None
    return Caller(authorization, peer_of(context.peer()))


def peer_of(text: str) -> str:
    """Spell a peer as the other doors do: gRPC says ipv4:127.0.0.1:1234, or ipv6:%5B::1%5D:1234."""
    kind, _, address = text.partition(":")
    return unquote(address) if kind in ("ipv4", "ipv6") else ""
