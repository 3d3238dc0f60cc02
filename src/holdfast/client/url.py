"""Where a client's servers are: URLs, what is in them, and which of several servers a key belongs to.

Nothing is connected here; `connect()` of the faces begins with this.
"""

import os
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from holdfast.client.ports import Address
from holdfast.errors import BadRequest

if TYPE_CHECKING:
    import ssl

DEFAULT_URL: Final = "holdfast://127.0.0.1:6388"
VARIABLE: Final = "HOLDFAST_SERVER"
SERVERS_MAX: Final = 64

_NOT_IN_HOST: Final = re.compile(r"[\x00-\x20\x7f]")
_NOT_IN_TOKEN: Final = re.compile(r"[\r\n]")

NATIVE: Final = "holdfast"
DFLOCK: Final = "dflock"
HTTP: Final = "http"

# What a scheme means: the protocol, whether under TLS, and which port unless said.
SCHEMES: Final = {
    "holdfast": (NATIVE, False, 6388),
    "holdfasts": (NATIVE, True, 6388),
    "dflock": (DFLOCK, False, 6388),
    "dflocks": (DFLOCK, True, 6388),
    "http": (HTTP, False, 80),
    "https": (HTTP, True, 443),
}


@dataclass(frozen=True, slots=True)
class Target:
    """One server, and how to talk to it."""

    protocol: str
    address: Address
    auth: str | None

    @property
    def scheme(self) -> str:
        return f"{self.protocol}s" if self.address.tls is not None else self.protocol


def targets_of(url: str | None, *, auth: str | None, tls: "ssl.SSLContext | None") -> list[Target]:
    """Read one URL or several with commas between; without any, that of the environment, or the usual one.

    `auth` is for all servers whose URL has no token of its own, `tls` for all whose URL asks for TLS.
    """
    text = url or os.environ.get(VARIABLE) or DEFAULT_URL
    urls = [part.strip() for part in text.split(",") if part.strip()]
    if not 0 < len(urls) <= SERVERS_MAX:
        raise BadRequest(f"a client has 1 to {SERVERS_MAX} servers, not {len(urls)}")
    targets = [_target(part, auth, tls) for part in urls]
    if len({target.protocol for target in targets}) > 1:
        raise BadRequest("all servers of a client have to speak one protocol")
    return targets


def _target(url: str, auth: str | None, tls: "ssl.SSLContext | None") -> Target:
    shown = _without_token(url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # whose text may show what was meant to be a token
        raise BadRequest(
            f"{shown} is no URL: it needs a host and a port from 1 to 65535, and a token with one of /?#, in it needs "
            "them as %2F, %3F, %23 and %2C"
        ) from None
    if port == 0:
        raise BadRequest(f"{shown} has port 0, where nobody can listen")
    if parts.scheme not in SCHEMES:
        raise BadRequest(f"{shown} begins with none of {', '.join(f'{scheme}://' for scheme in SCHEMES)}")
    if not parts.hostname:
        raise BadRequest(f"{shown} names no host")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise BadRequest(f"{shown} has something behind the host and the port that nobody would look at")
    if parts.username:
        raise BadRequest("a token stands behind a colon, as in holdfast://:TOKEN@host; there are no user names")
    protocol, secure, usual = SCHEMES[parts.scheme]
    host = _host(parts.hostname, shown)
    token = _token(parts.password, auth)
    context = (tls if tls is not None else _default_tls()) if secure else None
    if tls is not None and not secure:
        raise BadRequest(f"{shown} is not under TLS, though a context for TLS was given; begin it {parts.scheme}s://")
    return Target(protocol, Address(host, usual if port is None else port, context), token)


def _host(name: str, shown: str) -> str:
    """Spell a host as resolvers and headers of HTTP take it: names of all languages have a form in ASCII."""
    try:
        host = name.encode("idna").decode()
    except UnicodeError as error:
        raise BadRequest(f"{shown} has a host that is no name: {error}") from None
    if _NOT_IN_HOST.search(host):
        raise BadRequest(f"{shown} has a host that is no name: {host!r}")
    return host


def _token(password: str | None, auth: str | None) -> str | None:
    """Read the token of a URL, or take the one for all; what no server can have as a token is refused here."""
    try:
        token = unquote(password, errors="strict") if password else auth
        if token is not None:
            token.encode()
    except UnicodeError:  # whose text shows the token
        raise BadRequest("the token cannot be read as UTF-8") from None
    if token is not None and (not token or _NOT_IN_TOKEN.search(token)):
        raise BadRequest("the token must be one line of text that is not empty")
    return token


def _without_token(url: str) -> str:
    """Show a URL in a refusal; what may be a token is left out, wherever it stands."""
    scheme, slashes, rest = url.rpartition("@")[2].rpartition("://")
    return scheme + slashes + ("..." if rest.startswith(":") else rest)


def _default_tls() -> "ssl.SSLContext":
    import ssl

    return ssl.create_default_context()


def shard_of(key: str, targets: Sequence[object]) -> int:
    """Say which server a key belongs to: the same one for every client, dflockd's own included."""
    return zlib.crc32(key.encode()) % len(targets) if len(targets) > 1 else 0
