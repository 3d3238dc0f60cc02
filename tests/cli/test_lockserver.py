"""The stand-in for LockServer: its two variables, and the Config that comes out.

What the server does with that Config is tested with the server.
"""

import pytest

from holdfast.cli.lockserver import go_address, load, main
from holdfast.config import Config, parse_store, split_address
from holdfast.errors import ConfigError
from holdfast.settings import BYTES_MAX, SECOND


def test_without_variables_it_is_the_original_as_it_comes():
    config = load({})
    assert config == Config(
        store="sqlite:./lockserver.db",
        http="*:8080",
        line="off",
        http_api="leases",
        http_lease_ids_shown=True,
        http_name_bytes_max=1000,
        http_body_bytes_max=BYTES_MAX,
        shutdown_timeout_ns=5 * SECOND,
        sweep_interval_ns=SECOND // 2,
        log_operations="all",
        log_format="json",
    )
    assert split_address(config.http) == ("", 8080)
    assert parse_store(config.store).path == "./lockserver.db"


def test_empty_variables_count_as_unset():
    assert load({"LOCKSERVER_ADDR": "", "LOCKSERVER_DB": ""}) == load({})


@pytest.mark.parametrize(
    "path", ["/var/lib/a b.db", "/a?b=c&d#e", "/50%25.db", "relative", "/ä.db", "/\udcff.db", "with:colon"]
)
def test_any_path_survives_the_way_into_the_store_url(path):
    assert parse_store(load({"LOCKSERVER_DB": path}).store).path == path


def test_a_path_with_a_nul_cannot_be():
    with pytest.raises(ConfigError, match=r"^LOCKSERVER_DB must be the path of a file, not '/a\\x00b'$"):
        load({"LOCKSERVER_DB": "/a\0b"})


@pytest.mark.parametrize(
    ("theirs", "host", "port"),
    [
        (":8080", "", 8080),
        (":0", "", 0),
        ("127.0.0.1:9000", "127.0.0.1", 9000),
        ("0.0.0.0:9000", "0.0.0.0", 9000),
        ("localhost:9000", "localhost", 9000),
        ("[::1]:9000", "::1", 9000),
        ("[::]:9000", "::", 9000),
        ("[]:9000", "", 9000),
        ("localhost:", "localhost", 0),
        ("localhost:http", "localhost", 80),
        (":HTTPS", "", 443),
    ],
)
def test_an_address_of_go_means_here_what_it_means_there(theirs, host, port):
    assert split_address(go_address(theirs)) == (host, port)


@pytest.mark.parametrize("theirs", ["8080", "localhost", ":65536", ":-1", "::1:8080", "a b:80", ":nope", "h:80:90"])
def test_an_address_that_cannot_be_is_named_with_its_variable(theirs):
    with pytest.raises(ConfigError, match=r"^LOCKSERVER_ADDR must be HOST:PORT or :PORT .*") as caught:
        load({"LOCKSERVER_ADDR": theirs})
    assert repr(theirs) in caught.value.detail


def test_other_variables_do_not_reach_it():
    assert load({"HOLDFAST_HTTP": "127.0.0.1:1", "DFLOCKD_PORT": "2"}) == load({})


def test_the_command_starts_a_server_with_what_was_asked_for(started):
    assert main([], {"LOCKSERVER_ADDR": "127.0.0.1:0", "LOCKSERVER_DB": "/tmp/x"}) == 0
    (config,) = started
    assert (config.http, config.store) == ("127.0.0.1:0", "sqlite:/tmp/x")


@pytest.mark.parametrize("argument", ["-h", "-help", "--help"])
def test_help_names_both_variables_and_starts_nothing(argument, started, capsys):
    assert main([argument], {"LOCKSERVER_ADDR": "nonsense"}) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for word in ("LOCKSERVER_ADDR", ":8080", "LOCKSERVER_DB", "./lockserver.db"):
        assert word in out
    assert started == []


def test_an_argument_is_exit_code_2(started, capsys):
    assert main(["--port=80"], {}) == 2
    out, err = capsys.readouterr()
    assert (out, started) == ("", [])
    assert err.startswith("holdfast lockserver: unexpected argument: '--port=80'\n")


def test_a_value_that_cannot_be_is_exit_code_1_and_one_line(started, capsys):
    assert main([], {"LOCKSERVER_ADDR": "8080"}) == 1
    out, err = capsys.readouterr()
    assert (out, started, err.count("\n")) == ("", [], 1)
    assert err.startswith("holdfast: LOCKSERVER_ADDR must be ")
