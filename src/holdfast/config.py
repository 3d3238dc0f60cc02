"""Every setting of the server, defined once: its type, default, limits, flag, environment variable and help.

Nothing here touches the environment or the disk: flags, variables and a file reader come in as arguments.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, cast

from holdfast.errors import ConfigError
from holdfast.settings import (
    BYTES_MAX,
    COUNT_MAX,
    SECOND,
    SECONDS_MAX,
    Given,
    Kind,
    Setting,
    StoreChoice,
    Value,
    parse_store,
    split_address,
)

__all__ = [
    "SETTINGS",
    "Config",
    "ConfigError",
    "ReadFile",
    "StoreChoice",
    "cautions",
    "gather",
    "load",
    "parse_store",
    "split_address",
]

TOKEN_BYTES_MAX = 65_536  # the longest argument that the line door reads; a longer token could never be shown

# Unicode's white space, and nothing else: `str.strip` alone would also take the separators U+001C to U+001F.
WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))

T = TypeVar("T")
ReadFile = Callable[[str], str]


def setting(default: T, kind: Kind, group: str, about: str, **limits: Any) -> T:
    """Declare one field of `Config`; its outside name, flag and variable follow from the field's name."""
    facts = {"kind": kind, "group": group, "help": about, **limits}
    return field(default=default, repr=not limits.get("secret", False), metadata={"facts": facts})


