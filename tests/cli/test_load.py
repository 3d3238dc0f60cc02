"""`holdfast load` as a user runs it: its targets, its limits, its report and its exit code.

What happens during a run is tested beside the run.
"""

import asyncio
import io
import sys
import threading
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from holdfast.cli import load_run
from holdfast.cli.load import Target, command, report, target_of
from holdfast.cli.load_run import Plan, Tally
from holdfast.testing.process import ServerProcess
from tests.cli.small_server import GRANTS_TWICE, HONEST, serving

QUICK = [
    "--clients",
    "4",
    "--duration",
    "200ms",
    "--ttl",
    "5s",
    "--hold",
    "2ms",
    "--jitter",
    "2ms",
    "--failrate",
    "0",
]


class Terminal(io.StringIO):
    """Text that claims to be a terminal."""

    def isatty(self):
        return True


def run(*arguments):
    return CliRunner().invoke(command(), arguments, prog_name="load")


@contextmanager
def small_server(sin=HONEST):
    """Serve from another thread, because the command brings a loop of its own."""
    ready, port = threading.Event(), []

    async def main():
        over = asyncio.Event()
        async with serving(sin) as server:
            port.extend([server.port, asyncio.get_running_loop(), over])
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    ready.wait()
    try:
        yield port[0]
    finally:
        port[1].call_soon_threadsafe(port[2].set)
        thread.join()


def test_an_honest_server_passes_and_the_report_has_the_lines_of_the_original():
    with small_server() as port:
        result = run(f"http://127.0.0.1:{port}", *QUICK)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == f"holdfast load, http door of 127.0.0.1:{port}"
    assert lines[1] == "duration=200ms clients=4 lock=hotlock ttl=5s"
    names = ["acquire_success", "acquire_fail", "release_success", "writes_accepted", "stale_rejected", "last_token"]
    assert [line.partition("=")[0] for line in lines[2:9]] == [*names, "errors"]
    values = dict(line.split("=") for line in lines[2:9])
    assert values["acquire_success"] == values["writes_accepted"] == values["last_token"] != "0"
    assert values["errors"] == "0"
    assert lines[10].split() == ["ms", "count", "per", "s", "p50", "p90", "p99", "p99.9", "max"]
    assert [line.split()[0] for line in lines[11:14]] == ["acquire", "refused", "release"]
    assert "ok     no two holders at once" in lines
    assert "BROKEN" not in result.stdout


def test_a_server_that_grants_what_is_held_is_exit_code_1_with_evidence():
    with small_server(GRANTS_TWICE) as port:
        result = run(f"http://127.0.0.1:{port}", *QUICK)
    assert result.exit_code == 1
    assert "BROKEN no two holders at once\n       hotlock: " in result.stdout
    assert "was granted while" in result.stdout


def test_the_line_door_of_a_real_server_passes(tmp_path):
    arguments = ("serve", "--store", "memory:", "--http", "off", "--line", "127.0.0.1:0")
    with ServerProcess(*arguments, log=tmp_path / "log") as server:
        result = run(f"127.0.0.1:{server.port}", *QUICK, "--own-locks", "--ttl", "4001ms")
    assert result.exit_code == 0
    assert "ttl=5s" in result.stdout
    assert "errors=0" in result.stdout


def test_a_target_where_nobody_answers_is_exit_code_1_with_the_first_error():
    result = run("127.0.0.1:1", *QUICK)
    assert result.exit_code == 1
    assert "BROKEN something was granted" in result.stdout
    assert "first: ConnectionRefusedError" in result.stdout


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("http://127.0.0.1:8080", Target("http", "127.0.0.1", 8080)),
        ("http://localhost:8080/", Target("http", "localhost", 8080)),
        ("http://[::1]:8080", Target("http", "::1", 8080)),
        ("http://localhost", Target("http", "localhost", 80)),
        ("127.0.0.1:6388", Target("line", "127.0.0.1", 6388)),
        ("[::1]:6388", Target("line", "::1", 6388)),
    ],
)
def test_a_target_says_the_door_by_its_form(text, target):
    assert target_of(text) == target
    assert target.is_loopback


