"""What all commands share that call a server: which server is meant, lengths of time, and saying no in one line."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from holdfast.cli.calling import (
    SERVER_DEFAULT,
    Seconds,
    command,
    kind_choice,
    kind_option,
    native_only,
    opened,
    reached,
    scheme_of,
    url_of,
    without_token,
)
from holdfast.errors import SPELLINGS, BadRequest, Busy, Unavailable
from tests.cli.look_stage import NOWHERE
from tests.cli.run_user import environment


def invoke(callback, *arguments, params=()):
    made = command("try", callback, [*params])
    return CliRunner().invoke(made, arguments, catch_exceptions=False)


@pytest.mark.parametrize(
    ("said", "seconds"), [("30", 30.0), ("0.5", 0.5), ("1m30s", 90.0), ("250ms", 0.25), ("1h", 3600.0), (7.5, 7.5)]
)
def test_a_length_of_time_is_seconds_unless_it_has_units(said, seconds):
    assert Seconds(0, 3600).convert(said, None, None) == seconds


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("soon", "'soon' is no length of time"),
        ("", "'' is no length of time"),
        ("-1", "no length of time|is not from"),
        ("0.9", "0.9 is not from 1 to 60 seconds"),
        ("2m", "2m is not from 1 to 60 seconds"),
    ],
)
def test_what_is_no_such_length_of_time_is_refused(said, why):
    with pytest.raises(click.BadParameter, match=why):
        Seconds(1, 60).convert(said, None, None)


@pytest.mark.parametrize(
    ("said", "variable", "meant"),
    [
        ("http://one", "holdfast://two", "http://one"),
        (None, "holdfast://two", "holdfast://two"),
        (None, "", SERVER_DEFAULT),
        (None, None, SERVER_DEFAULT),
    ],
)
def test_what_was_said_goes_before_the_environment_and_that_before_this_machine(said, variable, meant, monkeypatch):
    monkeypatch.delenv("HOLDFAST_SERVER", raising=False)
    if variable is not None:
        monkeypatch.setenv("HOLDFAST_SERVER", variable)
    assert url_of(said) == meant


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("holdfast://a:1", "holdfast"),
        ("holdfasts://a:1", "holdfast"),
        ("dflocks://a", "dflock"),
        ("https://a", "http"),
        ("http://a", "http"),
    ],
)
def test_a_way_of_talking_is_the_same_with_tls(url, scheme):
    assert scheme_of(url) == scheme


def test_no_token_is_shown_of_one_server_nor_of_several():
    told = without_token("holdfast://:secret@one:6388, holdfast://t@x@two,holdfast://three")
    assert told == "holdfast://one:6388,holdfast://two,holdfast://three"


@pytest.mark.parametrize("url", ["dflock://:secret@one", "https://:secret@one"])
def test_what_only_our_servers_can_tell_is_asked_of_no_other(url):
    with pytest.raises(BadRequest, match="explain needs the native protocol") as caught:
        native_only(url, "explain")
    assert "secret" not in str(caught.value)
    native_only("holdfasts://one", "explain")


@pytest.mark.parametrize("error", [Busy("taken"), Unavailable("gone"), BadRequest("no such key")])
def test_trouble_is_told_in_a_line_and_by_exit_code(error):
    def fail(**_):
        raise error

    result = invoke(fail)
    assert result.exit_code == SPELLINGS[error.code].exit_code
    assert (result.stdout, result.stderr) == ("", f"holdfast: {error}\n")


def test_a_command_gets_its_own_parameters_and_the_server():
    seen = []

    def callback(**wishes):
        """Do something.

        And more of it.
        """
        seen.append(wishes)

    params = [click.Argument(["key"]), kind_option(), kind_choice("Only these.")]
    assert invoke(callback, "job", "--semaphore", "--server", "http://x", params=params[:2]).exit_code == 0
    assert invoke(callback, "job", "--kind", "lock", params=[params[0], params[2]]).exit_code == 0
    assert seen == [
        {"key": "job", "kind": "semaphore", "server": "http://x"},
        {"key": "job", "kind": "lock", "server": None},
    ]
    assert invoke(callback, "job", "--kind", "shoe", params=[params[0], params[2]]).exit_code == 2
    assert "And more of it." in invoke(callback, "--help", params=params[:2]).stdout


def test_a_client_is_lent_and_taken_back(urls):
    with opened(urls.native, name="somebody", timeout_s=5) as client:
        assert "somebody" in repr(client)
        client.ping()


def test_who_waits_for_a_server_waits_no_longer_than_was_said():
    with opened(f"holdfast://{NOWHERE}", timeout_s=0.05) as client, pytest.raises(Unavailable):
        client.ping()


def test_a_reader_who_has_had_enough_is_no_trouble(urls):
    writer = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "stats"],
        env=environment(urls.native),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    writer.stdout.close()
    with writer.stderr as told:
        assert told.read() == b""
    assert writer.wait() == 0


def test_who_looks_into_a_server_that_is_not_there_hears_so_at_once():
    with pytest.raises(Unavailable, match=r"cannot connect to 127\.0\.0\.1:1: Connection refused"):
        reached(f"holdfast://{NOWHERE}").__enter__()


def test_all_of_several_servers_have_to_be_there(urls):
    with pytest.raises(Unavailable), reached(f"{urls.native},holdfast://{NOWHERE}"):
        pass
    with reached(urls.native) as client:
        client.ping()


def test_nothing_that_a_terminal_would_obey_is_told():
    def fail(**_):
        raise Busy("taken by \x1b[2J")

    assert invoke(fail).stderr == "holdfast: taken by \\x1b[2J\n"
