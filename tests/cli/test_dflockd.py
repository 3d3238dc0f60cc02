"""The stand-in for dflockd: its table of flags and variables, and the Config that comes out.

How one flag is spelled is tested with the Go dialect, and what a token or TLS must obey with Config.
"""

import dataclasses
import itertools

import pytest

from holdfast import __version__
from holdfast.cli.dflockd import FLAGS, TABLE, load, main
from holdfast.config import SETTINGS, Config, parse_store, split_address
from holdfast.errors import ConfigError
from holdfast.settings import COUNT_MAX, PORT_MAX, SECOND, SECONDS_MAX, Kind

# What the original documents: flag, variable, default; integers with the least and most that they may be.
ORIGINAL = [
    ("host", "HOST", "127.0.0.1", None),
    ("port", "PORT", "6388", (0, PORT_MAX)),
    ("read-timeout", "READ_TIMEOUT_S", "23", (1, SECONDS_MAX)),
    ("write-timeout", "WRITE_TIMEOUT_S", "5", (0, SECONDS_MAX)),
    ("shutdown-timeout", "SHUTDOWN_TIMEOUT_S", "30", (0, SECONDS_MAX)),
    ("max-connections", "MAX_CONNECTIONS", "0", (0, COUNT_MAX)),
    ("max-connections-per-ip", "MAX_CONNECTIONS_PER_IP", "0", (0, COUNT_MAX)),
    ("auto-release-on-disconnect", "AUTO_RELEASE_ON_DISCONNECT", "true", None),
    ("default-lease-ttl", "DEFAULT_LEASE_TTL_S", "33", (1, SECONDS_MAX)),
    ("lease-sweep-interval", "LEASE_SWEEP_INTERVAL_S", "1", (1, SECONDS_MAX)),
    ("gc-interval", "GC_INTERVAL_S", "5", (1, SECONDS_MAX)),
    ("gc-max-idle", "GC_MAX_IDLE_S", "60", (0, SECONDS_MAX)),
    ("max-locks", "MAX_LOCKS", "1024", (1, COUNT_MAX)),
    ("max-waiters", "MAX_WAITERS", "0", (0, COUNT_MAX)),
    ("fence-state-file", "FENCE_STATE_FILE", "unset", None),
    ("tls-cert", "TLS_CERT", "unset", None),
    ("tls-key", "TLS_KEY", "unset", None),
    ("auth-token", "AUTH_TOKEN", "unset", None),
    ("auth-token-file", "AUTH_TOKEN_FILE", "unset", None),
    ("http-port", "HTTP_PORT", "0", (0, PORT_MAX)),
    ("http-host", "HTTP_HOST", "unset", None),
    ("http-session-idle-timeout", "HTTP_SESSION_IDLE_S", "20", (0, SECONDS_MAX)),
    ("http-max-sessions", "HTTP_MAX_SESSIONS", "0", (0, COUNT_MAX)),
    ("http-max-sessions-per-ip", "HTTP_MAX_SESSIONS_PER_IP", "0", (0, COUNT_MAX)),
    ("http-max-connections-per-ip", "HTTP_MAX_CONNECTIONS_PER_IP", "0", (0, COUNT_MAX)),
    ("http-rate-limit-per-ip", "HTTP_RATE_LIMIT_PER_IP", "0", (0, COUNT_MAX)),
    ("http-rate-limit-burst", "HTTP_RATE_LIMIT_BURST", "0", (0, COUNT_MAX)),
    ("http-cors-allowed-origins", "HTTP_CORS_ALLOWED_ORIGINS", "unset", None),
    ("debug", "DEBUG", "false", None),
]
INTEGERS = [(flag, f"DFLOCKD_{variable}", limits) for flag, variable, _, limits in ORIGINAL if limits]
WHOLE = (Kind.SECONDS, Kind.COUNT)
TOKENS = ("auth-token", "auth-token-file")

