"""`holdfast leases`: making the table, listing, and taking a lock away."""

import json

from holdfast.errors import SPELLINGS
from tests.cli.leases_stage import Database, holdfast, shown


def test_init_makes_the_table_says_so_and_may_be_run_again(tmp_path):
    url = f"sqlite:{tmp_path}/leases.db"
    assert shown("leases", "init", backend=url) == ["made the table cluster_locks"]
    database = Database(url)
    database.take("cluster/")
    assert shown("leases", "init", backend=url) == ["The table is as it has to be."]
    assert database.keys() == ["cluster/"]
    database.close()


def test_the_list_tells_who_has_what_for_how_long_and_what_has_lapsed(database):
    database.take("cluster/")
    database.lapse("queue/jobs/", operation=None)
    heading, cluster, queue = shown("leases", "list", backend=database.url)
    assert heading.split("  ")[0] == "lock"
    assert cluster.startswith("cluster/     26407  sf-7  Cluster maintenance      1")
    assert cluster.endswith("held")
    assert queue.startswith("queue/jobs/  26407  sf-7  -                        1")
    assert queue.endswith("0.0 s  lapsed")


def test_a_prefix_and_the_other_forms(database):
    database.take("cluster/")
    database.take("queue/")
    assert [line.split(",")[0] for line in shown("leases", "list", "q", "--simple", backend=database.url)] == [
        "lock",
        "queue/",
    ]
    (told,) = json.loads("".join(shown("leases", "list", "q", "--json", backend=database.url)))
    assert (told["lock"], told["fence"], told["state"], told["lock_id"]) == ("queue/", 1, "held", "id-2")


def test_an_empty_list_says_so_beside_the_output(database):
    result = holdfast("leases", "list", backend=database.url)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "Nobody has any lock.\n")


def test_a_lock_is_taken_away_from_its_holder_who_cannot_refresh_it_any_more(database):
    hold = database.take("cluster/")
    assert shown("leases", "break", "cluster/", backend=database.url) == [
        "Took the lock cluster/ away from sf-7 pid 26407 (Cluster maintenance)."
    ]
    assert database.backend.refresh([hold], 60_000_000) == [False]
    database.take("cluster/")
    assert database.row("cluster/").fence == 2


def test_only_the_holder_that_was_meant_loses_it(database):
    database.take("cluster/")
    for arguments in (["cluster/", "--lock-id", "id-99"], ["cluster"], ["nothing/"]):
        result = holdfast("leases", "break", *arguments, backend=database.url)
        assert result.exit_code == SPELLINGS["not_held"].exit_code
        assert result.stderr == f"Nobody has the lock {arguments[0]}.\n"
    assert database.keys() == ["cluster/"]
    shown("leases", "break", "cluster/", "--lock-id", "id-1", backend=database.url)
    assert database.keys() == []
