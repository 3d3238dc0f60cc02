"""`holdfast run` as it is typed, against a real server: what the command gets, what is told, and every exit code.

When exactly a command ends whose lock is being lost is tested with the guardian.
"""

import os
import signal
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from holdfast.cli import run as module
from holdfast.sync import connect
from holdfast.testing.process import ServerProcess
from tests.cli.run_user import Run, run, variables


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess("serve", "--store", "memory:", log=tmp_path_factory.mktemp("run") / "log") as server:
        yield server


@pytest.fixture
def url(server):
    return f"holdfast://127.0.0.1:{server.port}"


@pytest.fixture
def urls(server):
    http = f"http://127.0.0.1:{server.http_port}"
    return {
        "holdfast": f"holdfast://127.0.0.1:{server.port}",
        "dflock": f"dflock://127.0.0.1:{server.port}",
        "http": http,
    }


@pytest.fixture
def key(request):
    """A key for each test, of which nobody else has heard."""
    return request.node.name


@pytest.fixture
def client(url):
    with connect(url, name="tester") as client:
        yield client


def usage(*arguments):
    return CliRunner().invoke(module.command(), list(arguments))


# --- what the command gets, and what comes back ---


def test_the_command_finds_key_fence_and_deadline_in_its_environment(url, key):
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    code, out, err = run(url, "--lease", "20", key, "--", "env")
    assert (code, err) == (0, "")
    found = variables(out)
    assert found["HOLDFAST_KEY"] == key
    assert int(found["HOLDFAST_FENCE"]) > 0
    assert before + 18 < float(found["HOLDFAST_DEADLINE"]) < time.clock_gettime(time.CLOCK_BOOTTIME) + 20
    left = datetime.fromisoformat(found["HOLDFAST_DEADLINE_AT"]) - datetime.now(UTC)
    assert 0 < left.total_seconds() < 20


def test_each_run_has_a_higher_fence(url, key):
    fences = [int(variables(run(url, key, "env")[1])["HOLDFAST_FENCE"]) for _ in range(2)]
    assert fences[0] < fences[1]


@pytest.mark.parametrize(("wish", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("kill $$", 143)])
def test_the_exit_code_is_that_of_the_command(wish, code, url, key):
    assert run(url, key, "--", "sh", "-c", wish)[0] == code