# Where the value of a flag ends up when it goes over as it is: the Config's field, a text, and what becomes of it.
LANDINGS = [
    ("host", "line", "10.0.0.1", "10.0.0.1:6388"),
    ("host", "line", "::1", "[::1]:6388"),
    ("host", "line", "[::1]", "[::1]:6388"),
    ("host", "line", "*", "*:6388"),
    ("port", "line", "0", "127.0.0.1:0"),
    ("port", "line", "65535", "127.0.0.1:65535"),
    ("read-timeout", "line_read_timeout_ns", "2", 2 * SECOND),
    ("write-timeout", "line_write_timeout_ns", "0", 0),
    ("shutdown-timeout", "shutdown_timeout_ns", "0", 0),
    ("max-connections", "connections_max", "7", 7),
    ("max-connections-per-ip", "connections_per_address_max", "7", 7),
    ("auto-release-on-disconnect", "release_on_disconnect", "false", False),
    ("default-lease-ttl", "lease_default_ns", "7", 7 * SECOND),
    ("lease-sweep-interval", "sweep_interval_ns", "7", 7 * SECOND),
    ("gc-interval", "gc_interval_ns", "7", 7 * SECOND),
    ("gc-max-idle", "gc_idle_max_ns", "0", 0),
    ("max-locks", "keys_max", "7", 7),
    ("max-waiters", "waiters_max", "7", 7),
    ("fence-state-file", "store", "/var/lib/f", "memory:?fence=/var/lib/f"),
    ("auth-token", "auth_token", " a ", "a"),
    ("debug", "log_level", "true", "debug"),
    ("http-port", "http", "8080", "127.0.0.1:8080"),
    ("http-session-idle-timeout", "http_session_idle_ns", "0", 0),
    ("http-max-sessions", "http_sessions_max", "7", 7),
    ("http-max-sessions-per-ip", "http_sessions_per_address_max", "7", 7),
    ("http-max-connections-per-ip", "http_connections_per_address_max", "7", 7),
    ("http-rate-limit-per-ip", "http_rate_per_address", "7", 7),
    ("http-rate-limit-burst", "http_rate_burst", "7", 7),
    ("http-cors-allowed-origins", "http_cors_origins", "*", "*"),
]


def no_file(path):
    raise AssertionError(f"nobody asked for {path}")


def variable_of(flag):
    return next(f"DFLOCKD_{variable}" for name, variable, _, _ in ORIGINAL if name == flag)


def test_the_table_is_the_one_of_the_original():
    found = [(item.name, item.flag, item.variable, item.shown()) for item in TABLE]
    assert found == [(flag, f"--{flag}", f"DFLOCKD_{var}", default) for flag, var, default, _ in ORIGINAL]
    assert FLAGS.keys() == {flag for flag, *_ in ORIGINAL} | {"version"}


def test_the_defaults_are_those_of_the_original():
    assert load({}, {}, no_file) == Config(
        store="memory:",
        http="off",
        http_api="sessions",
        http_read_timeout_ns=10 * SECOND,
        http_body_bytes_max=1 << 20,
        http_sessions_max=0,
        line="127.0.0.1:6388",
        line_read_timeout_ns=23 * SECOND,
        line_idle_timeout=True,
        line_write_timeout_ns=5 * SECOND,
        line_pending_bytes_max=4096,
        shutdown_timeout_ns=30 * SECOND,
        connections_max=0,
        connections_per_address_max=0,
        release_on_disconnect=True,
        lease_default_ns=33 * SECOND,
        sweep_interval_ns=SECOND,
        gc_interval_ns=5 * SECOND,
        gc_idle_max_ns=60 * SECOND,
        keys_max=1024,
        waiters_max=0,
        log_format="text",
    )


@pytest.mark.parametrize(("flag", "field", "text", "value"), LANDINGS)
@pytest.mark.parametrize("by_flag", [True, False])
def test_each_flag_and_each_variable_lands_in_its_field_and_nowhere_else(flag, field, text, value, by_flag):
    flags, environ = ({flag: text}, {}) if by_flag else ({}, {variable_of(flag): text})
    config = load(flags, environ, no_file)
    assert getattr(config, field) == value
    default = load({}, {}, no_file)
    assert dataclasses.replace(config, **{field: getattr(default, field)}) == default


def test_every_flag_lands_somewhere():
    elsewhere = {"tls-cert", "tls-key", "auth-token-file", "http-host"}
    landed = {flag for flag, *_ in LANDINGS}
    assert landed | elsewhere == {flag for flag, *_ in ORIGINAL}


@pytest.mark.parametrize(
    ("flags", "address"),
    [
        ({"http-port": "8080", "http-host": "::1"}, "[::1]:8080"),
        ({"http-port": "8080", "host": "10.0.0.1"}, "10.0.0.1:8080"),
        ({"http-port": "8080", "host": ""}, "*:8080"),
        ({"http-host": "::1"}, "off"),
    ],
)
def test_http_listens_where_the_line_door_does_unless_it_is_told_otherwise(flags, address):
    assert load(flags, {}, no_file).http == address


