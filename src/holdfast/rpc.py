"""The gRPC door of one server, put together from a Config: its limits, credentials and rights.

What a call means is in `wire/` and `doors/`; when the server starts and stops is in `server.py`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.config import Config, split_address
from holdfast.desk import Desk
from holdfast.doors.asker import Asker
from holdfast.doors.grpc_leases import Count, LeasesApi
from holdfast.doors.rights import Rights
from holdfast.errors import ConfigError
from holdfast.ports import Clock

if TYPE_CHECKING:
    from holdfast.doors.grpc import GrpcDoor

INSTALL = "pip install 'holdfast[grpc]'"


def make_door(
    config: Config,
    desk: Desk,
    asker: Asker,
    clock: Clock,
    *,
    rights: Rights,
    bug: Callable[[BaseException], None],
    count: Count | None = None,
) -> "GrpcDoor":
    """Make the door; raises ConfigError. `asker` is the one caller that is never over: there can be no second."""
    try:
        from holdfast.doors.grpc import GrpcDoor, GrpcSettings
    except ImportError as error:
        raise ConfigError(f"grpc: the gRPC door needs packages that are not installed: {INSTALL}") from error
    settings = GrpcSettings(
        address=_address_of(config),
        calls_max=config.connections_max or None,
        certificate=_certificate_of(config),
        client_authority=None if config.tls_client_ca is None else _read("tls_client_ca", config.tls_client_ca),
    )
    return GrpcDoor(LeasesApi(desk, asker, clock, rights=rights, count=count), settings, bug)


def _address_of(config: Config) -> str:
    """Spell the address as gRPC has it."""
    host, port = split_address(config.grpc)
    host = host or "::"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _certificate_of(config: Config) -> tuple[bytes, bytes] | None:
    if config.tls_cert is None or config.tls_key is None:
        return None
    return _read("tls_key", config.tls_key), _read("tls_cert", config.tls_cert)


def _read(name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{name}: cannot read {path!r}: {error.strerror or error}") from error
