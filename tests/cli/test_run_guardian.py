"""The guardian with real processes: whatever happens to `holdfast run`, the command is dead before the deadline.

The lease is made of paper; the server's part in it is tested with the command.
"""

import signal

import pytest

from holdfast.cli.run_kernel import is_dead, now_ns
from tests.cli.run_stage import SHOW_IGNORED, Play, ignored_in

# Says who it is, ignores whoever asks it to end, and does not end by itself.
DEAF = ["sh", "-c", "trap '' TERM INT HUP; echo $$; while :; do sleep 0.05; done"]
# Says who it is, and ends when asked, with a code of its own.
POLITE = ["sh", "-c", "trap 'exit 7' TERM; echo $$; while :; do sleep 0.05; done"]
# Has a child in a session of its own, whose number it tells behind its own, and a deaf one at that.
WIDE = ["sh", "-c", "echo $$; setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.05; done' & wait; sleep 60"]


@pytest.fixture
def play(tmp_path):
    plays = []

    def start(command, **wishes):
        plays.append(Play(tmp_path, command, **wishes))
        return plays[-1]

    yield start
    for one in plays:
        one.__exit__()


def test_a_command_runs_and_its_exit_code_is_ours(play):
    assert play(["sh", "-c", "echo $HOLDFAST_KEY; exit 3"]).wait()[:2] == (3, "paper\n")


def test_a_command_is_not_even_started_when_the_lock_is_lost_already(play, tmp_path):
    (tmp_path / "lost").touch()
    code, out, err = play(["echo", "started"]).wait()
    assert (code, out) == (76, "")
    assert "the lock was lost before the command could be started" in err


def test_a_lease_that_is_renewed_goes_on_for_longer_than_it_is(play):
    one = play(["sh", "-c", "echo $$; read line; exit 5"], lease_s=1.0, stdin=-1)
    child = one.watch(one.line())
    first = one.deadline()
    while one.deadline() < first + 1_500_000_000:
        assert child.lives()
    one.process.stdin.write("go\n")
    assert one.wait()[0] == 5


def killed_in_time(one, *pids):
    """Look out for these processes; what it answers tells, when all have ended, whether they did so in time."""
    ends = [one.watch(pid) for pid in pids]
    return lambda: all(end.ended_at() < one.deadline() for end in ends)


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_the_command_dies_in_time_when_run_is_stopped_or_killed(number, play):
    one = play(DEAF)
    in_time = killed_in_time(one, one.line())
    one.signal(number)
    assert in_time()


def test_the_command_dies_in_time_when_the_interpreter_of_run_hangs(play):
    one = play(DEAF)
    in_time = killed_in_time(one, one.line())
    (one.folder / "hang").touch()
    assert in_time()
    one.signal(signal.SIGKILL)


def test_the_command_is_asked_first_and_killed_then_when_the_server_is_gone(play):
    one = play(DEAF)
    in_time = killed_in_time(one, one.line())
    one.cut()
    assert in_time()
    code, _, err = one.wait()
    assert code == 128 + signal.SIGKILL
    assert err.index("told to end (SIGTERM)") < err.index("killed (SIGKILL)")
    assert err.count("told to end (SIGTERM)") == 1
    assert "by_us=True" in err


def test_a_command_that_ends_when_asked_has_its_own_exit_code(play):
    one = play(POLITE, policy="term")  # which leaves it all the time that a busy machine needs
    one.line()
    one.cut()
    code, _, err = one.wait()
    assert code == 7
    assert "SIGTERM" in err
    assert "SIGKILL" not in err


def test_a_command_that_is_stopped_hears_that_it_has_to_end(play):
    one = play(POLITE, policy="term")
    child = one.watch(one.line())
    signal.pidfd_send_signal(child._fd, signal.SIGSTOP)
    one.cut()
    assert one.wait()[0] == 7


def test_all_that_descends_from_the_command_dies_in_time(play):
    one = play(WIDE)
    in_time = killed_in_time(one, one.line(), one.line())
    one.signal(signal.SIGSTOP)
    assert in_time()


def test_all_that_descends_from_the_command_dies_when_run_is_killed(play):
    one = play(WIDE)
    in_time = killed_in_time(one, one.line(), one.line())
    one.signal(signal.SIGKILL)
    assert in_time()


def test_a_lost_lock_kills_at_once(play):
    one = play(DEAF, lease_s=60.0)
    child = one.watch(one.line())
    (one.folder / "lost").touch()
    assert child.ended_at() < one.deadline() - 40_000_000_000
    assert "the lock is lost" in one.wait()[2]


