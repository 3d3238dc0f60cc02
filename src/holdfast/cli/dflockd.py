"""`holdfast dflockd`: start Holdfast with the flags, variables and defaults of the original dflockd 2.1.

A table of names and a mapping onto `Config` live here; limits and types come from there, never from here.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from urllib.parse import quote

from holdfast import __version__
from holdfast.cli.goflags import Flag, FlagError, HelpAsked, Type, parse, usage
from holdfast.cli.launch import EXIT_USAGE, launch, read_file
from holdfast.config import SETTINGS, Config, ReadFile, gather
from holdfast.errors import ConfigError
from holdfast.settings import (
    COUNT_MAX,
    PORT_MAX,
    SECOND,
    SECONDS_MAX,
    Kind,
    Setting,
    Value,
    join_address,
)

# The original drops a connection when the bytes behind its blocked command fill a buffer of this size.
PENDING_BYTES_MAX = 4_096
HTTP_BODY_BYTES_MAX = 1_048_576
HTTP_READ_TIMEOUT_NS = 10 * SECOND


def like(field: str, name: str, variable: str, **changes: Any) -> Setting:
    """Give a setting of `Config` the original's name, and its default where they differ."""
    return replace(SETTINGS[field], name=name, flag=f"--{name}", variable=f"DFLOCKD_{variable}", **changes)


def own(name: str, variable: str, kind: Kind, default: Value, about: str, **limits: Any) -> Setting:
    """Describe what only the original has; its field is the name itself."""
    return Setting(
        field=name,
        name=name,
        flag=f"--{name}",
        variable=f"DFLOCKD_{variable}",
        kind=kind,
        default=default,
        help=about,
        group="dflockd",
        **{"most": SECONDS_MAX if kind is Kind.SECONDS else COUNT_MAX, **limits},
    )


TABLE: tuple[Setting, ...] = (
    own("host", "HOST", Kind.HOST, "127.0.0.1", "Host to listen on; empty or * is every interface."),
    own("port", "PORT", Kind.COUNT, 6388, "TCP port of the line protocol.", most=PORT_MAX),
    like("line_read_timeout_ns", "read-timeout", "READ_TIMEOUT_S"),
    like("line_write_timeout_ns", "write-timeout", "WRITE_TIMEOUT_S"),
    like("shutdown_timeout_ns", "shutdown-timeout", "SHUTDOWN_TIMEOUT_S"),
    like("connections_max", "max-connections", "MAX_CONNECTIONS", default=0),
    like("connections_per_address_max", "max-connections-per-ip", "MAX_CONNECTIONS_PER_IP"),
    like("release_on_disconnect", "auto-release-on-disconnect", "AUTO_RELEASE_ON_DISCONNECT"),
    like("lease_default_ns", "default-lease-ttl", "DEFAULT_LEASE_TTL_S"),
    like("sweep_interval_ns", "lease-sweep-interval", "LEASE_SWEEP_INTERVAL_S"),
    like("gc_interval_ns", "gc-interval", "GC_INTERVAL_S"),
    like("gc_idle_max_ns", "gc-max-idle", "GC_MAX_IDLE_S"),
    like("keys_max", "max-locks", "MAX_LOCKS", default=1024),
    like("waiters_max", "max-waiters", "MAX_WAITERS", default=0),
    own("fence-state-file", "FENCE_STATE_FILE", Kind.FILE, None, "Keeps fences rising over restarts."),
    like("tls_cert", "tls-cert", "TLS_CERT"),
    like("tls_key", "tls-key", "TLS_KEY"),
    like("auth_token", "auth-token", "AUTH_TOKEN"),
    like("auth_token_file", "auth-token-file", "AUTH_TOKEN_FILE"),
    own("http-port", "HTTP_PORT", Kind.COUNT, 0, "TCP port of the HTTP interface; 0 is off.", most=PORT_MAX),
    own("http-host", "HTTP_HOST", Kind.HOST, None, "Host to listen on for HTTP; unset is that of --host."),
    like("http_session_idle_ns", "http-session-idle-timeout", "HTTP_SESSION_IDLE_S"),
    like("http_sessions_max", "http-max-sessions", "HTTP_MAX_SESSIONS", default=0),
    like("http_sessions_per_address_max", "http-max-sessions-per-ip", "HTTP_MAX_SESSIONS_PER_IP"),
    like("http_connections_per_address_max", "http-max-connections-per-ip", "HTTP_MAX_CONNECTIONS_PER_IP"),
    like("http_rate_per_address", "http-rate-limit-per-ip", "HTTP_RATE_LIMIT_PER_IP", most=COUNT_MAX),
    like("http_rate_burst", "http-rate-limit-burst", "HTTP_RATE_LIMIT_BURST", most=COUNT_MAX),
    like("http_cors_origins", "http-cors-allowed-origins", "HTTP_CORS_ALLOWED_ORIGINS"),
    own("debug", "DEBUG", Kind.BOOLEAN, False, "Log at level debug."),
)  # fmt: skip