# The headings under which help and documentation list the settings.
STORE, LINE, HTTP, CONNECTIONS = "Store", "Line door", "HTTP door", "Connections"
GRPC = "gRPC door"
SESSIONS, KEYS, TLS, AUTH, LOGS = "HTTP sessions", "Keys and leases", "TLS", "Authentication", "Logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of one server; durations are nanoseconds here and whole seconds outside."""

    store: str = setting(
        "sqlite:holdfast.db",
        Kind.STORE,
        STORE,
        "Where locks live: sqlite:FILE, or memory:, or memory:?fence=FILE to keep fences rising over restarts.",
    )
    store_busy_timeout_ns: int = setting(
        5 * SECOND, Kind.SECONDS, STORE, "How long a command waits for another process that keeps the store to itself."
    )
    store_batch_max: int = setting(1_000, Kind.COUNT, STORE, "Most commands that one commit makes durable.", least=1)
    line: str = setting(
        "127.0.0.1:6388",
        Kind.ADDRESS,
        LINE,
        "Where the line door listens: *:PORT is every interface, or off.",
    )
    line_read_timeout_ns: int = setting(
        23 * SECOND, Kind.SECONDS, LINE, "How long each line of a request may take to arrive.", least=1
    )
    line_idle_timeout: bool = setting(
        False, Kind.BOOLEAN, LINE, "Let the read timeout run between requests too, so idle connections close."
    )
    line_write_timeout_ns: int = setting(
        5 * SECOND, Kind.SECONDS, LINE, "How long a peer may leave an answer unread; 0 is for ever."
    )
    line_pending_bytes_max: int = setting(
        65_536, Kind.BYTES, LINE, "Most bytes kept for a connection behind its blocked command.", least=4_096
    )
    http: str = setting(
        "127.0.0.1:8080",
        Kind.ADDRESS,
        HTTP,
        "Where the HTTP door listens: *:PORT is every interface, or off.",
    )
    http_api: str = setting(
        "both",
        Kind.CHOICE,
        HTTP,
        "Which interface: leases as LockServer's, sessions as dflockd's, or both, told apart by the session header.",
        choices=("both", "leases", "sessions"),
    )
    http_connections_per_address_max: int = setting(
        0, Kind.COUNT, HTTP, "Most HTTP connections from one address; 0 is no limit."
    )
    http_read_timeout_ns: int = setting(
        5 * SECOND, Kind.SECONDS, HTTP, "How long a request may take to arrive, head and body each.", least=1
    )
    http_idle_timeout_ns: int = setting(
        120 * SECOND, Kind.SECONDS, HTTP, "How long a connection may stay open between requests.", least=1
    )
    http_body_bytes_max: int = setting(65_536, Kind.BYTES, HTTP, "Most bytes of a request's body.", least=1_024)
    http_name_bytes_max: int = setting(255, Kind.BYTES, HTTP, "Most bytes of a lock's name.", least=1, most=1_000)
    http_wait_max_ns: int = setting(60 * SECOND, Kind.SECONDS, HTTP, "The longest wait_ms that an acquire may ask for.")
    http_lease_ids_shown: bool = setting(
        False, Kind.BOOLEAN, HTTP, "Show lease ids to everybody who looks at a lock, as the original does."
    )
    http_tokens_file: str | None = setting(
        None, Kind.FILE, HTTP, "File (JSON) of bearer tokens and their rights for each prefix of keys."
    )
    http_rate_per_address: int = setting(
        0, Kind.COUNT, HTTP, "Most requests a second from one address; 0 is no limit.", most=1_000_000
    )
    http_rate_burst: int = setting(
        0, Kind.COUNT, HTTP, "Requests that an address may send at once; 0 is the rate.", most=1_000_000
    )
    http_cors_origins: str | None = setting(
        None, Kind.TEXT, HTTP, "Origins whose pages may call, separated by commas; * is all."
    )
    http_session_idle_ns: int = setting(
        20 * SECOND, Kind.SECONDS, SESSIONS, "A session ends when it is silent for twice this long; 0 is never."
    )
    http_sessions_max: int = setting(10_000, Kind.COUNT, SESSIONS, "Most sessions; 0 is no limit.")
    http_sessions_per_address_max: int = setting(
        0, Kind.COUNT, SESSIONS, "Most sessions from one address; 0 is no limit."
    )
    grpc: str = setting(
        "off",
        Kind.ADDRESS,
        GRPC,
        "Where the gRPC door listens: *:PORT is every interface, or off. It takes the extra holdfast[grpc].",
    )
    connections_max: int = setting(10_000, Kind.COUNT, CONNECTIONS, "Most connections of each door; 0 is no limit.")
    connections_per_address_max: int = setting(
        0, Kind.COUNT, CONNECTIONS, "Most connections of the line door from one address; 0 is no limit."
    )
    release_on_disconnect: bool = setting(
        True,
        Kind.BOOLEAN,
        CONNECTIONS,
        "End what a connection holds when it closes, not when leases run out.",
    )
    session_grace_ns: int = setting(
        30 * SECOND,
        Kind.SECONDS,
        CONNECTIONS,
        "How long a session of the native protocol waits for its client to come back.",
    )
    shutdown_timeout_ns: int = setting(
        30 * SECOND, Kind.SECONDS, CONNECTIONS, "How long connections may linger after a stop; 0 is for ever."
    )
    lease_default_ns: int = setting(33 * SECOND, Kind.SECONDS, KEYS, "The lease of a holder that names none.", least=1)
    sweep_interval_ns: int = setting(1 * SECOND, Kind.SECONDS, KEYS, "How often expired leases are swept up.", least=1)
    gc_interval_ns: int = setting(5 * SECOND, Kind.SECONDS, KEYS, "How often idle keys are dropped.", least=1)
    gc_idle_max_ns: int = setting(60 * SECOND, Kind.SECONDS, KEYS, "How long a key may idle and be kept.")
    keys_max: int = setting(1_000_000, Kind.COUNT, KEYS, "Most keys, idle ones included.", least=1)
    waiters_max: int = setting(10_000, Kind.COUNT, KEYS, "Most waiters on one key; 0 is no limit.")
    tls_cert: str | None = setting(None, Kind.FILE, TLS, "The server's certificate chain (PEM).")
    tls_key: str | None = setting(None, Kind.FILE, TLS, "The private key of the certificate (PEM).")
    tls_client_ca: str | None = setting(
        None, Kind.FILE, TLS, "Authority (PEM) that must have signed each client's certificate."
    )
    auth_token: str | None = setting(
        None,
        Kind.TEXT,
        AUTH,
        "Token that clients must show; a file keeps it out of process lists.",
        secret=True,
    )
    auth_token_file: str | None = setting(None, Kind.FILE, AUTH, "File that holds the token.")
    log_level: str = setting(
        "info", Kind.CHOICE, LOGS, "The least level to log.", choices=("debug", "info", "warning", "error")
    )
    log_format: str = setting(
        "auto", Kind.CHOICE, LOGS, "auto: text on a terminal, else JSON.", choices=("auto", "text", "json")
    )
    log_operations: str = setting(
        "failures",
        Kind.CHOICE,
        LOGS,
        "Which operations of the HTTP door to log: sampled adds a few successes a second.",
        choices=("off", "failures", "sampled", "all"),
    )


def _settings() -> dict[str, Setting]:
    found = {}
    for item in fields(Config):
        name = item.name.removesuffix("_ns")
        facts = dict(item.metadata["facts"])
        most = {Kind.SECONDS: SECONDS_MAX, Kind.BYTES: BYTES_MAX}.get(facts["kind"], COUNT_MAX)
        found[item.name] = Setting(
            field=item.name,
            name=name,
            flag="--" + name.replace("_", "-"),
            variable="HOLDFAST_" + name.upper(),
            default=cast(Value, item.default),
            **{"most": most, **facts},
        )
    return found


