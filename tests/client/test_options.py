"""What a caller says is taken at its word, in the client's own units, or refused by the name of the option."""

import threading
from datetime import timedelta
from decimal import Decimal

import pytest

from holdfast.client.asks import Member, Want
from holdfast.client.options import (
    KEY_BYTES_MAX,
    LIMIT_MAX,
    NAME_BYTES_MAX,
    SECONDS_MAX,
    about_thread,
    check_key,
    check_name,
    check_value,
    host_name,
    optional_ns,
    options_of,
    shown,
    span_ns,
)
from holdfast.errors import BadRequest
from holdfast.wire.native import TEXTS_MAX, check_text

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
TICKET = "ticket-of-a-0001"


def options(**changes):
    usual = dict.fromkeys(("patience", "margin", "limit", "beat_timeout", "on_danger", "on_lost", "on_contended"))
    usual |= {"lease": 30, "mode": "EX", "units": 1, "cancel_on_lost": False, "operation": None, "deadlock": None}
    return options_of(**(usual | changes))


# --- lengths of time ---


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        (0, 0),
        (1, SECOND),
        (0.001, MILLISECOND),
        (1e-12, 1),  # what is not nothing does not become nothing
        (0.1 + 0.2, 300 * MILLISECOND),
        (timedelta(minutes=1), 60 * SECOND),
        (timedelta(microseconds=1), 1000),
        (SECONDS_MAX, 1_000_000_000 * SECOND),
    ],
)
def test_a_length_of_time_is_seconds_or_a_timedelta(value, ns):
    assert span_ns(value, "lease") == ns
    assert optional_ns(value, "lease") == ns


@pytest.mark.parametrize(
    "value",
    [-1, -1e-12, float("nan"), float("inf"), -float("inf"), SECONDS_MAX + 1, 10**400, timedelta(-1), timedelta.max],
)
def test_a_length_of_time_that_cannot_be_is_refused(value):
    with pytest.raises(BadRequest, match=r"patience must be from 0 to 1e\+09 s"):
        span_ns(value, "patience")


@pytest.mark.parametrize("value", [True, "5", None, Decimal(5), [5]])
def test_what_is_no_length_of_time_is_refused(value):
    with pytest.raises(BadRequest, match="lease must be a number of seconds or a timedelta"):
        span_ns(value, "lease")


def test_for_ever_is_no_length_of_time():
    assert optional_ns(None, "patience") is None


def test_some_things_take_at_least_a_while():
    assert span_ns(0.001, "lease", least=0.001) == MILLISECOND
    with pytest.raises(BadRequest, match=r"lease must be from 0\.001"):
        span_ns(0.0009, "lease", least=0.001)


# --- options ---


def test_what_is_not_said_is_as_usual():
    usual = options()
    assert (usual.lease_ns, usual.patience_ns, usual.beat_ns) == (30 * SECOND, None, None)
    assert usual.margin_ns == 620 * MILLISECOND  # 2 % and 20 ms
    assert (usual.mode, usual.limit, usual.units, usual.refuse_deadlock) == ("EX", None, 1, False)


def test_what_is_said_is_taken_at_its_word():
    said = options(lease=5, patience=0, margin=0, mode="CW", limit=3, units=3, beat_timeout=2, deadlock="refuse")
    assert (said.lease_ns, said.patience_ns, said.margin_ns, said.beat_ns) == (5 * SECOND, 0, 0, 2 * SECOND)
    assert (said.mode, said.limit, said.units, said.refuse_deadlock) == ("CW", 3, 3, True)


def test_the_shortest_lease_still_has_a_margin():
    shortest = options(lease=0.001)
    assert 0 < shortest.margin_ns < shortest.lease_ns


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"lease": 0}, "lease"),
        ({"lease": None}, "lease"),
        ({"patience": -1}, "patience"),
        ({"margin": -1}, "margin"),
        ({"margin": 30}, "margin of 30 s leaves nothing"),
        ({"beat_timeout": 0}, "beat_timeout"),
        ({"mode": "ex"}, "mode"),
        ({"mode": None}, "mode"),
        ({"limit": 0}, "limit"),
        ({"limit": LIMIT_MAX + 1}, "limit"),
        ({"limit": 2.0}, "limit"),
        ({"limit": True}, "limit"),
        ({"units": 2}, "units"),
        ({"units": 0}, "units"),
        ({"limit": 3, "units": 4}, "units"),
        ({"units": True}, "units"),
        ({"deadlock": "accept"}, "deadlock"),
        ({"deadlock": True}, "deadlock"),
        ({"operation": "a\nb"}, "operation"),
        ({"operation": "ä" * 129}, "operation"),
        ({"operation": "\ud800"}, "operation"),
        ({"operation": 5}, "operation"),
    ],
)
def test_what_cannot_be_is_refused_by_name(changes, name):
    with pytest.raises(BadRequest, match=name):
        options(**changes)


