"""Which settings there are, which source of a value wins, and what the whole set of values must obey."""

import dataclasses
import itertools

import pytest

from holdfast.config import (
    SETTINGS,
    TOKEN_BYTES_MAX,
    Config,
    ConfigError,
    StoreChoice,
    cautions,
    gather,
    load,
    parse_store,
    split_address,
)
from holdfast.settings import BYTES_MAX, COUNT_MAX, SECOND, SECONDS_MAX, Kind

WHOLE = (Kind.SECONDS, Kind.COUNT, Kind.BYTES)

# One good text for each kind that is not the default of any setting, with a second one that differs.
SAMPLES = {
    Kind.SECONDS: ("41", "42"),
    Kind.COUNT: ("41", "42"),
    Kind.BYTES: ("5000", "6000"),
    Kind.BOOLEAN: ("yes", "no"),
    Kind.ADDRESS: ("localhost:1", "off"),
    Kind.STORE: ("memory:?fence=a", "memory:?fence=b"),
    Kind.FILE: ("/a", "/b"),
    Kind.TEXT: ("a", "b"),
}

# These are read together with others; their own tests are below.
TOGETHER = ("tls_cert", "tls_key", "tls_client_ca", "auth_token", "auth_token_file")
ALONE = [name for name in SETTINGS if name not in TOGETHER]


def no_file(path):
    raise AssertionError(f"nobody asked for {path}")


def samples(setting):
    if setting.most < 5000:
        return ("500", "600")
    return setting.choices[:2] if setting.kind is Kind.CHOICE else SAMPLES[setting.kind]


def inside(setting, text):
    if setting.kind in WHOLE:
        return int(text) * (SECOND if setting.kind is Kind.SECONDS else 1)
    return text == "yes" if setting.kind is Kind.BOOLEAN else text


def test_the_defaults_of_serve():
    assert dataclasses.asdict(load({}, {}, no_file)) == {
        "store": "sqlite:holdfast.db",
        "store_busy_timeout_ns": 5_000_000_000,
        "store_batch_max": 1_000,
        "line": "127.0.0.1:6388",
        "line_read_timeout_ns": 23_000_000_000,
        "line_idle_timeout": False,
        "line_write_timeout_ns": 5_000_000_000,
        "line_pending_bytes_max": 65_536,
        "http": "127.0.0.1:8080",
        "http_api": "both",
        "http_read_timeout_ns": 5_000_000_000,
        "http_idle_timeout_ns": 120_000_000_000,
        "http_body_bytes_max": 65_536,
        "http_name_bytes_max": 255,
        "http_wait_max_ns": 60_000_000_000,
        "http_lease_ids_shown": False,
        "http_tokens_file": None,
        "http_rate_per_address": 0,
        "http_rate_burst": 0,
        "http_cors_origins": None,
        "http_session_idle_ns": 20_000_000_000,
        "http_sessions_max": 10_000,
        "http_sessions_per_address_max": 0,
        "http_connections_per_address_max": 0,
        "grpc": "off",
        "connections_max": 10_000,
        "connections_per_address_max": 0,
        "release_on_disconnect": True,
        "session_grace_ns": 30_000_000_000,
        "shutdown_timeout_ns": 30_000_000_000,
        "lease_default_ns": 33_000_000_000,
        "sweep_interval_ns": 1_000_000_000,
        "gc_interval_ns": 5_000_000_000,
        "gc_idle_max_ns": 60_000_000_000,
        "keys_max": 1_000_000,
        "waiters_max": 10_000,
        "tls_cert": None,
        "tls_key": None,
        "tls_client_ca": None,
        "auth_token": None,
        "auth_token_file": None,
        "log_level": "info",
        "log_format": "auto",
        "log_operations": "failures",
    }


def test_a_config_made_by_hand_has_the_same_defaults():
    assert Config() == load({}, {}, no_file)


def test_every_default_is_a_value_that_could_be_given():
    flags = {item.name: item.shown() for item in SETTINGS.values() if item.default is not None}
    assert load(flags, {}, no_file) == Config()