def test_run_kills_by_itself_when_the_guardian_is_stopped(play):
    one = play(DEAF)
    in_time = killed_in_time(one, one.line())
    guardian = one.watch(one.guardian)
    signal.pidfd_send_signal(guardian._fd, signal.SIGSTOP)
    one.cut()
    assert in_time()
    signal.pidfd_send_signal(guardian._fd, signal.SIGCONT)
    assert one.wait()[0] == 128 + signal.SIGKILL


def test_the_command_dies_with_its_guardian(play):
    one = play(WIDE)
    in_time = killed_in_time(one, one.line(), one.line())
    signal.pidfd_send_signal(one.watch(one.guardian)._fd, signal.SIGKILL)
    assert in_time()
    code, _, err = one.wait()
    assert code == 70
    assert "guardian" in err


def test_when_both_were_frozen_the_command_dies_first_thing_afterwards(play):
    one = play(DEAF, lease_s=1.0)
    child, guardian = one.watch(one.line()), one.watch(one.guardian)
    signal.pidfd_send_signal(guardian._fd, signal.SIGSTOP)
    one.signal(signal.SIGSTOP)
    while now_ns() < one.deadline():
        assert child.lives()
    signal.pidfd_send_signal(guardian._fd, signal.SIGCONT)
    child.ended_at()
    one.signal(signal.SIGCONT)
    assert one.wait()[0] == 128 + signal.SIGKILL


def listening(name):
    """A command that tells its number and each such signal, until its input ends."""
    return ["bash", "-c", f"trap 'echo got' {name}; echo $$; until read -t 0.05 line; (($? == 1)); do :; done; exit 4"]


def no_more_input(one):
    one.process.stdin.close()
    one.process.stdin = None


def test_policy_term_asks_and_never_kills(play):
    one = play(listening("TERM"), policy="term", stdin=-1)
    child = one.watch(one.line())
    one.cut()
    assert one.line() == "got"
    while now_ns() < one.deadline():
        assert child.lives()
    no_more_input(one)
    assert one.wait()[0] == 4


def test_policy_warn_does_nothing_to_the_command(play):
    one = play(["sh", "-c", "echo $$; read line; exit 4"], policy="warn", lease_s=1.0, stdin=-1)
    child = one.watch(one.line())
    (one.folder / "lost").touch()
    while now_ns() < one.deadline():
        assert child.lives()
    one.process.stdin.write("go\n")
    code, _, err = one.wait()
    assert code == 4
    assert "the lock is lost" in err


def test_policy_term_asks_when_run_is_killed(play):
    one = play(POLITE, policy="term")
    child = one.watch(one.line())
    one.signal(signal.SIGKILL)
    child.ended_at()


def test_what_the_command_leaves_running_is_ended(play):
    one = play(["sh", "-c", "setsid sleep 300 & echo $!"], lease_s=60.0)
    left = one.watch(one.line())
    code, _, err = one.wait()
    assert code == 0
    assert not left.lives()
    assert "what it left running is ended" in err


def test_what_the_command_leaves_running_is_left_on_demand(play):
    one = play(["sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!"], lease_s=60.0, leave_behind=True)
    left = one.watch(one.line())
    assert (one.wait()[0], left.lives()) == (0, True)
    left.kill_if_alive()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH"])
def test_signals_reach_the_command(name, play):
    one = play(listening(name), stdin=-1, lease_s=60.0)
    one.line()
    one.signal(getattr(signal, name))
    assert one.line() == "got"
    no_more_input(one)
    assert one.wait()[0] == 4


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGKILL", "SIGSEGV"])
def test_death_by_a_signal_is_128_and_its_number(name, play):
    assert play(["sh", "-c", f"kill -{name.removeprefix('SIG')} $$"]).wait()[0] == 128 + getattr(signal, name)


@pytest.mark.parametrize(("command", "code"), [(["/nonexistent/x"], 127), (["/etc/passwd"], 126), (["/"], 126)])
def test_what_cannot_be_started_is_what_a_shell_says(command, code, play):
    one = play(command)
    assert one.wait()[0] == code
    assert is_dead(one.guardian)


def test_signals_that_were_ignored_stay_ignored_for_the_command_only_as_they_were(play):
    code, out, _ = play(SHOW_IGNORED).wait()
    assert (code, ignored_in(out)) == (0, set())


def test_nohup_reaches_the_command(play):
    one = play(SHOW_IGNORED, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert ignored_in(one.wait()[1]) == {signal.SIGHUP}