def test_a_want_says_all_that_a_server_has_to_know():
    about = {"thread": "main"}
    want = options(mode="CW", limit=3, units=2, operation="month end", deadlock="refuse", on_contended=print).want(
        "pool", TICKET, about
    )
    assert want == Want(
        key="pool",
        ticket=TICKET,
        lease_ns=30 * SECOND,
        mode="CW",
        limit=3,
        units=2,
        nudge=True,
        refuse_deadlock=True,
        about={"thread": "main", "operation": "month end"},
    )
    assert about == {"thread": "main"}


def test_a_want_of_several_keys_names_them():
    members = (Member("a"), Member("b"))
    assert options().want("a + b", TICKET, {}, members).members == members


def test_the_same_can_be_wanted_in_another_mode():
    assert options(lease=5).with_mode("PR") == options(lease=5, mode="PR")


# --- keys, values and names ---


@pytest.mark.parametrize("key", ["a", "a b\n", "ä" * 512, "x" * KEY_BYTES_MAX, "\0"])
def test_a_key_is_any_text_of_so_many_bytes(key):
    assert check_key(key) == key


@pytest.mark.parametrize("key", ["", "x" * (KEY_BYTES_MAX + 1), "ä" * 513, "\ud800", b"job", None, 5])
def test_what_names_nothing_is_refused(key):
    with pytest.raises(BadRequest, match="key"):
        check_key(key)


@pytest.mark.parametrize("value", [None, b"", b"\0" * 64])
def test_a_value_is_so_many_bytes(value):
    assert check_value(value) == value


@pytest.mark.parametrize("value", [b"\0" * 65, "text", bytearray(b"x"), 5])
def test_what_no_key_keeps_is_refused(value):
    with pytest.raises(BadRequest, match="value"):
        check_value(value)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * (NAME_BYTES_MAX + 1), "\ud800", 5, b"a"])
def test_a_client_that_says_its_name_says_one_that_can_be_shown(name):
    with pytest.raises(BadRequest, match="name"):
        check_name(name)


def test_a_client_is_called_what_it_says_or_like_its_program(monkeypatch):
    assert check_name("billing") == "billing"
    for argv, name in (
        (["/usr/bin/report.py", "x"], "report.py"),
        ([""], "python"),
        ([], "python"),
        (["/a\nb\udcff" + "x" * 100], "a?b?" + "x" * 60),
    ):
        monkeypatch.setattr("sys.argv", argv)
        assert check_name(None) == name


# --- what is shown of whoever asks ---


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("main", "main"),
        ("a\tb\x7f", "a?b?"),
        ("\ud800", "?"),
        ("", "?"),
        ("x" * 200, "x" * 128),
        ("ä" * 100, "ä" * 64),
        ("x" + "ä" * 100, "x" + "ä" * 63),  # half a character is none
    ],
)
def test_what_is_shown_is_cut_so_that_a_server_takes_it(text, cut):
    assert shown(text) == cut
    check_text("thread", shown(text))


def test_no_server_refuses_us_because_of_what_we_are_called():
    check_text("host", host_name())
    check_text("client", check_name(None))
    assert TEXTS_MAX["client"] == NAME_BYTES_MAX


@pytest.mark.parametrize("name", ["main", "a\nb", "", "x" * 500, "𝄞" * 32, "𝄞" * 33, "\ud800"])
def test_a_thread_is_shown_by_its_name_whatever_that_is(name, monkeypatch):
    monkeypatch.setattr(threading.current_thread(), "_name", name)
    told = about_thread()
    check_text("thread", told["thread"])
    assert told["thread"] == shown(name)