SETTINGS: dict[str, Setting] = _settings()


def load(flags: Mapping[str, str], environ: Mapping[str, str], read_file: ReadFile) -> Config:
    """Make the Config of `holdfast serve`; a flag beats a variable, a variable beats the default."""
    values = gather(SETTINGS.values(), flags, environ, read_file)
    return Config(**cast(dict[str, Any], values))


def gather(
    settings: Iterable[Setting],
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    read_file: ReadFile,
) -> dict[str, Value]:
    """Read every setting that was given and fill in defaults; `flags` is keyed by the settings' names."""
    table = {item.field: item for item in settings}
    givens: dict[str, Given] = {}
    for key, item in table.items():
        if item.name in flags:
            givens[key] = Given(flags[item.name], item.flag)
        elif item.variable in environ:
            givens[key] = Given(environ[item.variable], item.variable)
    _keep_one_token(givens, table)
    values = {key: item.read(givens[key]) if key in givens else item.default for key, item in table.items()}
    if "auth_token" in givens:
        values["auth_token"] = _clean_token(table["auth_token"], givens["auth_token"])
    elif "auth_token_file" in givens:
        values["auth_token"] = _token_of_file(table["auth_token_file"], givens["auth_token_file"], read_file)
    _check_tls(table, givens, values)
    return values


def _keep_one_token(givens: dict[str, Given], table: Mapping[str, Setting]) -> None:
    """Drop the loser of token and token file: a flag beats a variable, then the token beats the file."""
    if "auth_token" in givens and "auth_token_file" in givens:
        token_is_flag = givens["auth_token"].source == table["auth_token"].flag
        file_is_flag = givens["auth_token_file"].source == table["auth_token_file"].flag
        del givens["auth_token" if file_is_flag and not token_is_flag else "auth_token_file"]


def _token_of_file(item: Setting, given: Given, read_file: ReadFile) -> str:
    try:
        text = read_file(given.text)
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{item.name}: cannot read {given.text!r} (from {given.source}): {why}") from error
    return _clean_token(item, Given(text, f"the file {given.text!r}, named by {given.source}"))


def _clean_token(item: Setting, given: Given) -> str:
    """Trim a token and refuse one that no client could ever show; the token itself is never repeated."""
    token = given.text.strip(WHITE)
    if token == "":
        raise ConfigError(f"{item.name}: the token must not be empty (from {given.source})")
    if "\n" in token or "\r" in token:
        raise ConfigError(f"{item.name}: the token must be one line, without CR or LF (from {given.source})")
    if len(token.encode("utf-8", "surrogateescape")) > TOKEN_BYTES_MAX:
        raise ConfigError(f"{item.name}: a token has at most {TOKEN_BYTES_MAX} bytes (from {given.source})")
    return token


def _check_tls(table: Mapping[str, Setting], givens: Mapping[str, Given], values: Mapping[str, Value]) -> None:
    needs = [("tls_cert", "tls_key"), ("tls_key", "tls_cert"), ("tls_client_ca", "tls_cert")]
    for one, other in needs:
        if one in givens and values[other] is None:
            given, name, missing = givens[one], table[one].name, table[other].name
            raise ConfigError(f"{name} needs {missing}, which is unset: {given.text!r} (from {given.source})")


def cautions(config: Config) -> list[str]:
    """Say what this Config allows although it is risky; a server logs each line when it starts."""
    exposed = [address for address in (config.line, config.http, config.grpc) if not _is_private(address)]
    found = [
        f"{name} has no limit, and {address} is not loopback"
        for name in ("connections_max", "waiters_max")
        if not getattr(config, name)
        for address in exposed
    ]
    for address in exposed:
        tokens = config.auth_token or (None if address == config.line else config.http_tokens_file)
        if tokens is None:
            found.append(f"no auth_token is set: whoever reaches {address} may take and end locks")
        elif config.tls_cert is None:
            found.append(f"TLS is off: tokens cross the network to {address} in clear text")
    if config.http_tokens_file is not None and config.auth_token is None and config.line != "off":
        found.append(f"http_tokens_file is not for the line door: whoever reaches {config.line} needs no token")
    if config.line_idle_timeout and config.lease_default_ns > 2 * config.line_read_timeout_ns:
        # A client that renews at half its lease would be silent for longer than the read timeout.
        found.append("lease_default is over twice line_read_timeout: holders can be cut off before they renew")
    return found


def _is_private(address: str) -> bool:
    """Say whether nobody outside of this machine can reach a door."""
    if address == "off":
        return True
    host = split_address(address)[0]
    return host in ("localhost", "::1") or host.startswith("127.")
