"""Where a server of leases over gRPC is: URLs, and what is in them.

Nothing is connected here, and gRPC need not be installed to read one.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from holdfast.errors import BadRequest, ConfigError
from holdfast.leases.url import without_password
from holdfast.wire.grpc_leases import ORIGINAL_SERVICE, SERVICE

PLAIN: Final = "grpc"
SECURE: Final = "grpcs"

# Whose service is called: ours, or that of Shaken Fist, which knows neither fences nor lengths of leases.
SERVICES: Final = {"holdfast": SERVICE, "shakenfist": ORIGINAL_SERVICE}
OPTIONS: Final = ("service",)
SECURE_OPTIONS: Final = ("service", "ca", "cert", "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcPlace:
    """A server, and how to talk to it."""

    host: str
    port: int
    token: str | None
    service: str
    secure: bool
    ca: str | None
    cert: str | None
    key: str | None

    @property
    def target(self) -> str:
        """Spell it as gRPC has it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def shown(self) -> str:
        """Name it for logs, without its token."""
        return f"{SECURE if self.secure else PLAIN}://{self.target}"

    @property
    def is_ours(self) -> bool:
        return self.service == SERVICE


def grpc_place_of(url: str) -> GrpcPlace:
    """Read a URL such as grpc://TOKEN@host:port, or grpcs://host:port?ca=FILE."""
    shown = without_password(url)
    try:
        parts = urlsplit(url)
        port = parts.port
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:  # whose text may show the token
        raise BadRequest(
            f"{shown} is no URL: it needs a host and a port, and a token with one of /?#@: in it needs them as "
            "%2F, %3F, %23, %40 and %3A"
        ) from None
    if parts.scheme not in (PLAIN, SECURE):
        raise BadRequest(f"{shown} begins with none of {PLAIN}://, {SECURE}://")
    if not parts.hostname or not port:
        raise BadRequest(f"{shown} has to name a host and a port, as in {parts.scheme}://host:port")
    if parts.path.strip("/") or parts.fragment:
        raise BadRequest(f"{shown} has something behind the port that nobody would look at")
    secure = parts.scheme == SECURE
    known = SECURE_OPTIONS if secure else OPTIONS
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise BadRequest(f"{shown} has {', '.join(unknown)} behind the ?; there may be {', '.join(known)}")
    if ("cert" in options) is not ("key" in options):
        raise BadRequest(f"{shown}: cert and key come together")
    service = options.get("service", "holdfast")
    if service not in SERVICES:
        raise BadRequest(f"{shown} has service={service}; it may be {', '.join(SERVICES)}")
    return GrpcPlace(
        host=parts.hostname,
        port=port,
        token=_token(parts.username, parts.password),
        service=SERVICES[service],
        secure=secure,
        ca=options.get("ca"),
        cert=options.get("cert"),
        key=options.get("key"),
    )


def _token(user: str | None, password: str | None) -> str | None:
    """Read the token, which may stand before the @ alone, or behind a colon as in the URLs of other servers."""
    if user and password:
        raise BadRequest("a token stands alone before the @; there are no user names")
    token = unquote(user or password or "") or None
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise BadRequest("a token for gRPC is printable ASCII, without spaces")
    return token


def read_file(name: str, path: str | None) -> bytes | None:
    """Read a file that a URL names."""
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{name}: cannot read {path!r}: {error.strerror or error}") from error
