"""A stage for the supervision of commands: `holdfast run` in a process of its own, with a lease made of paper.

Run as a program it is that process; imported, it is what tests drive it with. No expectation lives here.
"""

import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from holdfast.cli.run_child import ignored_signals
from holdfast.cli.run_deadline import Policy, SharedDeadline
from holdfast.cli.run_guardian import Orders, fork_guardian
from holdfast.cli.run_kernel import now_ns
from holdfast.cli.run_signals import SignalBox
from holdfast.cli.run_supervisor import Supervisor, leave

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
WAIT_S_MAX = 60.0
ROOT = Path(__file__).parents[2]


# What tells which signals a command ignores.
SHOW_IGNORED = ["sh", "-c", "grep SigIgn /proc/$$/status"]


def ignored_in(shown):
    """List the signals in what SHOW_IGNORED prints, but for those of the C library: make has them ignored."""
    mask = int(shown.split()[1], 16)
    return {number for number in signal.valid_signals() if mask >> (number - 1) & 1}


class PaperLease:
    """A lease that is renewed whenever somebody looks, until the folder says otherwise."""

    def __init__(self, lease_ns, folder):
        self.lease_ns = lease_ns
        self._folder = folder
        self._deadline = now_ns() + lease_ns
        self._looks = 0
        self._note()

    def deadline_ns(self):
        if (self._folder / "hang").exists():
            # The interpreter is not to be had for as long as this lasts, signals and all.
            re.match("(a+)+$", "a" * 60 + "b")
        if (self._folder / "lost").exists():
            return 0
        if not (self._folder / "partition").exists():
            self._deadline = now_ns() + self.lease_ns
            self._note()
        # A real one is worked out anew with each look, and never comes out quite the same.
        self._looks += 1
        return self._deadline - self._looks % 2 * MILLISECOND

    def _note(self):
        """Keep the deadline where a test finds it, whatever becomes of us."""
        with (self._folder / "deadline").open("r+b" if (self._folder / "deadline").exists() else "w+b") as file:
            file.write(struct.pack("q", self._deadline))


def perform(folder, lease_ns, policy, leave_behind, command):
    """Be `holdfast run`; answers the exit code."""
    ignored = ignored_signals()
    deadline = SharedDeadline()
    orders = Orders(command, dict(os.environ), Policy(policy), leave_behind, ignored)
    guardian, channel = fork_guardian(orders, deadline)
    (folder / "guardian").write_text(str(guardian))
    with SignalBox(ignored) as signals:
        signals.keep()
        supervisor = Supervisor(
            guardian,
            channel,
            deadline,
            signals,
            policy=Policy(policy),
            tell=lambda text: print(f"told: {text}", file=sys.stderr, flush=True),
        )
        outcome = supervisor.run(PaperLease(lease_ns, folder), {"HOLDFAST_KEY": "paper"})
        channel.close()
        os.waitpid(guardian, 0)
    print(f"outcome: {outcome}", file=sys.stderr, flush=True)
    return leave(outcome)


class Play:
    """One performance, seen from the test."""

    def __init__(self, folder, command, *, lease_s=3.0, policy="kill", leave_behind=False, **popen):
        self.folder = folder
        self._stack = ExitStack()
        order = json.dumps([str(folder), int(lease_s * SECOND), policy, leave_behind, command])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.run_stage", order],
            **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL} | popen),
            cwd=ROOT,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        guardian = self.folder / "guardian"
        if guardian.exists() and guardian.read_text():
            with watched(int(guardian.read_text())) as end:
                end.kill_if_alive()
        self.process.communicate()
        self._stack.close()

    def line(self):
        """Read a line that the command has written."""
        return self.process.stdout.readline().rstrip("\n")

    def watch(self, pid):
        """Look out for the end of a process that is alive now."""
        return self._stack.enter_context(watched(int(pid)))

    @property
    def guardian(self):
        return int((self.folder / "guardian").read_text())

    def deadline(self):
        """Read the last deadline that the holder could rely on."""
        return struct.unpack("q", (self.folder / "deadline").read_bytes())[0]

    def cut(self):
        """No renewal from now on."""
        (self.folder / "partition").touch()

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        """Wait for the end; answers exit code and what was told."""
        out, err = self.process.communicate(timeout=WAIT_S_MAX)
        return self.process.returncode, out, err


class watched:  # noqa: N801  reads as what it is
    """A process whose end is awaited, and never mistaken for that of another with its number."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        try:
            self._fd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            self._fd = -1
        return self

    def __exit__(self, *_):
        if self._fd >= 0:
            os.close(self._fd)

    def ended_at(self):
        """Wait for its end, and tell when that was, on our clock."""
        if self._fd >= 0:
            ready, _, _ = select.select([self._fd], [], [], WAIT_S_MAX)
            assert ready, f"process {self.pid} lives on"
        return now_ns()

    def lives(self):
        return self._fd >= 0 and not select.select([self._fd], [], [], 0)[0]

    def kill_if_alive(self):
        if self.lives():
            signal.pidfd_send_signal(self._fd, signal.SIGCONT)
            signal.pidfd_send_signal(self._fd, signal.SIGKILL)


if __name__ == "__main__":
    where, *wishes = json.loads(sys.argv[1])
    sys.exit(perform(Path(where), *wishes))
