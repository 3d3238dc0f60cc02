"""`holdfast ls` and `holdfast show` on a real server, over all protocols, and on servers that are not ours."""

import socket

import pytest

from holdfast.cli.look import headline, holder_rows, key_rows, waiter_rows
from holdfast.errors import SPELLINGS
from holdfast.sync import connect
from tests.cli.look_stage import NOWHERE, foreign, holdfast, objects, rows, shown

HOLDER = {
    "host": "db-1",
    "pid": 7,
    "operation": "import",
    "mode": "EX",
    "units": 1,
    "since_ms": 61_500,
    "left_ms": 9_900,
}


@pytest.fixture
def client(urls):
    with connect(urls.native, name="tester") as client:
        yield client


def test_a_lock_is_listed_with_who_holds_it_where_for_what_and_how_many_wait(urls, client):
    client.lock("ls/job", operation="import").acquire()
    with connect(urls.native) as other:
        other.enqueue("ls/job")
        (row,) = rows("ls", "ls/job", server=urls.native)
        headings, line = shown("ls", "ls/job", server=urls.native).splitlines()
    here = {"lock": "ls/job", "node": socket.gethostname(), "operation": "import", "waiters": "1", "mode": "exclusive"}
    assert row.items() >= here.items()
    assert 0 <= float(row["held_s"]) < 30 >= float(row["renews_in_s"]) > 0
    assert headings.split("  ")[0] == "lock"
    for heading in ("pid", "node", "operation", "mode", "held for", "renews in", "waiters"):
        assert heading in headings
    assert line.startswith("ls/job ")
    assert line.endswith(" 1")


def test_csv_begins_with_the_four_columns_that_scripts_know():
    with foreign({"/v1/locks": (200, {"locks": []})}) as url:
        assert shown("ls", "--simple", server=url).startswith("lock,pid,node,operation,")


def test_who_shares_a_key_has_a_row_each_and_its_queue_is_counted_once(urls, client):
    with connect(urls.native) as other:
        for one in (client, other):
            one.rwlock("ls/book").read().acquire()
        other.enqueue("ls/book")
        found = rows("ls", "ls/book", server=urls.native)
    assert [(row["mode"], row["waiters"]) for row in found] == [("shared", "1"), ("shared", "0")]


def test_seats_of_a_semaphore_are_listed(urls, client):
    client.semaphore("ls/pool", 3).acquire()
    client.semaphore("ls/pool", 3).acquire()
    client.lock("ls/pool").acquire()
    assert [row["mode"] for row in rows("ls", "ls/pool", "--kind", "semaphore", server=urls.native)] == ["1 of 3"] * 2
    assert [row["kind"] for row in rows("ls", "ls/pool", "--kind", "lock", server=urls.native)] == ["lock"]
    assert len(objects("ls", "ls/pool", server=urls.native)) == 2


def test_idle_keys_are_listed_only_when_all_are_wanted(urls, client):
    client.lock("ls/idle").acquire().release()
    assert rows("ls", "ls/idle", server=urls.native) == []
    (row,) = rows("ls", "ls/idle", "--all", server=urls.native)
    assert (row["lock"], row["pid"], row["held_s"], row["waiters"]) == ("ls/idle", "", "", "0")


def test_nothing_is_no_mistake(urls):
    result = holdfast("ls", "ls/nothing-begins-so", server=urls.native)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "Nobody holds or waits for anything.\n")
    assert objects("ls", "ls/nothing-begins-so", server=urls.native) == []


def test_five_hundred_keys_are_five_hundred_rows_in_order_over_each_protocol(urls, client):
    names = [f"ls/many/{number:03}" for number in range(500)]
    held = [client.lock(name).acquire() for name in names]
    for url in (urls.native, urls.dflock, urls.http):
        assert [row["lock"] for row in rows("ls", "ls/many/", server=url)] == names
        assert [view["key"] for view in objects("ls", "ls/many/", server=url)] == names
    for one in held:
        one.release()


def test_odd_names_are_escaped_for_people_and_whole_for_programs(urls, client):
    name = 'ls/odd/\x1b[2J\n\x07\u202e,"é'
    client.lock(name).acquire()
    for url in (urls.native, urls.dflock, urls.http):
        out = shown("ls", "ls/odd/", server=url) + shown("ls", "ls/odd/", "--simple", server=url)
        assert all(one.isprintable() or one == "\n" for one in out)
        assert '\\x1b[2J\\n\\x07\\u202e,"é' in out
        (view,) = objects("ls", "ls/odd/", server=url)
        assert view["key"] == name
    assert '\\x1b[2J\\n\\x07\\u202e,"é: held' in shown("show", name, server=urls.native)


