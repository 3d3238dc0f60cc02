"""`holdfast ping`, `holdfast stats` and `holdfast break` on a real server, over the protocols that know them."""

import pytest

from holdfast.cli.health import flat, ping_row
from holdfast.errors import SPELLINGS, LeaseLost
from holdfast.sync import connect
from tests.cli.look_stage import NOWHERE, PATIENCE_S, foreign, holdfast, objects, rows, shown

SCHEMES = pytest.mark.parametrize("scheme", ["native", "dflock", "http"])


@pytest.fixture
def client(urls):
    with connect(urls.native, name="tester") as client:
        yield client


@SCHEMES
def test_a_server_that_is_there_answers_and_is_told_by_its_address(urls, scheme):
    url = getattr(urls, scheme)
    (row,) = rows("ping", "-c", "3", "--interval", "0", server=url)
    assert (row["server"], row["count"]) == (url.partition("//")[2], "3")
    assert 0 < float(row["least_ms"]) <= float(row["median_ms"]) <= float(row["most_ms"])
    (told,) = objects("ping", server=url)
    assert (told["count"], told["least_ms"]) == (1, told["most_ms"])
    assert "median ms" in shown("ping", server=url)


def test_all_servers_are_asked(urls, start):
    second = start("serve", "--store", "memory:")
    both = f"{urls.native},holdfast://127.0.0.1:{second.port}"
    addresses = [url.partition("//")[2] for url in both.split(",")]
    assert [row["server"] for row in rows("ping", server=both)] == addresses
    assert list(objects("stats", server=both)) == addresses
    assert shown("stats", server=both).startswith("server ")


@pytest.mark.parametrize("flags", [("-c", "0"), ("--interval", "-1"), ("--interval", "soon")])
def test_what_cannot_be_asked_for_is_refused(urls, flags):
    assert holdfast("ping", *flags, server=urls.native).exit_code == 2


def test_the_first_answer_does_not_count_unless_it_is_the_only_one():
    assert ping_row("a", [3.00049, 1, 2]) == {"server": "a", "count": 3, "least_ms": 1, "median_ms": 2, "most_ms": 3}


@SCHEMES
def test_a_server_tells_what_it_counts(urls, client, scheme):
    client.lock("health/counted").acquire()
    url = getattr(urls, scheme)
    (told,) = objects("stats", server=url).values()
    figures = {row["name"]: row["value"] for row in rows("stats", server=url)}
    assert {row["server"] for row in rows("stats", server=url)} == {url.partition("//")[2]}
    assert int(figures["connections"]) >= 1
    if scheme == "native":
        assert told["held"] >= 1
        assert figures["draining"] == "no"
        assert int(figures["held"]) >= 1
    else:
        assert "health/counted" in [lock["key"] for lock in told["locks"]]
        assert int(figures["locks"]) >= 1
    assert shown("stats", server=url).split()[:2] == ["name", "value"]


def test_counts_in_counts_are_told_by_the_way_to_them():
    told = {"a": 1, "b": {"c": {"d": 2}, "e": [1, 2, 3]}, "f": True, "g": None}
    assert flat(told) == [("a", 1), ("b.c.d", 2), ("b.e", 3), ("f", "yes"), ("g", None)]


def test_a_server_without_such_counts_says_so():
    with foreign({}) as url:
        result = holdfast("stats", server=url)
    assert result.exit_code == SPELLINGS["bad_request"].exit_code
    assert result.stderr == "holdfast: this server has no /v1/stats (HTTP 404)\n"


# --- break ---


def test_a_lock_is_taken_away_and_its_holder_hears_of_it(urls, client):
    wishes = {"on_contended": lambda held: None}  # who wants to hear of this has a connection on which to hear of all
    held = client.lock("health/stuck", **wishes).acquire()
    told = shown_of_break(urls, "health/stuck", "--reason", "it hangs")
    assert told == "Took the lock health/stuck away from 1 holder.\n"
    assert held.lost.wait(PATIENCE_S)
    with pytest.raises(LeaseLost, match="health/stuck"):
        held.check()
    assert rows("ls", "health/stuck", server=urls.native) == []


def shown_of_break(urls, *arguments):
    result = holdfast("break", *arguments, server=urls.native)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_all_seats_are_taken_away(urls, client):
    for _ in range(2):
        client.semaphore("health/pool", 3).acquire()
    told = shown_of_break(urls, "health/pool", "--semaphore", "--reason", "it hangs")
    assert told == "Took the semaphore health/pool away from 2 holders.\n"


def test_one_of_several_can_be_meant(urls, client):
    first, second = (client.semaphore("health/two", 2).acquire() for _ in range(2))
    told = shown_of_break(urls, "health/two", "--semaphore", "--reason", "it hangs", "--token", first.token)
    assert told == "Took the semaphore health/two away from 1 holder.\n"
    (left,) = objects("ls", "health/two", server=urls.native)
    assert [holder["fence"] for holder in left["holders"]] == [second.fence]


def test_what_nobody_holds_cannot_be_taken_away(urls):
    result = holdfast("break", "health/nobody\n", "--reason", "it hangs", server=urls.native)
    assert (result.exit_code, result.stdout) == (SPELLINGS["not_held"].exit_code, "")
    assert result.stderr == "Nobody holds the lock health/nobody\\n.\n"


@pytest.mark.parametrize(
    ("flags", "code", "why"),
    [
        ((), 2, "Missing option '--reason'"),
        (("--reason", " "), SPELLINGS["bad_request"].exit_code, "a reason says something"),
        (("--reason", "a\x1b[2J"), SPELLINGS["bad_request"].exit_code, "no control characters"),
    ],
)
def test_nothing_is_taken_away_without_a_reason(urls, client, flags, code, why):
    held = client.lock("health/kept").acquire()
    result = holdfast("break", "health/kept", *flags, server=urls.native)
    assert (result.exit_code, result.stdout) == (code, "")
    assert why in result.stderr
    assert held.held
    assert rows("ls", "health/kept", server=urls.native)


@pytest.mark.parametrize("scheme", ["dflock", "http"])
def test_only_our_own_protocol_takes_locks_away(urls, scheme):
    result = holdfast("break", "job", "--reason", "it hangs", server=getattr(urls, scheme))
    assert result.exit_code == SPELLINGS["bad_request"].exit_code
    assert result.stderr.startswith("holdfast: break needs the native protocol")


# --- tokens ---


def test_who_has_the_wrong_token_is_refused_by_every_command(start, tmp_path):
    server = start("serve", "--store", "memory:", "--auth-token", "right")
    for scheme, port in (("holdfast", server.port), ("dflock", server.port), ("http", server.http_port)):
        for token, code in (("", 77), (":wrong@", 77), (":é€@", 77), (":right@", 0)):
            for command in (("ls",), ("stats",)):
                result = holdfast(*command, server=f"{scheme}://{token}127.0.0.1:{port}")
                assert result.exit_code == code, (scheme, token, command, result.output)
                assert "wrong" not in result.output
                assert (code == 0) or "another token" in result.stderr


def test_what_a_stranger_says_moves_no_cursor():
    with foreign({"/v1/stats": (503, {"detail": "\x1b[2Jgone\n"})}) as url:
        result = holdfast("stats", server=url)
    assert result.exit_code == SPELLINGS["unavailable"].exit_code
    assert result.stderr.endswith("HTTP 503: \\x1b[2Jgone\n")


def test_where_nobody_is_nothing_is_taken_away():
    result = holdfast("break", "job", "--reason", "it hangs", server=f"holdfast://{NOWHERE}")
    assert result.exit_code == SPELLINGS["unavailable"].exit_code