@pytest.mark.parametrize(
    "text",
    [
        "https://localhost:1",
        "tcp://localhost:1",
        "http://localhost:1/v1",
        "http://localhost:1?x=1",
        "http://u:p@localhost:1",
        "http://:80",
        "http://localhost:99999",
        "localhost",
        "localhost:0",
        "*:6388",
        "",
    ],
)
def test_what_is_no_target_is_exit_code_2(text):
    result = run(text, *QUICK)
    assert result.exit_code == 2
    assert "TARGET" in result.stderr


@pytest.mark.parametrize(
    "text", ["http://10.0.0.1:80", "192.0.2.1:6388", "http://example.org", "localhost.example.org:1"]
)
def test_another_machine_is_loaded_only_by_who_says_so(text):
    result = run(text, *QUICK)
    assert result.exit_code == 2
    assert "--yes-not-loopback" in result.stderr


def test_the_whole_loopback_network_is_this_machine_and_saying_yes_is_enough_for_others():
    assert Target("line", "127.8.8.8", 1).is_loopback
    assert not Target("line", "0.0.0.0", 1).is_loopback
    result = run("0.0.0.0:1", *QUICK, "--yes-not-loopback")
    assert result.exit_code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--clients", "0"],
        ["--clients", "10001"],
        ["--duration", "0"],
        ["--duration", "61m"],
        ["--duration", "20"],
        ["--ttl", "11m"],
        ["--ttl", "999us"],
        ["--hold", "-1s"],
        ["--failrate", "1.5"],
        ["--lock", " "],
        ["--lock", "a\nb"],
    ],
)
def test_what_goes_beyond_a_limit_is_exit_code_2(arguments):
    result = run("127.0.0.1:1", *arguments)
    assert result.exit_code == 2
    assert arguments[0] in result.stderr


def test_on_a_terminal_progress_is_told_and_can_be_told_not_to(monkeypatch):
    monkeypatch.setattr(load_run, "TELL_S", 0.05)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with small_server() as port:
        for arguments in ([], ["--no-progress"]):
            with pytest.raises(SystemExit) as over:
                command().main([f"http://127.0.0.1:{port}", *QUICK, *arguments], prog_name="load")
            assert over.value.code == 0
            told = sys.stderr.getvalue().splitlines()
            assert bool(told) == (not arguments)
            assert all(line.endswith(" 0 stale, 0 errors") for line in told)
            sys.stderr.truncate(0)
            sys.stderr.seek(0)


def test_a_run_that_was_cut_short_says_so():
    plan = Plan(lock="l", clients=1, duration_ns=1, ttl_ns=1, hold_ns=1, jitter_ns=0, failrate=0)
    text = report(plan, Tally(full=True, unfinished=True, acquire_fail=3, store_busy=2), [])
    assert "The run ended early" in text
    assert "Callers had to be cut off" in text
    assert "acquire_fail=3 store_busy=2\n" in text


def test_the_defaults_are_those_of_the_original():
    given = {param.name: param.default for param in command().params}
    assert {name: given[name] for name in ("lock", "clients", "duration_ns", "ttl_ns", "hold_ns", "jitter_ns")} == {
        "lock": "hotlock",
        "clients": 50,
        "duration_ns": "20s",
        "ttl_ns": "800ms",
        "hold_ns": "30ms",
        "jitter_ns": "30ms",
    }
    assert given["failrate"] == 0.03


def test_the_command_is_one_of_holdfast_and_so_is_the_stand_in():
    from holdfast.cli.main import holdfast

    result = CliRunner().invoke(holdfast, ["--help"])
    assert "\n  load " in result.stdout
    assert "\n  lockserver " in result.stdout
    assert "LOCKSERVER_ADDR" in CliRunner().invoke(holdfast, ["lockserver", "--help"]).stdout