def test_bytes_of_the_line_protocol_that_are_no_text_are_escaped(urls):
    host, _, port = urls.native.removeprefix("holdfast://").partition(":")
    with socket.create_connection((host, int(port))) as peer:
        peer.sendall(b"l\nls/raw/\xff\xfe\n1 30\n")
        assert peer.recv(100).startswith(b"ok ")
        assert shown("ls", "ls/raw/", server=urls.native).splitlines()[1].startswith("ls/raw/\\xff\\xfe ")


@pytest.mark.parametrize("scheme", ["native", "dflock", "http"])
def test_a_name_that_is_no_text_is_refused(urls, scheme):
    result = holdfast("ls", "a\udcc3", server=getattr(urls, scheme))
    if scheme == "dflock":  # which is asked for everything, and nothing begins so
        assert (result.exit_code, result.stdout) == (0, "")
    else:
        assert (result.exit_code, result.stdout) == (SPELLINGS["bad_request"].exit_code, "")
        assert "cannot be written in UTF-8" in result.stderr


def test_what_other_protocols_tell_is_shown_and_what_they_do_not_is_left_out(urls, client):
    client.lock("ls/told").acquire()
    client.semaphore("ls/told", 2).acquire()
    for url, node in ((urls.dflock, "connection "), (urls.http, "tester@")):
        lock, semaphore = rows("ls", "ls/told", server=url)
        assert lock["node"].startswith(node)
        assert (lock["kind"], lock["held_s"], lock["waiters"]) == ("lock", "", "0")
        assert 0 < float(lock["renews_in_s"]) <= 30
        assert (semaphore["kind"], semaphore["mode"], semaphore["waiters"]) == ("semaphore", "1 of 2", "0")
        assert [row["kind"] for row in rows("ls", "ls/told", "--kind", "semaphore", server=url)] == ["semaphore"]


# --- show ---


def test_a_key_is_shown_with_its_holders_and_its_queue_in_order(urls, client):
    client.lock("show/job", operation="import").acquire()
    with connect(urls.native, name="second") as second, connect(urls.native, name="third") as third:
        second.enqueue("show/job")
        third.enqueue("show/job")
        told = shown("show", "show/job", server=urls.native)
        holder, *queue = rows("show", "show/job", server=urls.native)
        view = objects("show", "show/job", server=urls.native)
    first, *rest = told.splitlines()
    assert first == "lock show/job: held, 2 waiting"
    assert [line for line in rest if line.endswith(":")] == ["held by:", "queue:"]
    assert (holder["state"], holder["operation"], holder["client"]) == ("holds", "import", "tester")
    assert [(row["place"], row["client"], row["state"]) for row in queue] == [
        ("1", "second", "waits"),
        ("2", "third", "waits"),
    ]
    assert (view["held"], view["waiting"], [one["client"] for one in view["queue"]]) == (1, 2, ["second", "third"])


@pytest.mark.parametrize("scheme", ["native", "dflock", "http"])
@pytest.mark.parametrize(("flags", "kind"), [((), "lock"), (("--semaphore",), "semaphore")])
def test_a_key_that_nobody_has_heard_of_is_free(urls, scheme, flags, kind):
    url = getattr(urls, scheme)
    assert shown("show", "show/nobody", *flags, server=url) == f"{kind} show/nobody: free, 0 waiting\n"
    assert rows("show", "show/nobody", *flags, server=url) == []
    assert objects("show", "show/nobody", *flags, server=url)["holders"] == []


@pytest.mark.parametrize("scheme", ["dflock", "http"])
def test_a_key_is_shown_over_other_protocols_with_the_length_of_its_queue(urls, client, scheme):
    client.lock("show/other").acquire()
    client.lock("show/other/longer").acquire()
    client.semaphore("show/other", 2).acquire()
    with connect(urls.native) as second:
        second.enqueue("show/other")
        url = getattr(urls, scheme)
        assert shown("show", "show/other", server=url).startswith("lock show/other: held, 1 waiting\n")
        assert shown("show", "show/other", "--semaphore", server=url).startswith(
            "semaphore show/other: 1 of 2 seats taken, 0 waiting\n"
        )