@pytest.mark.parametrize("field", SETTINGS)
def test_flag_and_variable_follow_from_the_name_and_the_help_is_a_sentence(field):
    setting = SETTINGS[field]
    assert setting.name == field.removesuffix("_ns")
    assert setting.flag == "--" + setting.name.replace("_", "-")
    assert setting.variable == "HOLDFAST_" + setting.name.upper()
    assert setting.help[-1] == "."
    assert field.endswith("_ns") == (setting.kind is Kind.SECONDS)


@pytest.mark.parametrize("field", ALONE)
@pytest.mark.parametrize(("has_flag", "has_variable"), list(itertools.product([False, True], repeat=2)))
def test_a_flag_beats_a_variable_and_a_variable_beats_the_default(field, has_flag, has_variable):
    setting = SETTINGS[field]
    one, other = samples(setting)
    flags = {setting.name: one} if has_flag else {}
    environ = {setting.variable: other} if has_variable else {}
    expected = inside(setting, one) if has_flag else inside(setting, other) if has_variable else setting.default
    config = load(flags, environ, no_file)
    assert getattr(config, field) == expected
    assert dataclasses.replace(config, **{field: setting.default}) == Config()


@pytest.mark.parametrize("field", [name for name in ALONE if SETTINGS[name].kind is not Kind.BOOLEAN])
def test_a_good_flag_hides_a_bad_variable(field):
    setting = SETTINGS[field]
    assert load({setting.name: samples(setting)[0]}, {setting.variable: ""}, no_file)


LEAST = {
    "line_read_timeout_ns": 1,
    "lease_default_ns": 1,
    "sweep_interval_ns": 1,
    "gc_interval_ns": 1,
    "keys_max": 1,
    "line_pending_bytes_max": 4096,
    "store_batch_max": 1,
    "http_read_timeout_ns": 1,
    "http_idle_timeout_ns": 1,
    "http_body_bytes_max": 1024,
    "http_name_bytes_max": 1,
}
MOST = {"http_name_bytes_max": 1000, "http_rate_per_address": 1_000_000, "http_rate_burst": 1_000_000}
MOST_OF = {Kind.SECONDS: SECONDS_MAX, Kind.COUNT: COUNT_MAX, Kind.BYTES: BYTES_MAX}


@pytest.mark.parametrize("field", [name for name in SETTINGS if SETTINGS[name].kind in WHOLE])
@pytest.mark.parametrize("by_flag", [True, False])
def test_each_limit_holds_at_its_edge_and_not_beyond(field, by_flag):
    setting = SETTINGS[field]
    least, most = LEAST.get(field, 0), MOST.get(field, MOST_OF[setting.kind])

    def give(number):
        text = str(number)
        flags, environ = ({setting.name: text}, {}) if by_flag else ({}, {setting.variable: text})
        return getattr(load(flags, environ, no_file), field)

    assert give(least) == inside(setting, str(least))
    assert give(most) == inside(setting, str(most))
    source = setting.flag if by_flag else setting.variable
    for number in (least - 1, most + 1):
        with pytest.raises(ConfigError) as caught:
            give(number)
        for part in (f"{setting.name} must be", f"from {least} to {most}", f"'{number}'", f"(from {source})"):
            assert part in str(caught.value)


def test_nanoseconds_of_the_longest_duration_fit_in_63_bits():
    assert SECONDS_MAX * SECOND <= COUNT_MAX < (SECONDS_MAX + 1) * SECOND


@pytest.mark.parametrize("field", ALONE)
def test_an_empty_variable_is_a_mistake_and_not_a_default(field):
    variable = SETTINGS[field].variable
    with pytest.raises(ConfigError, match=rf"not '' \(from {variable}\)"):
        load({}, {variable: ""}, no_file)


def test_variables_of_other_programs_are_nobodys_business():
    environ = {"HOME": "/", "DFLOCKD_PORT": "1", "HOLDFAST_KEY": "job", "holdfast_line": "x"}
    assert load({}, environ, no_file) == Config()


# --- the token --------------------------------------------------------------------------------------------------------


