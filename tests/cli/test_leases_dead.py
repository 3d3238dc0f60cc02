"""`holdfast leases clear-stale` and `shed`: the dead lose their locks at once, and the living never."""

import pytest

from tests.cli.leases_stage import alive, dead, myself, shown


@pytest.fixture
def crowd(database):
    """Locks of the dead, of the living, and of those of whom nothing can be known."""
    gone, other_machine = dead(), ("sf-9", 4211, "0f0f.1.2.4211.99")
    with alive() as worker:
        for key, (pid, process) in {"dead/": gone, "worker/": worker, "mine/": myself()}.items():
            database.take(key, pid=pid, process=process)
        database.take("elsewhere/", node=other_machine[0], pid=other_machine[1], process=other_machine[2])
        database.take("unknown/", pid=gone[0], process="")
        # The pid is in use again, by a process that was started at another time.
        database.take("reused/", pid=worker[0], process=worker[1].rpartition(".")[0] + ".1")
        yield gone[0]


def test_what_the_dead_have_left_is_freed_and_nothing_else(database, crowd):
    freed = shown("leases", "clear-stale", backend=database.url)
    assert [line.partition(",")[0] for line in freed] == ["freed dead/", "freed reused/"]
    assert freed[0] == f"freed dead/, which sf-7 pid {crowd} (Cluster maintenance) had"
    assert database.keys() == ["elsewhere/", "mine/", "unknown/", "worker/"]
    assert shown("leases", "clear-stale", backend=database.url) == ["Dead processes have left nothing."]


def test_what_is_freed_can_be_taken_at_once_with_a_higher_fence(database, crowd):
    shown("leases", "shed", backend=database.url)
    database.take("dead/")
    assert database.row("dead/").fence == 2


def test_a_unit_that_has_ended_is_named_in_the_log_with_how_it_ended(database, crowd):
    lines = shown(
        *("leases", "shed", "--unit", "maintainer.service", "--pid", str(crowd)),
        backend=database.url,
        environ={"SERVICE_RESULT": "watchdog"},
    )
    assert lines == [f"maintainer.service (watchdog): freed dead/, which sf-7 pid {crowd} (Cluster maintenance) had"]
    assert database.row("reused/") is not None


def test_a_unit_that_has_left_nothing_is_no_trouble(database):
    assert shown("leases", "shed", backend=database.url) == ["nothing to free"]
    assert shown("leases", "shed", "--unit", "x.service", backend=database.url) == ["x.service: nothing to free"]


def test_shedding_while_the_service_is_alive_takes_nothing_from_it(database):
    with alive() as (pid, process):
        database.take("cluster/", pid=pid, process=process)
        assert shown("leases", "shed", "--pid", str(pid), backend=database.url) == ["nothing to free"]
    assert database.keys() == ["cluster/"]
    assert len(shown("leases", "shed", "--pid", str(pid), backend=database.url)) == 1
    assert database.keys() == []
