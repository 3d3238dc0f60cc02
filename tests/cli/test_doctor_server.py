"""The doctor calls servers: well ones, ones with a token, strangers, and none at all."""

import pytest

from holdfast import __version__
from holdfast.cli.doctor_findings import State
from holdfast.cli.doctor_server import answer, circles, findings, health, skew
from tests.cli.look_stage import NOWHERE, Urls, foreign


def told(url, expected=True):
    return [(finding.state, finding.found) for finding in findings(url, expected=expected)]


@pytest.mark.parametrize("scheme", ["native", "dflock", "http"])
def test_a_server_that_is_well_is_told_so(urls, scheme):
    url = getattr(urls, scheme)
    found = findings(url, expected=True)
    assert {finding.state for finding in found} <= {State.OK, State.WARNING}  # a warning, if it answers slowly
    address = url.partition("//")[2]
    assert found[0].found.startswith(f"{address} answers")
    about = {"native": ["no deadlocks"], "dflock": [], "http": ["ready to grant", "lets us in", "same time"]}
    for one, wanted in zip(found[1:], about[scheme], strict=True):
        assert wanted in one.found


def test_all_servers_are_called(urls, start):
    second = Urls(start("serve", "--store", "memory:")).native
    addresses = [url.partition("//")[2] for url in (urls.native, second)]
    found = [found for _, found in told(f"{urls.native},{second}")]
    assert [line.split(" ")[0] for line in found[:2]] == addresses


def test_a_wrong_token_is_bad_and_is_not_shown(start):
    server = start("serve", "--store", "memory:", "--auth-token", "right")
    for scheme in ("native", "dflock", "http"):
        for token in ("", "wrong"):
            (bad,) = (line for state, line in told(getattr(Urls(server, token), scheme)) if state is State.BAD)
            assert "token" in bad
            assert "wrong" not in bad
        assert State.BAD not in [state for state, _ in told(getattr(Urls(server, "right"), scheme))]


@pytest.mark.parametrize("scheme", ["holdfast", "dflock", "http"])
def test_nobody_there_is_bad_only_where_somebody_is_expected(scheme):
    url = f"{scheme}://{NOWHERE}"
    ((state, line),) = told(url)
    assert (state, url in line, "refused" in line) == (State.BAD, True, True)
    ((state, line),) = told(url, expected=False)
    assert (state, line) == (State.NOTE, f"nobody answers at {url}, where one would be by default")


def test_a_lockserver_is_no_worse_for_not_being_ours():
    snapshot = {"lock_name": "holdfast-doctor", "held": False}
    with foreign({"/healthz": (200, {"status": "ok"}), "/v1/locks/holdfast-doctor": (200, snapshot)}) as url:
        lines = [line for state, line in told(url) if state is not State.BAD]
    assert [line.partition(" ")[2].split(" in ")[0] for line in lines][1:] == [
        "lets us in",
        "has the same time as this machine",
    ]


def test_a_server_that_grants_nothing_is_bad():
    with foreign({"/healthz": (200, {}), "/readyz": (503, {"detail": "the store has failed"})}) as url:
        bad = [line for state, line in told(url) if state is State.BAD]
    assert len(bad) == 1
    assert bad[0].endswith("the store has failed")


def test_a_stranger_is_bad():
    with foreign({}) as url:
        ((state, line),) = told(url)
    assert (state, "has no /healthz" in line) == (State.BAD, True)


def test_a_server_for_some_keys_only_lets_us_in():
    with foreign({"/healthz": (200, {}), "/v1/locks/holdfast-doctor": (403, {})}) as url:
        assert State.BAD not in [state for state, _ in told(url)]


def test_an_answer_that_takes_long_is_a_warning():
    assert [answer("there", took_ms).state for took_ms in (99.9, 100.0)] == [State.OK, State.WARNING]


@pytest.mark.parametrize(
    ("stats", "states"),
    [
        ({"server": f"holdfast {__version__}", "draining": False}, []),
        ({"connections": 2, "locks": []}, []),
        ({"server": "holdfast 0.0.1"}, [State.NOTE]),
        ({"server": "holdfast 0.0.1", "draining": True}, [State.NOTE, State.WARNING]),
    ],
)
def test_what_a_server_tells_of_itself_is_judged(stats, states):
    assert [finding.state for finding in health("there", stats)] == states


def test_circles_are_a_warning_with_advice():
    assert [circles(count).found for count in (0, 1, 2)] == ["no deadlocks", "1 deadlock", "2 deadlocks"]
    assert "holdfast deadlocks" in circles(1).advice


@pytest.mark.parametrize(
    ("ahead_ms", "line"),
    [
        (1_999, "there has the same time as this machine"),
        (-1_999, "there has the same time as this machine"),
        (61_000, "the clock of there is 61 s ahead of ours"),
        (-2_000, "the clock of there is 2 s behind ours"),
    ],
)
def test_clocks_that_differ_are_told(ahead_ms, line):
    assert skew("there", ahead_ms).found == line