@pytest.mark.parametrize(("has_flag", "has_variable"), list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("setting", [item for item in TABLE if item.field in SETTINGS and item.kind in WHOLE])
def test_a_flag_beats_a_variable_and_a_variable_beats_the_default(setting, has_flag, has_variable):
    flags = {setting.name: "41"} if has_flag else {}
    environ = {setting.variable: "42"} if has_variable else {}
    unit = SECOND if setting.kind is Kind.SECONDS else 1
    expected = 41 * unit if has_flag else 42 * unit if has_variable else setting.default
    assert getattr(load(flags, environ, no_file), setting.field) == expected


@pytest.mark.parametrize(("flag", "variable", "limits"), INTEGERS)
@pytest.mark.parametrize("by_flag", [True, False])
def test_each_limit_holds_at_its_edge_and_not_beyond(flag, variable, limits, by_flag):
    def give(number):
        flags, environ = ({flag: str(number)}, {}) if by_flag else ({}, {variable: str(number)})
        return load(flags, environ, no_file)

    least, most = limits
    assert give(least)
    if flag != "http-port":
        assert give(most)
    source = f"--{flag}" if by_flag else variable
    for number in (least - 1, most + 1):
        with pytest.raises(ConfigError) as caught:
            give(number)
        for part in (f"{flag} must be", f"from {least} to {most}", f"'{number}'", f"(from {source})"):
            assert part in str(caught.value)


@pytest.mark.parametrize(("flag", "variable", "limits"), INTEGERS)
@pytest.mark.parametrize("text", ["x", "1.5", "5s", " 5", "0x10"])
def test_a_variable_that_is_no_integer_stops_the_start(flag, variable, limits, text):
    with pytest.raises(ConfigError, match=rf"^{flag} must be a whole number .*'{text}' \(from {variable}\)$"):
        load({}, {variable: text}, no_file)


@pytest.mark.parametrize(
    ("word", "truth"),
    [(word, True) for word in ("1", "yes", "true", "YES", "True")]
    + [(word, False) for word in ("0", "no", "false", "NO", "False")],
)
def test_booleans_of_variables_have_words_of_their_own(word, truth):
    environ = {"DFLOCKD_AUTO_RELEASE_ON_DISCONNECT": word, "DFLOCKD_DEBUG": word}
    config = load({}, environ, no_file)
    assert config.release_on_disconnect is truth
    assert config.log_level == ("debug" if truth else "info")


@pytest.mark.parametrize("variable", ["DFLOCKD_AUTO_RELEASE_ON_DISCONNECT", "DFLOCKD_DEBUG"])
@pytest.mark.parametrize("word", ["on", "t", "2", "ja"])
def test_a_variable_that_is_no_boolean_stops_the_start(variable, word):
    with pytest.raises(ConfigError, match=rf"'{word}' \(from {variable}\)"):
        load({}, {variable: word}, no_file)


def test_certificate_and_key_go_together():
    config = load({"tls-cert": "/c"}, {"DFLOCKD_TLS_KEY": "/k"}, no_file)
    assert (config.tls_cert, config.tls_key, config.tls_client_ca) == ("/c", "/k", None)
    with pytest.raises(ConfigError, match=r"^tls-cert needs tls-key, which is unset: '/c' \(from --tls-cert\)$"):
        load({"tls-cert": "/c"}, {}, no_file)
    with pytest.raises(ConfigError, match=r"^tls-key needs tls-cert, which is unset: '/k' \(from DFLOCKD_TLS_KEY"):
        load({}, {"DFLOCKD_TLS_KEY": "/k"}, no_file)


@pytest.mark.parametrize("present", list(itertools.product([False, True], repeat=4)))
def test_the_token_comes_from_flag_file_flag_variable_or_file_variable_in_this_order(present):
    by_flag, by_file_flag, by_variable, by_file_variable = present
    flags = {"auth-token": "flag"} if by_flag else {}
    flags |= {"auth-token-file": "/file flag"} if by_file_flag else {}
    environ = {"DFLOCKD_AUTH_TOKEN": "variable"} if by_variable else {}
    environ |= {"DFLOCKD_AUTH_TOKEN_FILE": "/file variable"} if by_file_variable else {}
    sources = ("flag", "file flag", "variable", "file variable")
    expected = next((name for name, here in zip(sources, present, strict=True) if here), None)
    assert load(flags, environ, lambda path: path[1:]).auth_token == expected


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize("by_flag", [True, False])
def test_an_empty_token_is_an_error_although_other_empty_values_are_none(name, by_flag):
    flags, environ = ({name: ""}, {}) if by_flag else ({}, {variable_of(name): ""})
    with pytest.raises(ConfigError, match=f"^{name} must be a text that is not empty"):
        load(flags, environ, no_file)


@pytest.mark.parametrize("flag", [flag for flag, *_ in ORIGINAL if flag not in TOKENS])
def test_an_empty_variable_is_none(flag):
    assert load({}, {variable_of(flag): ""}, no_file) == load({}, {}, no_file)


def test_an_empty_flag_still_beats_its_variable():
    config = load({"fence-state-file": ""}, {"DFLOCKD_FENCE_STATE_FILE": "/f"}, no_file)
    assert config.store == "memory:"


def test_an_empty_host_flag_means_every_interface():
    assert split_address(load({"host": ""}, {"DFLOCKD_HOST": "10.0.0.1"}, no_file).line) == ("", 6388)


@pytest.mark.parametrize("path", ["/a b", "/a+b", "/a&b=c?d#e%2F", "relative", "/\udcff", "/ä"])
def test_any_path_survives_the_way_into_the_store_url(path):
    assert parse_store(load({"fence-state-file": path}, {}, no_file).store).fence_file == path


def test_a_host_that_cannot_be_is_named_with_its_source():
    for flag in ("host", "http-host"):
        with pytest.raises(ConfigError, match=rf"^{flag} must be a host name .* 'a b' \(from {variable_of(flag)}\)"):
            load({}, {variable_of(flag): "a b"}, no_file)


def test_both_doors_cannot_share_a_port():
    with pytest.raises(ConfigError, match=r"^http-port must differ from port, but both are 6388 \(from --http-port\)"):
        load({"http-port": "6388"}, {}, no_file)
    assert load({"port": "0", "http-port": "0"}, {}, no_file).line == "127.0.0.1:0"


def test_variables_of_old_releases_and_of_the_cluster_are_ignored():
    environ = {"DFLOCKD_GC_LOOP_SLEEP": "x", "DFLOCKD_GC_MAX_UNUSED_TIME": "x", "DFLOCKD_RAFT_DIR": "/x"}
    assert load({}, environ | {"HOLDFAST_KEYS_MAX": "x"}, no_file) == load({}, {}, no_file)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_starts_a_server_with_what_was_asked_for(started):
    arguments = ["-port", "0", "--max-locks=0x10", "-auto-release-on-disconnect=F", "--debug"]
    assert main(arguments, {"DFLOCKD_MAX_LOCKS": "5", "DFLOCKD_MAX_WAITERS": "6"}) == 0
    (config,) = started
    assert (config.line, config.keys_max, config.waiters_max) == ("127.0.0.1:0", 16, 6)
    assert (config.release_on_disconnect, config.log_level) == (False, "debug")


def test_the_command_reads_a_token_file(started, tmp_path):
    file = tmp_path / "token"
    file.write_text("geheim\n")
    assert main(["--auth-token-file", str(file)], {}) == 0
    assert started[0].auth_token == "geheim"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-nope"], "flag provided but not defined: -nope"),
        (["--raft-dir", "/x"], "flag provided but not defined: -raft-dir"),
        (["-port"], "flag needs an argument: -port"),
        (["-port", "x"], 'invalid value "x" for flag -port: parse error'),
        (["-debug=yes"], 'invalid boolean value "yes" for -debug: parse error'),
        (["-debug", "false"], "unexpected argument: 'false'"),
        (["--", "-debug"], "unexpected argument: '-debug'"),
    ],
)
def test_a_command_line_that_go_would_refuse_ends_with_exit_code_2(arguments, message, started, capsys):
    assert main(arguments, {}) == 2
    assert capsys.readouterr() == ("", f"holdfast dflockd: {message}\nTry: holdfast dflockd --help\n")
    assert started == []


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        (["-port", "65536"], {}),
        ([], {"DFLOCKD_PORT": "x"}),
        ([], {"DFLOCKD_DEBUG": "maybe"}),
        (["-http-port=6388"], {}),
        (["-tls-cert=/c"], {}),
        (["-auth-token="], {}),
        (["-auth-token-file", "/dev/null/nothing"], {}),
    ],
)
def test_a_value_that_cannot_be_ends_with_exit_code_1_and_one_line(arguments, environ, started, capsys):
    assert main(arguments, environ) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("holdfast: ")
    assert err.count("\n") == 1
    assert started == []


@pytest.mark.parametrize("argument", ["-h", "-help", "--help"])
def test_help_names_every_flag_and_variable(argument, started, capsys):
    assert main([argument], {"DFLOCKD_PORT": "x"}) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for flag, variable, default, _ in ORIGINAL:
        assert f"  -{flag}" in out
        assert f"[DFLOCKD_{variable}]" in out
        assert default in ("unset", "false", "0") or f"(default {default})" in out.replace('"', "")
    assert "  -version\n" in out
    assert started == []


def test_version_is_printed_before_any_setting_is_judged(started, capsys):
    assert main(["-version", "-port=99999"], {"DFLOCKD_PORT": "x"}) == 0
    assert capsys.readouterr() == (f"holdfast {__version__}\n", "")
    assert main(["-version=false"], {}) == 0
    assert len(started) == 1
