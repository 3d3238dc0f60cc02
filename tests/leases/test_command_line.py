"""The commands on leases over each database: the same locks, the same answers.

What the commands print in detail is tested in tests/cli, on SQLite.
"""

import json
import os
import subprocess
import sys
import threading
from contextlib import closing
from itertools import count

import pytest

from tests.cli.leases_stage import Database, alive, dead, holdfast, shown

WAIT_S_MAX = 60.0


@pytest.fixture(params=["mariadb", "postgres"])
def database(request, mariadb, postgres):
    with closing(Database(request.getfixturevalue(f"{request.param}_url"))) as found:
        assert shown("leases", "init", backend=found.url) == ["made the table cluster_locks"]
        yield found


def test_locks_are_listed_taken_away_and_shed(database):
    with alive() as (living, process):
        database.take("t/b", pid=living, process=process)
        gone, its_process = dead()
        database.take("t/a", pid=gone, process=its_process)
        lines = shown("admin", "lock", "list", backend=database.url)
        assert [line.replace(" ", "") for line in lines if line.startswith("|")] == [
            "|lock|pid|node|operation|",
            f"|t/a|{gone}|sf-7|Clustermaintenance|",
            f"|t/b|{living}|sf-7|Clustermaintenance|",
        ]
        assert shown("leases", "shed", "--unit", "x.service", backend=database.url) == [
            f"x.service: freed t/a, which sf-7 pid {gone} (Cluster maintenance) had"
        ]
        assert database.keys() == ["t/b"]
    shown("leases", "break", "t/b", backend=database.url)
    assert database.keys() == []
    database.take("t/b")
    assert database.row("t/b").fence == 2
    assert shown("leases", "init", backend=database.url) == ["The table is as it has to be."]
    assert database.keys() == ["t/b"]


def test_what_has_lapsed_is_told_and_times_are_those_of_the_server(database):
    database.lapse("t/a")
    database.take("t/b")
    lapsed, held = json.loads("".join(shown("leases", "list", "--json", backend=database.url)))
    assert (lapsed["state"], lapsed["left_s"], held["state"]) == ("lapsed", 0, "held")
    assert 0 <= held["age_s"] < 60
    assert 0 < held["left_s"] <= 60


def test_a_wrong_password_is_not_shown_when_it_is_refused(database):
    user, _, rest = database.url.partition(":secret@")
    result = holdfast("leases", "list", backend=f"{user}:hunter2@{rest}")
    assert result.exit_code in (69, 77)
    assert "hunter2" not in result.output


def test_whoever_watches_postgresql_hears_at_once_that_a_lock_was_given_back(postgres_url):
    """The next look by itself would come in an hour. At each bell one lock is free that was held, and another held."""
    command = [sys.executable, "-m", "holdfast", "leases", "watch", "--interval", "1h", "--count", "2"]
    over = threading.Event()

    def hand_on():
        hold = database.take("t/0")
        for number in count(1):
            hold, before = database.take(f"t/{number}"), hold
            database.release(before)
            if over.wait(0.02):
                return

    with closing(Database(postgres_url)) as database:
        database.prepare()
        worker = threading.Thread(target=hand_on)
        worker.start()
        try:
            done = subprocess.run(
                command,
                env=os.environ | {"HOLDFAST_BACKEND": postgres_url},
                capture_output=True,
                text=True,
                timeout=WAIT_S_MAX,
                check=True,
            )
        finally:
            over.set()
            worker.join()
    assert len(done.stdout.splitlines()) == 2
    assert all("  t/" in line for line in done.stdout.splitlines())
