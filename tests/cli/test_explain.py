"""`holdfast explain` and `holdfast deadlocks`: who is in the way, in words and in rows, and circles of real waiters."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from holdfast.cli.explain import EXIT_DEADLOCK, cycle_lines, holder_line, thing, wish_line, wish_row
from holdfast.errors import SPELLINGS
from holdfast.sync import connect
from tests.cli.look_stage import PATIENCE_S, holdfast, objects, rows, shown, until

HOLDER = {
    "host": "db-1",
    "pid": 7,
    "operation": "import",
    "mode": "EX",
    "units": 1,
    "since_ms": 61_500,
    "left_ms": 9_900,
}
WISH = {
    "key": "job",
    "kind": "lock",
    "host": "db-2",
    "pid": 8,
    "want": "PR",
    "units": 1,
    "since_ms": 2_500,
    "before": 0,
}


@pytest.fixture
def client(urls):
    with connect(urls.native, name="tester") as client:
        yield client


def test_who_is_in_the_way_is_told(urls, client):
    client.lock("explain/job", operation="import").acquire()
    with connect(urls.native) as other:
        other.enqueue("explain/job")
        first, holder, _, heading, wish = shown("explain", "explain/job", server=urls.native).splitlines()
        (row,) = rows("explain", "explain/job", server=urls.native)
        told = objects("explain", "explain/job", server=urls.native)
    assert first == "lock explain/job: held, 1 waiting"
    assert "(import) holds it, exclusive, for " in holder
    assert "; the lease ends in " in holder
    assert heading == "queue:"
    assert wish.startswith("  1. ")
    assert wish.endswith("(import) holds it")
    assert (row["key"], row["place"], row["deadlocked"]) == ("explain/job", "1", "no")
    assert row["behind"].endswith("(import) holds it")
    assert told["queue"][0]["behind"][0]["operation"] == "import"


def test_who_waits_further_back_is_behind_those_in_front(urls, client):
    client.lock("explain/row").acquire()
    with connect(urls.native) as second, connect(urls.native) as third:
        second.enqueue("explain/row")
        third.enqueue("explain/row")
        last = shown("explain", "explain/row", server=urls.native).splitlines()[-1]
    assert last.startswith("  2. ")
    assert "holds it and behind " in last


def test_seats_are_told_of_a_semaphore(urls, client):
    client.semaphore("explain/pool", 2).acquire()
    told = shown("explain", "explain/pool", "--semaphore", server=urls.native)
    assert told.startswith("semaphore explain/pool: 1 of 2 seats taken, 0 waiting\n")
    assert "holds it, 1 seat, for " in told


@pytest.mark.parametrize(("flags", "kind"), [((), "lock"), (("--semaphore",), "semaphore")])
def test_what_is_free_needs_no_explanation(urls, flags, kind):
    assert shown("explain", "explain/free", *flags, server=urls.native) == f"{kind} explain/free: free, 0 waiting\n"
    assert rows("explain", "explain/free", *flags, server=urls.native) == []


@pytest.mark.parametrize("command", [("explain", "job"), ("deadlocks",)])
@pytest.mark.parametrize("scheme", ["dflock", "http"])
def test_only_our_own_protocol_can_tell(urls, command, scheme):
    url = getattr(urls, scheme)
    result = holdfast(*command, server=url.replace("://", "://:secret@"))
    assert (result.exit_code, result.stdout) == (SPELLINGS["bad_request"].exit_code, "")
    assert result.stderr == (
        f"holdfast: {command[0]} needs the native protocol: call a server of Holdfast by holdfast://, not {url}\n"
    )


@contextmanager
def circle(url):
    """Have two threads wait for what the other holds."""
    with (
        ThreadPoolExecutor(1) as left,
        ThreadPoolExecutor(1) as right,
        connect(url, name="one") as one,
        connect(url, name="two") as two,
    ):
        first = left.submit(one.lock("explain/a").acquire).result(PATIENCE_S)
        second = right.submit(two.lock("explain/b").acquire).result(PATIENCE_S)
        waits = [left.submit(one.lock("explain/b").acquire), right.submit(two.lock("explain/a").acquire)]
        try:
            until(one.deadlocks)
            yield
        finally:
            first.release()
            waits[1].result(PATIENCE_S).release()
            second.release()
            waits[0].result(PATIENCE_S)


def test_a_circle_is_explained_and_listed_and_is_an_exit_code(urls):
    with circle(urls.native):
        told = shown("explain", "explain/a", server=urls.native)
        (row, _) = rows("explain", "explain/a", server=urls.native)
        results = [holdfast("deadlocks", *style, server=urls.native) for style in ((), ("--json",), ("--simple",))]
    assert "; DEADLOCKED: " in told
    assert "\nand those wait elsewhere:\n" in told
    assert "\ndeadlock of 2:\n" in told
    assert (row["key"], row["deadlocked"]) == ("explain/a", "yes")
    assert [result.exit_code for result in results] == [EXIT_DEADLOCK] * 3
    in_words, in_json, in_rows = (result.stdout for result in results)
    heading, *edges = in_words.splitlines()
    assert heading == "deadlock of 2:"
    assert sorted(edge.partition(" waits for ")[2].partition(":")[0] for edge in edges) == [
        "lock explain/a",
        "lock explain/b",
    ]
    ((first, second),) = json.loads(in_json)
    assert {first["key"], second["key"]} == {"explain/a", "explain/b"}
    assert [line.split(",")[0] for line in in_rows.splitlines()] == ["cycle", "1", "1"]


def test_without_a_circle_all_is_well(urls):
    assert shown("deadlocks", server=urls.native) == "No deadlock.\n"
    assert objects("deadlocks", server=urls.native) == []
    assert rows("deadlocks", server=urls.native) == []


# --- words, by hand ---


@pytest.mark.parametrize(
    ("holder", "view", "told"),
    [
        (HOLDER, {}, "  db-1 pid 7 (import) holds it, exclusive, for 1 m 01 s; the lease ends in 9.9 s"),
        ({"door": "line", "mode": "EX", "since_ms": 0}, {}, "  line holds it, exclusive, for 0.0 s"),
        (
            HOLDER | {"kept": True},
            {},
            "  db-1 pid 7 (import), gone, holds it, exclusive, for 1 m 01 s; the lease ends in 9.9 s",
        ),
        (
            {"host": "a\x1b", "mode": "PR", "since_ms": 0, "converting_to": "EX"},
            {},
            "  a\\x1b holds it, shared, for 0.0 s; wants exclusive",
        ),
        ({"units": 2, "since_ms": 0}, {"kind": "semaphore"}, "  somebody holds it, 2 seats, for 0.0 s"),
    ],
)
def test_a_holder_is_put_into_words(holder, view, told):
    assert holder_line(holder, view) == told


@pytest.mark.parametrize(
    ("more", "place", "told"),
    [
        ({"left_ms": 1_000}, 1, "  1. db-2 pid 8 wants it, shared, for 2.5 s, and gives up in 1.0 s"),
        ({"left_ms": None}, None, "  db-2 pid 8 wants lock job, shared, for 2.5 s"),
        ({"blocked": False}, 2, "  2. db-2 pid 8 wants it, shared, for 2.5 s; not waiting yet"),
        (
            {"deadlocked": True, "behind": [HOLDER, {"host": "x", "ahead": True}]},
            1,
            "  1. db-2 pid 8 wants it, shared, for 2.5 s; DEADLOCKED: db-1 pid 7 (import) holds it and behind x",
        ),
    ],
)
def test_a_wish_is_put_into_words(more, place, told):
    assert wish_line(WISH | more, place) == told


def test_a_wish_is_a_row():
    row = wish_row(WISH | {"behind": [HOLDER, {"host": "x", "ahead": True}]})
    assert (row["place"], row["waits_s"], row["behind"]) == (1, 2.5, "db-1 pid 7 (import) holds it; behind x")


def test_a_circle_is_put_into_words():
    edges = [
        {"host": "a", "pid": 1, "key": "x", "kind": "lock", "behind": {"host": "b", "pid": 2}},
        {"host": "b", "pid": 2, "key": "p", "kind": "semaphore", "behind": {"host": "a", "pid": 1, "ahead": True}},
    ]
    assert cycle_lines(edges) == [
        "deadlock of 2:",
        "  a pid 1 waits for lock x: b pid 2 holds it",
        "  b pid 2 waits for semaphore p: behind a pid 1",
    ]


def test_a_name_in_a_sentence_moves_no_cursor():
    assert thing({"key": "a\x1b[2J\n"}) == "lock a\\x1b[2J\\n"
