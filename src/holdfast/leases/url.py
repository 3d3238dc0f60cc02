"""Where a database is: URLs, and what is in them.

Nothing is connected here; `opening.py` begins with this.
"""

import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from holdfast.errors import BadRequest

# What a scheme means, and on which port it is unless the URL says.
MARIADB: Final = "mariadb"
POSTGRES: Final = "postgres"
SCHEMES: Final = {
    "mariadb": (MARIADB, 3306),
    "mysql": (MARIADB, 3306),
    "postgres": (POSTGRES, 5432),
    "postgresql": (POSTGRES, 5432),
}
SQLITE: Final = "sqlite:"
GRPC: Final = ("grpc://", "grpcs://")

OPTIONS: Final = ("ca", "cert", "key", "socket", "tls")
TLS: Final = ("off", "on", "verify")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A database on a server."""

    kind: str
    host: str
    port: int
    user: str | None
    password: str | None
    database: str
    socket: str | None  # of MariaDB the socket itself, of PostgreSQL its folder
    tls: str | None  # one of TLS, or as the driver likes it
    ca: str | None
    cert: str | None
    key: str | None

    @property
    def shown(self) -> str:
        """Name it for logs, without its password."""
        user = f"{self.user}@" if self.user else ""
        where = self.socket or (f"[{self.host}]" if ":" in self.host else self.host) + f":{self.port}"
        return f"{self.kind}://{user}{where}/{self.database}"

    def context(self) -> ssl.SSLContext | None:
        """Make what a driver in Python needs for TLS; None without TLS."""
        if self.tls in (None, "off"):
            return None
        context = ssl.create_default_context(cafile=self.ca)
        if self.tls == "on":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.cert is not None:
            context.load_cert_chain(self.cert, self.key)
        return context


def place_of(url: str) -> Place:
    """Read the URL of a database on a server, such as mariadb://user:password@host:3306/database?tls=verify."""
    shown = without_password(url)
    try:
        parts = urlsplit(url)
        port = parts.port
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:  # whose text may show the password
        raise BadRequest(
            f"{shown} is no URL of a database: a password with one of /?#@ in it needs them as %2F, %3F, %23 and %40"
        ) from None
    if parts.scheme not in SCHEMES:
        known = [f"{scheme}://" for scheme in SCHEMES] + [SQLITE, *GRPC]
        raise BadRequest(f"{shown} begins with none of {', '.join(known)}")
    kind, usual = SCHEMES[parts.scheme]
    database = unquote(parts.path.removeprefix("/"))
    if not database or "/" in database:
        raise BadRequest(f"{shown} has to name a database behind the host, as in {kind}://user:password@host/database")
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise BadRequest(f"{shown} has {', '.join(unknown)} behind the ?; there may be {', '.join(OPTIONS)}")
    tls = options.get("tls", "verify" if "ca" in options else None)
    if tls is not None and tls not in TLS:
        raise BadRequest(f"{shown} has tls={tls}; it may be {', '.join(TLS)}")
    socket = options.get("socket")
    if not parts.hostname and socket is None:
        raise BadRequest(f"{shown} names no host")
    return Place(
        kind=kind,
        host=parts.hostname or "localhost",
        port=usual if port is None else port,
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password is not None else None,
        database=database,
        socket=socket,
        tls=tls,
        ca=options.get("ca"),
        cert=options.get("cert"),
        key=options.get("key"),
    )


def path_of(url: str) -> str:
    """Read the path of a database in a file, as in sqlite:/var/lib/holdfast/leases.db."""
    path = url.removeprefix(SQLITE)
    if not path or path.startswith("//") or path == ":memory:":
        raise BadRequest(f"{url} names no file: say sqlite:PATH, such as sqlite:/var/lib/holdfast/leases.db")
    return path


def without_password(url: str) -> str:
    """Show a URL in a refusal."""
    scheme, slashes, rest = url.partition("://")
    return f"{scheme}{slashes}...@{rest.rpartition('@')[2]}" if "@" in rest else url