TOKEN_SOURCES = ("flag", "file flag", "variable", "file variable")


def load_token(**sources):
    """Load with tokens from the given sources; the files contain what the source says."""
    paths = {"file_flag": "/flag", "file_variable": "/variable"}
    files = {paths[name]: text for name, text in sources.items() if name in paths}
    flags, environ = {}, {}
    for name, text in sources.items():
        key = "auth_token_file" if name in paths else "auth_token"
        value = paths.get(name, text)
        if name.endswith("flag"):
            flags[key] = value
        else:
            environ[f"HOLDFAST_{key.upper()}"] = value
    return load(flags, environ, files.__getitem__)


@pytest.mark.parametrize("present", list(itertools.product([False, True], repeat=4)))
def test_the_first_source_of_a_token_wins_in_the_order_flag_file_flag_variable_file_variable(present):
    names = [name for name, here in zip(TOKEN_SOURCES, present, strict=True) if here]
    config = load_token(**{name.replace(" ", "_"): f"the {name}" for name in names})
    assert config.auth_token == (f"the {names[0]}" if names else None)
    path = {"file flag": "/flag", "file variable": "/variable"}.get(names[0]) if names else None
    assert config.auth_token_file == path


def test_a_token_file_that_lost_is_not_opened():
    assert load({"auth_token": "a", "auth_token_file": "/nowhere"}, {}, no_file).auth_token == "a"


@pytest.mark.parametrize("source", TOKEN_SOURCES)
def test_a_token_is_trimmed_on_both_sides(source):
    assert load_token(**{source.replace(" ", "_"): "\n \t a b \xa0\u2003\r\n"}).auth_token == "a b"


def test_a_separator_that_unicode_does_not_call_white_space_belongs_to_the_token():
    assert load_token(flag="\x1cabc\x1f").auth_token == "\x1cabc\x1f"


@pytest.mark.parametrize("source", TOKEN_SOURCES)
@pytest.mark.parametrize("text", ["", " ", "\n", "\r\n\t\u3000"])
def test_an_empty_token_is_an_error_and_never_means_no_token(source, text):
    with pytest.raises(ConfigError) as caught:
        load_token(**{source.replace(" ", "_"): text})
    assert "empty" in str(caught.value)
    assert ("AUTH_TOKEN" if source.endswith("variable") else "--auth-token") in str(caught.value)


@pytest.mark.parametrize("source", TOKEN_SOURCES)
@pytest.mark.parametrize("text", ["geheim\nx", "geheim\rx", "geheim\r\nx"])
def test_a_token_of_two_lines_is_refused_and_not_repeated(source, text):
    with pytest.raises(ConfigError, match="CR or LF") as caught:
        load_token(**{source.replace(" ", "_"): text})
    assert "geheim" not in str(caught.value)