@pytest.mark.parametrize("scheme", ["holdfast", "dflock", "http"])
def test_it_works_over_every_protocol(scheme, urls, key):
    arguments = ("--verbose", key, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    code, out, err = run(urls[scheme], *arguments)
    assert (code, out) == (3, "out\n")
    first, second, third = err.splitlines()
    assert first.startswith(f"holdfast: holding {key} with fence ")
    assert second == "err"
    assert third.startswith(f"holdfast: gave {key} back after ")
    assert run(urls[scheme], "--try", key, "true")[0] == 0


@pytest.mark.parametrize("scheme", ["dflock", "http"])
def test_a_lock_that_is_held_over_another_protocol_is_waited_for(scheme, urls, key, client):
    with client.lock(key):
        code, out, err = run(urls[scheme], "--try", key, "echo", "never")
        assert (code, out) == (75, "")
        assert err.startswith(f"holdfast: {key!r} is taken: ")


def test_waiting_over_another_protocol_has_an_end_too(urls, key, client):
    with client.lock(key):
        code, out, err = run(urls["http"], "--wait", "0.2", key, "echo", "never")
    assert (code, out) == (75, "")
    assert err.startswith(f"holdfast: {key!r} was not to be had: ")


def test_the_server_option_goes_before_the_environment(url, key):
    assert run("holdfast://127.0.0.1:1", "--server", url, key, "true")[0] == 0


# --- the command line ---


@pytest.mark.parametrize(
    "arguments",
    [
        ("--lease", "20", "KEY", "--", "echo", "-n", "--lease"),
        ("KEY", "--lease", "20", "--", "echo", "-n", "--lease"),
        ("--lease", "20", "KEY", "echo", "-n", "--lease"),
        ("KEY", "--lease", "20", "echo", "-n", "--lease"),
        ("--lease", "20", "--", "KEY", "echo", "-n", "--lease"),
        ("--", "KEY", "--", "echo", "-n", "--lease"),
    ],
)
def test_what_is_behind_the_command_belongs_to_the_command(arguments, monkeypatch):
    seen = []
    monkeypatch.setattr(module, "perform", lambda wishes: seen.append(wishes) or 0)
    assert usage(*arguments).exit_code == 0
    assert (seen[0].key, tuple(seen[0].command)) == ("KEY", ("echo", "-n", "--lease"))
    assert seen[0].operation == "echo"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "Missing argument 'KEY'"),
        (("KEY",), "Missing argument 'COMMAND...'"),
        (("KEY", "--"), "Missing argument 'COMMAND...'"),
        (("--nope", "KEY", "true"), "No such option"),
        (("--try", "--wait", "5", "KEY", "true"), "--try does not wait"),
        (("--shared", "--semaphore", "2", "KEY", "true"), "a semaphore has seats"),
        (("--lease", "0.5", "KEY", "true"), "0.5 is not from 1 to 86400 seconds"),
        (("--wait", "soon", "KEY", "true"), "no length of time"),
        (("--semaphore", "0", "KEY", "true"), "--semaphore"),
        (("--on-lost", "shrug", "KEY", "true"), "--on-lost"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(arguments, complaint):
    result = usage(*arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_help_shows_the_dashes_and_tells_of_the_exit_codes():
    told = usage("--help").stdout
    assert "[OPTIONS] KEY -- COMMAND..." in told
    for code in ("75", "76", "69", "127"):
        assert code in told


# --- what cannot be ---


@pytest.mark.parametrize(("program", "code"), [("/nonexistent/tool", 127), ("/etc/passwd", 126)])
def test_what_cannot_be_run_is_told_before_anybody_waits(program, code, url, key, client):
    with client.lock(key):
        assert run(url, key, "--", program)[0] == code


def test_a_program_that_no_kernel_takes_is_told_when_it_is_started(url, key, tmp_path):
    tool = tmp_path / "tool"
    tool.write_bytes(b"\x7fELF, and no more than that")
    tool.chmod(0o755)
    code, _, err = run(url, key, "--", tool)
    assert (code, "tool: Exec format error" in err) == (126, True)
    assert run(url, "--try", key, "true")[0] == 0


def test_without_a_server_nothing_is_run(key):
    code, out, err = run("holdfast://127.0.0.1:1", "--timeout", "0.3", key, "--", "echo", "never")
    assert (code, out) == (69, "")
    assert err.startswith("holdfast: cannot connect to 127.0.0.1:1: ")


# --- waiting ---


def test_somebody_else_has_it(url, key, client):
    with client.lock(key):
        for wishes in (["--try"], ["--wait", "0"], ["--wait", "0.2"]):
            code, out, err = run(url, *wishes, key, "--", "echo", "never")
            assert (code, out) == (75, "")
            assert key in err
            assert run(url, *wishes, "--quiet", key, "--", "echo", "never") == (75, "", "")


def test_a_waiter_is_told_who_has_it_and_how_many_are_ahead(url, key, client):
    held = client.lock(key, operation="import").acquire()
    with Run(url, "--progress", key, "echo", "first") as one:
        told = one.told("waiting for")
        assert f"waiting for {key} for 0.3 s: held by " in told
        assert f"pid {os.getpid()} (import) for " in told
        assert told.endswith(", we are next")
        with Run(url, "--progress", key, "echo", "second") as two:
            assert two.told("waiting for").endswith(", 1 ahead of us")
            held.release()
            assert one.wait()[:2] == (0, "first\n")
            assert two.wait()[:2] == (0, "second\n")


def test_who_gives_up_waiting_leaves_the_queue(url, key, client):
    held = client.lock(key).acquire()
    with Run(url, "--progress", key, "echo", "never") as waiter:
        waiter.told("we are next")
        assert len(client.show(key)["queue"]) == 1
        waiter.interrupt()
        assert waiter.wait()[:2] == (130, "")
    assert not client.show(key)["queue"]
    held.release()


def test_readers_share_and_a_writer_waits(url, key, client):
    with client.lock(key, mode="PR"):
        assert run(url, "--try", "--shared", key, "true")[0] == 0
        assert run(url, "--try", key, "true")[0] == 75


def test_a_semaphore_has_seats(url, key, client):
    with client.semaphore(key, 2):
        assert run(url, "--try", "--semaphore", "2", key, "true")[0] == 0
        with client.semaphore(key, 2):
            assert run(url, "--try", "--semaphore", "2", key, "true")[0] == 75


# --- while it runs, and after ---


def test_it_is_listed_with_its_operation_and_gives_back_at_once(url, key, client):
    with Run(url, "--operation", "nightly", key, "--", "sh", "-c", "echo started; exec sleep 60") as started:
        assert started.line() == "started"
        (holder,) = client.show(key)["holders"]
        assert (holder["operation"], holder["client"], holder["pid"]) == (
            "nightly",
            "holdfast run",
            started.process.pid,
        )
        started.signal(signal.SIGTERM)
        assert started.wait()[0] == 143
    client.lock(key, patience=0).acquire().release()


def test_signals_reach_the_command(url, key):
    with Run(url, key, "sh", "-c", "trap 'exit 9' USR1; echo started; while :; do sleep 0.05; done") as started:
        assert started.line() == "started"
        started.signal(signal.SIGUSR1)
        assert started.wait()[0] == 9


def test_the_lock_is_kept_for_as_long_as_was_wished(url, key, client):
    with Run(url, "--min-hold", "60", "--verbose", key, "echo", "done") as started:
        started.told("keeping the lock for another ")
        assert client.lock(key).try_acquire() is None
        started.signal(signal.SIGTERM)
        assert started.told("gives the lock back early")
        code, out, _ = started.wait()
        assert (code, out) == (0, "done\n")
    client.lock(key, patience=0).acquire().release()


def test_a_short_wish_is_over_by_itself(url, key):
    assert run(url, "--min-hold", "0.3", key, "true")[0] == 0


# --- when it is lost ---


def test_a_lease_that_is_shorter_than_was_wished_for_is_measured_as_it_is():
    lease = module.HeldLease(SimpleNamespace(remaining=10.0), 30_000_000_000)
    assert lease.lease_ns == 10_000_000_000
    assert module.HeldLease(SimpleNamespace(remaining=29.0), 3_000_000_000).lease_ns == 3_000_000_000
    assert module.HeldLease(SimpleNamespace(remaining=0.0), 3_000_000_000).deadline_ns() == 0


def losing(policy, wish, url, key, client):
    """Start a command under a policy, and take the lock away from it."""
    started = Run(url, "--on-lost", policy, f"{key}-{policy}", "--", "sh", "-c", wish)
    assert started.line() == "started"
    client.break_(f"{key}-{policy}", reason="it runs wild")
    return started


def test_what_becomes_of_a_command_whose_lock_is_taken_away_is_a_matter_of_policy(url, key, client, tmp_path):
    deaf = "trap '' TERM; echo started; while :; do sleep 0.05; done"
    polite = "trap 'exit 5' TERM; echo started; while :; do sleep 0.05; done"
    busy = f"echo started; while ! [ -e {tmp_path}/go ]; do sleep 0.05; done"
    with (
        losing("kill", deaf, url, key, client) as killed,
        losing("term", polite, url, key, client) as asked,
        losing("warn", busy, url, key, client) as left,
    ):
        code, _, err = killed.wait()
        assert (code, "the lock is lost" in err) == (76, True)
        assert asked.wait()[0] == 5
        left.told("the lock is lost")
        (tmp_path / "go").touch()
        code, _, err = left.wait()
        assert (code, "the lock was lost before the command had ended" in err) == (0, True)


def test_a_server_that_is_gone_at_the_end_changes_no_exit_code(key, tmp_path):
    with ServerProcess("serve", "--store", "memory:", log=tmp_path / "log") as mortal:
        url = f"holdfast://127.0.0.1:{mortal.port}"
        with Run(
            url, "--timeout", "0.2", key, "--", "sh", "-c", "echo started; read line; exit 3", stdin=-1
        ) as started:
            assert started.line() == "started"
            mortal.kill()
            started.process.stdin.write("go\n")
            code, _, err = started.wait()
    assert (code, "could not be given back yet" in err) == (3, True)
