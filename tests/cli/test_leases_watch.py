"""`holdfast leases watch`: each change between two looks is a line, and a database that is away is waited for."""

import csv
import json
from itertools import islice

import pytest

from holdfast.cli.leases_watch import NAMES, change_of, changes, line_of, tables
from holdfast.errors import SPELLINGS
from holdfast.leases.errors import DatabaseUnavailable
from tests.cli.leases_stage import coming_and_going, holdfast
from tests.cli.test_leases_backend import row

NOW = "2026-02-03T04:05:06.789+00:00"
OTHER = {"lock_id": "y", "pid": 5, "node": "sf-8", "holder": {}, "fence": 4}


def table(*rows):
    return {one.key: one for one in rows}


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (None, row(), "taken   cluster/  by sf-7 pid 26407 (Cluster maintenance), fence 3"),
        (row(), None, "freed   cluster/  sf-7 pid 26407 (Cluster maintenance)"),
        (row(), row(left_us=0), "lapsed  cluster/  sf-7 pid 26407 (Cluster maintenance)"),
        (
            row(),
            row(**OTHER),
            "taken   cluster/  by sf-8 pid 5, fence 4; before, sf-7 pid 26407 (Cluster maintenance) had it",
        ),
        (
            row(left_us=-1, holder={}),
            row(**OTHER),
            "taken   cluster/  by sf-8 pid 5, fence 4; before, sf-7 pid 26407 had it until it lapsed",
        ),
    ],
)
def test_a_change_is_told_in_a_line(old, new, line):
    assert line_of(*change_of(old, new), NOW, None) == f"04:05:06.789  {line}"


def test_a_refresh_is_no_change_and_what_has_lapsed_lapses_once():
    assert change_of(row(), row(left_us=60_000_000)) is None
    assert change_of(row(left_us=-1), row(left_us=-2)) is None
    assert change_of(None, None) is None


def test_changes_come_in_the_order_of_the_keys_and_only_of_those_that_begin_so():
    first, second = row(key=b"a/1"), row(key=b"a/2")
    seen = iter([table(second), table(first, row(key=b"b/")), table(first)])
    assert [(what, one.key) for what, one, _ in changes(seen, "a/")] == [("taken", b"a/1"), ("freed", b"a/2")]


def test_for_scripts_and_for_programs():
    told = json.loads(line_of("taken", row(), None, NOW, "json"))
    assert told == {
        "time": NOW,
        "what": "taken",
        "lock": "cluster/",
        "pid": 26407,
        "node": "sf-7",
        "operation": "Cluster maintenance",
        "fence": 3,
        "age_s": 1.5,
        "left_s": 59.0,
        "lock_id": "x",
    }
    (cells,) = csv.reader([line_of("freed", row(holder={"operation": "this, that"}), None, NOW, "simple")])
    assert cells == [NOW, "freed", "cluster/", "26407", "sf-7", "this, that", "3"]
    assert len(cells) == len(NAMES)


def test_a_database_that_goes_away_is_told_of_once_and_waited_for(capsys):
    answers = iter([[row()], None, None, [], None, [row()]])

    def look():
        answer = next(answers)
        if answer is None:
            raise DatabaseUnavailable("no answer")
        return answer

    rests = []
    seen = list(islice(tables(look, lambda: rests.append(1)), 3))
    assert [len(one) for one in seen] == [1, 0, 1]
    assert len(rests) == 5
    assert capsys.readouterr().err == "holdfast: no answer; waiting for it\n" * 2


def test_a_database_that_was_never_there_is_an_error(tmp_path):
    result = holdfast("leases", "watch", backend="mariadb://x:secret@127.0.0.1:1/locks")
    assert result.exit_code == SPELLINGS["unavailable"].exit_code


def test_what_happens_while_it_watches_is_printed(database):
    """Somebody comes and goes all the time, so that it does not matter when watching begins."""
    command = ("leases", "watch", "clu", "--interval", "0.05", "--count", "2", "--simple")
    with coming_and_going(database, "cluster/"):
        result = holdfast(*command, backend=database.url)
    heading, *lines = list(csv.reader(result.stdout.splitlines()))
    assert heading == list(NAMES)
    assert len(lines) == 2
    assert {line[2] for line in lines} == {"cluster/"}
