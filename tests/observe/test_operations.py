"""Which operations get a line in the log, and what it says.

The clock is moved by hand, and the lines are the JSON that the server writes.
"""

import io
import json

import pytest
import structlog

from holdfast.observe.logs import configure
from holdfast.observe.operations import ALL, FAILURES, FAILURES_A_SECOND, MODES, OFF, SAMPLED, OperationLog, Ration
from holdfast.words import SECOND

LEASE = "0123456789abcdef-rest-of-the-secret"
NOON = 1_790_000_000 * SECOND + 7


class Stage:
    """A log, its clock, and the lines in it."""

    def __init__(self, mode):
        self.now = NOON
        self.stream = io.StringIO()
        configure("info", "json", self.stream)
        self.log = OperationLog(mode, lambda: self.now)

    def lines(self):
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def acquired(self):
        self.log.acquired(lock="job", owner="w1", lease_id=LEASE, token=7, latency_ns=1_500_000, request_id="r-1")

    def refused(self):
        self.log.refused(lock="job", owner="w2", cur_owner="w1", latency_ns=0)

    def renewed(self, renewed=True, error=""):
        self.log.renewed(
            lock="job", owner="w1", lease_id=LEASE, token=7, renewed=renewed, latency_ns=2_000_000, error=error
        )

    def released(self, released=True, error=""):
        self.log.released(lock="job", owner="w1", lease_id=LEASE, token=7, released=released, latency_ns=0, error=error)


@pytest.fixture(autouse=True)
def _forget():
    """Leave no configuration behind for other tests."""
    yield
    structlog.reset_defaults()


def shown(line):
    """Take away what every line of the server has."""
    return {name: value for name, value in line.items() if name not in ("timestamp", "part", "event")}


def test_a_lease_that_was_given_out_is_told_with_all_its_facts():
    stage = Stage(ALL)
    stage.acquired()
    (line,) = stage.lines()
    assert (line["event"], line["part"]) == ("operation", "operations")
    assert shown(line) == {
        "op": "acquire",
        "level": "info",
        "ts": "2026-09-21T14:13:20.000000007Z",
        "latency_ms": 1.5,
        "lock": "job",
        "owner": "w1",
        "acquired": True,
        "lease_id": "01234567",
        "token": 7,
        "request_id": "r-1",
    }


def test_a_lock_that_is_held_is_told_with_its_holder_and_without_a_request_id_that_nobody_gave():
    stage = Stage(ALL)
    stage.refused()
    (line,) = stage.lines()
    assert (line["acquired"], line["cur_owner"], line["level"]) == (False, "w1", "info")
    assert not {"lease_id", "token", "error", "request_id"} & set(line)


@pytest.mark.parametrize("op", ["renew", "release"])
@pytest.mark.parametrize(("done", "error", "level"), [(True, "", "info"), (False, "", "info"), (False, "io", "error")])
def test_a_renewal_and_a_release_are_told_with_how_they_came_out(op, done, error, level):
    stage = Stage(ALL)
    (stage.renewed if op == "renew" else stage.released)(done, error)
    (line,) = stage.lines()
    assert (line["op"], line[f"{op}ed" if op == "renew" else "released"], line["level"]) == (op, done, level)
    assert (line["owner"], line["token"], line.get("error", "")) == ("w1", 7, error)


@pytest.mark.parametrize("mode", MODES)
def test_no_line_in_any_mode_gives_a_lease_id_away(mode):
    stage = Stage(mode)
    stage.acquired()
    stage.renewed()
    stage.renewed(False)
    stage.released(False, error="disk full")
    assert "0123456789" not in stage.stream.getvalue()


@pytest.mark.parametrize(
    ("mode", "ordinary", "failures"), [(OFF, 0, 0), (FAILURES, 0, 3), (SAMPLED, 4, 3), (ALL, 4, 3)]
)
def test_the_mode_says_what_gets_a_line(mode, ordinary, failures):
    stage = Stage(mode)
    stage.acquired()
    stage.refused()
    stage.renewed()
    stage.released()
    assert len(stage.lines()) == ordinary
    stage.log.not_acquired(lock="job", owner="w1", error="store_busy", latency_ns=1)
    stage.renewed(False)
    stage.released(False, "disk full")
    assert len(stage.lines()) == ordinary + failures


def test_an_acquire_that_the_service_could_not_decide_is_an_error():
    stage = Stage(FAILURES)
    stage.log.not_acquired(lock="job", owner="w1", error="store_busy", latency_ns=5_000_000_000, request_id="r")
    (line,) = stage.lines()
    assert (line["level"], line["error"], line["acquired"]) == ("error", "store_busy", False)
    assert (line["latency_ms"], line["request_id"]) == (5000.0, "r")


def test_a_sample_is_ten_successes_in_a_second_and_every_second_anew():
    stage = Stage(SAMPLED)
    for _ in range(25):
        stage.acquired()
    assert len(stage.lines()) == 10
    stage.now += SECOND
    for _ in range(25):
        stage.acquired()
    assert len(stage.lines()) == 20


def test_all_means_all():
    stage = Stage(ALL)
    for _ in range(500):
        stage.acquired()
        stage.renewed(False)
    assert len(stage.lines()) == 1000


def test_a_caller_who_fails_in_a_tight_loop_does_not_fill_the_log_and_what_went_unlogged_is_told():
    stage = Stage(FAILURES)
    for _ in range(FAILURES_A_SECOND + 40):
        stage.released(False)
    assert len(stage.lines()) == FAILURES_A_SECOND
    stage.now += SECOND
    stage.released(False)
    stage.released(False)
    assert [line.get("unlogged") for line in stage.lines()[-2:]] == [40, None]


def test_a_sweep_is_told_when_it_came_upon_something():
    stage = Stage(ALL)
    stage.log.swept(held=3, cleared=0, latency_ns=1)
    stage.log.swept(held=3, cleared=2, latency_ns=4_000_000)
    stage.log.swept(held=0, cleared=0, latency_ns=1, error="disk full")
    told, failed = stage.lines()
    assert shown(told) | {"ts": ""} == {
        "op": "expire_sweep",
        "level": "info",
        "ts": "",
        "latency_ms": 4.0,
        "held": 3,
        "cleared": 2,
    }
    assert (failed["level"], failed["error"]) == ("error", "disk full")


def test_a_quiet_log_keeps_sweeps_to_itself_unless_they_fail():
    stage = Stage(FAILURES)
    stage.log.swept(held=3, cleared=2, latency_ns=1)
    assert stage.lines() == []
    stage.log.swept(held=3, cleared=2, latency_ns=1, error="disk full")
    assert len(stage.lines()) == 1


def test_a_ration_knows_how_many_went_without():
    ration = Ration(2)
    assert [ration.take(now) for now in (0, 1, 2, SECOND - 1, SECOND)] == [True, True, False, False, True]
    assert ration.refused == 2
