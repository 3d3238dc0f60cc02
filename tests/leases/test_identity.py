"""Which process is which, and which is dead for certain: real processes, and lists of processes that mislead."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.leases.identity import identity_of, is_dead, node_name, process_identity
from tests.client.forks import in_child

WAIT = [sys.executable, "-c", "input()"]


def test_a_process_is_boot_namespaces_pid_and_start():
    boot, _, _, pid, started = process_identity().split(".")
    assert len(boot) == 36
    assert int(pid) == os.getpid()
    assert int(started) > 0
    assert process_identity().isascii()
    assert len(process_identity()) < 255


def test_a_living_process_is_not_dead_and_one_that_has_ended_is():
    with subprocess.Popen(WAIT, stdin=subprocess.PIPE) as process:
        who = identity_of(process.pid)
        assert who
        assert not is_dead(who)
    assert is_dead(who)


def test_a_killed_child_that_nobody_has_asked_for_is_dead():
    with subprocess.Popen(WAIT, stdin=subprocess.PIPE) as process:
        who = identity_of(process.pid)
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(who)


def test_a_stopped_process_is_alive():
    with subprocess.Popen(WAIT, stdin=subprocess.PIPE) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert not is_dead(identity_of(process.pid))
        process.send_signal(signal.SIGCONT)


def test_a_process_whose_first_thread_has_ended_lives_on_in_the_others():
    code = (
        "import ctypes, threading\n"
        "threading.Thread(target=lambda: (print(flush=True), input())).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        stat = Path(f"/proc/{process.pid}/stat")
        limit = time.monotonic() + 30
        while b") Z" not in stat.read_bytes():
            assert time.monotonic() < limit
            os.sched_yield()
        assert not is_dead(identity_of(process.pid))
        process.kill()


def test_the_same_pid_started_at_another_time_is_another_process():
    head, _, started = process_identity().rpartition(".")
    assert is_dead(f"{head}.{int(started) + 1}")


@pytest.mark.parametrize(
    "who",
    [
        "",
        "boot:1",
        "some-other-boot.4026531836.0.1.1",
        "a.b.c",
        "..",
        process_identity().rpartition(".")[0],
        process_identity() + "x",
    ],
)
def test_what_cannot_be_known_is_alive(who):
    assert not is_dead(who)


def test_a_process_in_another_container_is_none_of_ours():
    boot, _, *rest = process_identity().split(".")
    assert not is_dead(".".join([boot, "1", *rest]))


def test_the_processes_of_some_other_container_prove_nothing(tmp_path):
    (tmp_path / "self").symlink_to("1")
    assert identity_of(os.getpid(), proc=tmp_path) == ""
    assert not is_dead(process_identity(), proc=tmp_path)
    assert identity_of(os.getpid(), proc=tmp_path / "none") == ""


def test_a_process_of_another_user_that_is_hidden_is_alive(tmp_path):
    here = tmp_path / "proc"
    (here / "sys/kernel/random").mkdir(parents=True)
    (here / "sys/kernel/random/boot_id").write_bytes(Path("/proc/sys/kernel/random/boot_id").read_bytes())
    (here / "self").symlink_to(str(os.getpid()))
    ns = here / str(os.getpid()) / "ns"
    ns.mkdir(parents=True)
    for kind in ("pid", "time"):
        (ns / kind).symlink_to(os.readlink(f"/proc/self/ns/{kind}"))
    with subprocess.Popen(WAIT, stdin=subprocess.PIPE) as process:
        who = identity_of(process.pid)
        assert not is_dead(who, proc=here)


def test_a_child_of_a_fork_is_another_process():
    mine = process_identity()
    assert in_child(process_identity) != repr(mine)
    assert process_identity() == mine


def test_the_node_has_the_name_that_it_is_given(monkeypatch):
    monkeypatch.setenv("HOLDFAST_NODE", "sf-7")
    assert node_name() == "sf-7"
    monkeypatch.delenv("HOLDFAST_NODE")
    assert node_name() == socket.gethostname()
