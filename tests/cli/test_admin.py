"""`holdfast admin lock list`: the table of the seed to the letter, its two other forms, and what --wide adds."""

import json

import pytest

from holdfast.cli.admin import centred, framed
from holdfast.cli.listing import Column
from tests.cli.leases_stage import holdfast, shown

LIST = ("admin", "lock", "list")

TABLE = """\
+----------+-------+------+---------------------+
|   lock   |  pid  | node |      operation      |
+----------+-------+------+---------------------+
| cluster/ | 26407 | sf-7 | Cluster maintenance |
+----------+-------+------+---------------------+"""

EMPTY = """\
+------+-----+------+-----------+
| lock | pid | node | operation |
+------+-----+------+-----------+
+------+-----+------+-----------+"""


@pytest.mark.parametrize("style", [(), ("--pretty",)])
def test_the_table_of_an_idle_cluster_is_the_one_that_operators_know(database, style):
    database.take("cluster/")
    assert shown(*LIST, *style, backend=database.url) == TABLE.splitlines()


def test_without_locks_there_are_the_headings_alone(database):
    assert shown(*LIST, backend=database.url) == EMPTY.splitlines()
    assert shown(*LIST, "--simple", backend=database.url) == ["lock,pid,node,operation"]
    assert json.loads("".join(shown(*LIST, "--json", backend=database.url))) == {}


def test_a_missing_operation_is_spelled_as_it_always_was(database):
    database.take("attribute/instance/x/power_state", operation=None)
    assert "|    None   |" in shown(*LIST, backend=database.url)[3]
    assert shown(*LIST, "--simple", backend=database.url)[1] == "attribute/instance/x/power_state,26407,sf-7,None"


def test_a_comma_in_an_operation_does_not_break_a_line_for_scripts(database):
    database.take("cluster/", operation="this, that")
    assert shown(*LIST, "--simple", backend=database.url)[1] == 'cluster/,26407,sf-7,"this, that"'


def test_json_is_the_whole_holder_by_its_lock_sorted_and_indented_by_four(database):
    database.take("cluster/", thread=7, line="main.py:12")
    database.take("a/b", operation=None)
    lines = shown(*LIST, "--json", backend=database.url)
    told = json.loads("\n".join(lines))
    assert "\n".join(lines) == json.dumps(told, indent=4, sort_keys=True)
    assert list(told) == ["a/b", "cluster/"]
    assert told["cluster/"] == {
        "node": "sf-7",
        "pid": 26407,
        "operation": "Cluster maintenance",
        "thread": 7,
        "line": "main.py:12",
        "id": "id-1",
    }


def test_wide_tells_age_time_left_fence_and_what_has_lapsed(database):
    database.release(database.take("cluster/"))
    database.take("cluster/")
    database.lapse("queue/")
    heading, cluster, queue = [line.replace(" ", "").split("|")[5:-1] for line in _cells("--wide", database)]
    assert heading == ["age", "timeleft", "fence", "state"]
    assert cluster[2:] == ["2", "held"]
    assert queue[1:] == ["0.0s", "1", "lapsed"]


def _cells(option, database):
    return [line for line in shown(*LIST, option, backend=database.url) if line.startswith("|")]


def test_wide_is_there_in_all_forms(database):
    database.lapse("queue/")
    told = json.loads("".join(shown(*LIST, "--wide", "--json", backend=database.url)))["queue/"]
    assert (told["fence"], told["lapsed"], told["left_s"]) == (1, True, 0)
    assert told["age_s"] >= 0
    heading, line = shown(*LIST, "--wide", "--simple", backend=database.url)
    assert heading == "lock,pid,node,operation,fence,age_s,left_s,state"
    assert line.startswith("queue/,26407,sf-7,Cluster maintenance,1,")
    assert line.endswith(",0.0,lapsed")


def test_what_others_have_written_cannot_steer_the_terminal(database):
    database.take("cluster/", operation="\x1b[2Jgone\n")
    printed = "".join(shown(*LIST, backend=database.url))
    assert "\x1b" not in printed
    assert "\\x1b[2Jgone\\n" in printed


def test_the_middle_is_where_the_original_has_it():
    # An even text leans to the right, an odd one to the left.
    assert [centred(cell, 5) for cell in ("ab", "abc", "abcd", "abcde")] == [
        "   ab  ",
        "  abc  ",
        "  abcd ",
        " abcde ",
    ]
    assert centred("a", 4) == "  a   "
    assert centred("", 3) == "     "


def test_wide_characters_take_the_room_that_they_take():
    lines = framed([{"x": "錠"}, {"x": "lock"}], [Column("x", "x", str)])
    assert lines[3:5] == ["|  錠  |", "| lock |"]


def test_without_a_database_it_is_said_what_is_missing():
    result = holdfast(*LIST)
    assert result.exit_code == 2
    assert "give --backend URL, or set HOLDFAST_BACKEND" in result.stderr