# What a person would use in `holdfast serve` for flags that have no setting of their own there; documentation only.
COUNTERPARTS = {
    "host": "`--line`",
    "port": "`--line`",
    "http-host": "`--http`",
    "http-port": "`--http`",
    "fence-state-file": "`--store memory:?fence=FILE`",
    "debug": "`--log-level debug`",
}

INTEGERS = (Kind.SECONDS, Kind.COUNT, Kind.BYTES)


def go_flag(setting: Setting) -> Flag:
    """Describe a setting to the flag parser."""
    takes = Type.STRING
    if setting.kind in INTEGERS:
        takes = Type.INT
    if setting.kind is Kind.BOOLEAN:
        takes = Type.BOOL
    # Go leaves out defaults that are zero, and quotes those that are texts.
    default = "" if setting.shown() in ("unset", "0", "false") else setting.shown()
    if default and takes is Type.STRING:
        default = f'"{default}"'
    return Flag(setting.name, takes, default, f"{setting.help} [{setting.variable}]")


FLAGS: dict[str, Flag] = {setting.name: go_flag(setting) for setting in TABLE} | {
    "version": Flag("version", Type.BOOL, "", "Print the version and exit.")
}


def load(flags: Mapping[str, str], environ: Mapping[str, str], read_file: ReadFile) -> Config:
    """Make the Config that behaves as the original would with these flags and variables."""
    values = gather(TABLE, *_without_blanks(flags, environ), read_file)
    same = {field: value for field, value in values.items() if field in SETTINGS}
    fence_file = values["fence-state-file"]
    return Config(
        **cast(dict[str, Any], same),
        store="memory:" + (f"?fence={quote(str(fence_file), errors='surrogateescape')}" if fence_file else ""),
        line=join_address(str(values["host"]), cast(int, values["port"])),
        http=_http_address(values, flags),
        http_api="sessions",
        http_read_timeout_ns=HTTP_READ_TIMEOUT_NS,
        http_body_bytes_max=HTTP_BODY_BYTES_MAX,
        # The original closes a silent connection even between requests.
        line_idle_timeout=True,
        line_pending_bytes_max=PENDING_BYTES_MAX,
        log_level="debug" if values["debug"] else "info",
        log_format="text",
    )


def _without_blanks(flags: Mapping[str, str], environ: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Treat an empty value as none, except for the token: that would quietly switch authentication off."""
    kept_flags, kept_variables = dict(flags), dict(environ)
    for setting in TABLE:
        if setting.field in ("auth_token", "auth_token_file"):
            continue
        if flags.get(setting.name) == "":
            # A blank flag still beats its variable, as every flag does.
            del kept_flags[setting.name]
            kept_variables.pop(setting.variable, None)
        if environ.get(setting.variable) == "":
            kept_variables.pop(setting.variable, None)
    if flags.get("host") == "":
        # This is Go's way of saying every interface.
        kept_flags["host"] = "*"
    return kept_flags, kept_variables


def _http_address(values: Mapping[str, Value], flags: Mapping[str, str]) -> str:
    port = cast(int, values["http-port"])
    if not port:
        return "off"
    if port == values["port"]:
        source = "--http-port" if "http-port" in flags else "DFLOCKD_HTTP_PORT"
        raise ConfigError(f"http-port must differ from port, but both are {port} (from {source})")
    return join_address(str(values["http-host"] or values["host"]), port)


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the command and answer its exit code."""
    try:
        parsed = parse(arguments, FLAGS)
        if parsed.rest:
            raise FlagError(f"unexpected argument: {parsed.rest[0]!r}")
    except HelpAsked:
        sys.stdout.write(usage("holdfast dflockd", FLAGS.values()))
        return 0
    except FlagError as error:
        sys.stderr.write(f"holdfast dflockd: {error}\nTry: holdfast dflockd --help\n")
        return EXIT_USAGE
    if parsed.values.pop("version", "false") == "true":
        sys.stdout.write(f"holdfast {__version__}\n")
        return 0
    return launch(lambda: load(parsed.values, environ, read_file))