def test_a_token_must_fit_in_the_longest_line_that_a_client_may_send():
    longest = "ä" * (TOKEN_BYTES_MAX // 2)
    assert load_token(flag=longest).auth_token == longest
    with pytest.raises(ConfigError, match="at most 65536 bytes") as caught:
        load_token(flag=longest + "x")
    assert "x" * 9 not in str(caught.value)
    assert load_token(flag="\udcff" * TOKEN_BYTES_MAX)


@pytest.mark.parametrize(
    ("error", "why"),
    [(FileNotFoundError(2, "No such file or directory"), "No such file"), (ValueError("embedded null"), "null")],
)
@pytest.mark.parametrize("by_flag", [True, False])
def test_a_token_file_that_cannot_be_read_is_an_error(error, why, by_flag):
    def broken(path):
        raise error

    flags, environ = ({"auth_token_file": "/f"}, {}) if by_flag else ({}, {"HOLDFAST_AUTH_TOKEN_FILE": "/f"})
    source = "--auth-token-file" if by_flag else "HOLDFAST_AUTH_TOKEN_FILE"
    with pytest.raises(ConfigError, match=rf"cannot read '/f' \(from {source}\): .*{why}"):
        load(flags, environ, broken)


def test_the_token_does_not_show_when_a_config_is_printed():
    assert "hunter2" not in repr(Config(auth_token="hunter2"))


# --- TLS --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", list(itertools.product([False, True], repeat=3)))
def test_certificate_and_key_come_together_and_a_client_authority_needs_them(given):
    names = ("tls_cert", "tls_key", "tls_client_ca")
    flags = {name: f"/{name}" for name, here in zip(names, given, strict=True) if here}
    cert, key, authority = given
    if cert == key and (cert or not authority):
        config = load(flags, {}, no_file)
        assert {name: f"/{name}" for name in names if getattr(config, name)} == flags
    else:
        with pytest.raises(ConfigError, match=r"tls_\w+ needs tls_(cert|key), which is unset: '/tls_"):
            load(flags, {}, no_file)


def test_certificate_and_key_may_come_from_different_places():
    config = load({"tls_cert": "/c"}, {"HOLDFAST_TLS_KEY": "/k"}, no_file)
    assert (config.tls_cert, config.tls_key) == ("/c", "/k")


def test_a_lonely_key_is_named_with_its_source():
    with pytest.raises(ConfigError) as caught:
        load({}, {"HOLDFAST_TLS_KEY": "/k"}, no_file)
    assert str(caught.value) == "tls_key needs tls_cert, which is unset: '/k' (from HOLDFAST_TLS_KEY)"


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_gather_knows_settings_by_the_names_it_is_given():
    table = [dataclasses.replace(item, name=f"x-{item.name}", flag=f"-{item.name}") for item in SETTINGS.values()]
    assert gather(table, {"x-keys_max": "5", "keys_max": "6"}, {}, no_file)["keys_max"] == 5


def test_addresses_and_stores_are_read_here_too():
    assert split_address(Config().line) == ("127.0.0.1", 6388)
    assert parse_store(Config().store) == StoreChoice("sqlite", path="holdfast.db")


def test_the_defaults_call_for_no_caution():
    assert cautions(Config()) == []


@pytest.mark.parametrize("line", ["127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1", "off"])
def test_what_only_this_machine_reaches_calls_for_no_caution(line):
    assert cautions(Config(line=line, connections_max=0, waiters_max=0)) == []


@pytest.mark.parametrize("line", ["*:1", "10.0.0.1:1", "[::]:1", "lock.example.org:1"])
def test_an_open_door_without_limits_or_token_is_pointed_out(line):
    found = cautions(Config(line=line, connections_max=0, waiters_max=0))
    assert [text.split()[0] for text in found] == ["connections_max", "waiters_max", "no"]
    assert all(line in text for text in found)
    assert cautions(Config(line=line, auth_token="a", tls_cert="/c", tls_key="/k")) == []


def test_the_http_door_is_looked_at_in_the_same_way():
    door = {"line": "off", "http": "*:8080"}
    assert [text.split()[0] for text in cautions(Config(**door, waiters_max=0))] == ["waiters_max", "no"]
    (text,) = cautions(Config(**door, http_tokens_file="/tokens"))
    assert "clear text" in text
    assert cautions(Config(**door, http_tokens_file="/tokens", tls_cert="/c", tls_key="/k")) == []


def test_tokens_for_http_beside_a_line_door_without_any_are_pointed_out():
    (text,) = cautions(Config(http_tokens_file="/tokens"))
    assert text.startswith("http_tokens_file is not for the line door")
    assert cautions(Config(http_tokens_file="/tokens", auth_token="a")) == []
    assert cautions(Config(http_tokens_file="/tokens", line="off")) == []


def test_a_token_in_clear_text_is_pointed_out():
    (text,) = cautions(Config(line="*:1", auth_token="hunter2"))
    assert "clear text" in text
    assert "hunter2" not in text


def test_a_lease_that_outlives_the_patience_for_silence_is_pointed_out():
    edge = {"line_idle_timeout": True, "line_read_timeout_ns": 23 * SECOND}
    assert cautions(Config(lease_default_ns=46 * SECOND, **edge)) == []
    (text,) = cautions(Config(lease_default_ns=47 * SECOND, **edge))
    assert text.startswith("lease_default")