@pytest.mark.parametrize("key", ["", "x" * 1025])
def test_what_is_no_key_is_refused(urls, key):
    result = holdfast("show", key, server=urls.native)
    assert result.exit_code == SPELLINGS["bad_request"].exit_code
    assert result.stderr == f"holdfast: a key has 1 to 1024 bytes in UTF-8, not {len(key)}\n"


# --- servers that are not there, or not for us ---


@pytest.mark.parametrize(
    "command", [("ls",), ("show", "job"), ("explain", "job"), ("stats",), ("ping",), ("deadlocks",)]
)
def test_where_nobody_is_somebody_says_so(command):
    for scheme in ("holdfast", "dflock", "http"):
        if scheme != "holdfast" and command[0] in ("explain", "deadlocks"):
            continue
        result = holdfast(*command, server=f"{scheme}://{NOWHERE}")
        assert (result.exit_code, result.stdout) == (SPELLINGS["unavailable"].exit_code, "")
        assert result.stderr.startswith("holdfast: ")
        assert NOWHERE in result.stderr
        assert "Connection refused" in result.stderr


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("elsewhere", "begins with none of"),
        ("ftp://elsewhere", "begins with none of"),
        ("holdfast://", "names no host"),
        ("holdfast://127.0.0.1:99999", "is no URL"),
        ("holdfast://one,http://two", "one protocol"),
    ],
)
def test_what_is_no_server_is_refused_before_anybody_is_called(url, why):
    result = holdfast("ls", "--server", url)
    assert (result.exit_code, result.stdout) == (SPELLINGS["bad_request"].exit_code, "")
    assert why in result.stderr


def test_what_is_said_beats_the_environment(urls):
    assert holdfast("ls", "ls/said", "--server", urls.native, server=f"holdfast://{NOWHERE}").exit_code == 0


def test_without_a_word_it_is_the_server_of_this_machine(monkeypatch):
    monkeypatch.setattr("holdfast.cli.calling.SERVER_DEFAULT", f"http://{NOWHERE}")
    for unsaid in (None, ""):
        assert NOWHERE in holdfast("ls", server=unsaid).stderr


def test_several_servers_are_listed_together(urls, start):
    second = start("serve", "--store", "memory:")
    both = f"{urls.native},holdfast://127.0.0.1:{second.port}"
    with connect(both) as client:
        names = [f"ls/shard/{number}" for number in range(8)]
        for name in names:
            client.lock(name).acquire()
        assert sorted(row["lock"] for row in rows("ls", "ls/shard/", server=both)) == names
        assert 0 < len(rows("ls", "ls/shard/", server=urls.native)) < len(names)
        for name in names:
            assert shown("show", name, server=both).startswith(f"lock {name}: held")


# --- rows, by hand ---


def test_who_wants_another_mode_shows_it():
    view = {"key": "job", "waiting": 0, "holders": [HOLDER | {"mode": "PR", "converting_to": "EX"}]}
    assert holder_rows(view)[0]["mode"] == "shared, wants exclusive"


def test_modes_without_a_name_of_their_own_are_shown_as_they_are():
    view = {"key": "job", "holders": [HOLDER | {"mode": "CR"}]}
    assert holder_rows(view)[0]["mode"] == "CR"


def test_who_waits_without_an_end_gives_up_never():
    (row,) = waiter_rows({"key": "job", "queue": [{"door": "line", "want": "EX", "since_ms": 1_500, "left_ms": None}]})
    assert (row["place"], row["node"], row["waits_s"], row["gives_up_in_s"]) == (1, "line", 1.5, None)


def test_a_row_without_a_holder_tells_the_queue():
    (row,) = key_rows({"key": "job", "waiting": 2, "holders": []})
    assert (row["lock"], row["waiters"], row.get("pid")) == ("job", 2, None)


@pytest.mark.parametrize(
    ("view", "told"),
    [
        ({"key": "job", "held": 1, "waiting": 0}, "lock job: held, 0 waiting"),
        ({"key": "job", "holders": [HOLDER, HOLDER], "waiting": 3}, "lock job: held by 2, 3 waiting"),
        ({"key": "a\nb"}, "lock a\\nb: free"),
        (
            {"key": "pool", "kind": "semaphore", "limit": 4, "holders": [{"units": 3}]},
            "semaphore pool: 3 of 4 seats taken",
        ),
    ],
)
def test_how_it_stands_with_a_key_is_told_in_a_line(view, told):
    assert headline(view) == told
