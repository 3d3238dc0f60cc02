"""`holdfast run`: a command that runs while a lock is held, and no longer.

The order of things stands here; who watches the command is `run_guardian.py`, who minds it `run_supervisor.py`.
"""

import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from holdfast.cli import run_kernel as kernel
from holdfast.cli.calling import Seconds, opened, refusing, scheme_of, server_option, url_of
from holdfast.cli.listing import text as plain
from holdfast.cli.run_child import NotStarted, ignored_signals, look_for
from holdfast.cli.run_deadline import Policy, SharedDeadline
from holdfast.cli.run_guardian import Orders, fork_guardian
from holdfast.cli.run_progress import OUR_NAME, Progress
from holdfast.cli.run_signals import Interrupted, SignalBox
from holdfast.cli.run_supervisor import SIGNALS_END, Outcome, Supervisor, leave
from holdfast.cli.run_terminal import Terminal
from holdfast.client.lease import State
from holdfast.errors import SPELLINGS, Busy, HoldfastError, TimedOut

if TYPE_CHECKING:
    from holdfast.sync import Client, Held, Lock

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
LEASE_S_LEAST = 1.0
TIMEOUT_S_LEAST = 0.1
DAY_S = 86_400.0
LOST_TOO_EARLY = "the lock was lost before the command had ended"
SEATS_MAX = 1_000_000_000


@dataclass(slots=True, kw_only=True)
class Wishes:
    """What was asked for."""

    key: str
    command: Sequence[str]
    server: str | None
    lease_s: float
    patience_s: float | None
    timeout_s: float
    min_hold_s: float = 0.0
    shared: bool = False
    seats: int | None = None
    policy: Policy = Policy.KILL
    leave_behind: bool = False
    verbose: bool = False
    quiet: bool = False
    progress: bool = False
    operation: str = field(default="")


class HeldLease:
    """What is held, as the supervisor wants to know it."""

    def __init__(self, held: "Held", wished_ns: int) -> None:
        self._held = held
        # A server may give less than was wished for, and a third of the wish may be all that there is.
        self.lease_ns = min(wished_ns, int(held.remaining * SECOND))

    def deadline_ns(self) -> int:
        """Tell until when it is surely ours; 0 when it is not."""
        # Read the clock first: what passes in between must not be counted as ours.
        now = kernel.now_ns()
        left_s = self._held.remaining
        return now + int(left_s * SECOND) if left_s > 0 else 0


def run(
    key: str,
    command: tuple[str, ...],
    *,
    server: str | None,
    lease_s: float,
    wait_s: float | None,
    timeout_s: float,
    attempt: bool,
    min_hold_s: float,
    shared: bool,
    seats: int | None,
    on_lost: str,
    leave_behind: bool,
    operation: str | None,
    progress: bool | None,
    verbose: bool,
    quiet: bool,
) -> None:
    """Run a command while holding a lock.

    Waits for the lock KEY, runs COMMAND, and gives the lock back when it has ended. The two dashes may be left out.

    The command finds HOLDFAST_KEY, HOLDFAST_FENCE, HOLDFAST_DEADLINE (seconds on CLOCK_BOOTTIME) and
    HOLDFAST_DEADLINE_AT (the same instant in UTC) in its environment. If the lease cannot be renewed, its process group
    gets SIGTERM when a third of the lease is left, and SIGKILL before anybody else can be given the lock.

    The exit code is that of the command, or 128 and the number of the signal that killed it. 75: the lock was not to be
    had (--try, --wait). 76: the command was ended because the lock was being lost. 69: no server. 127, 126: there is no
    such command, or it cannot be executed.
    """
    if attempt and wait_s is not None:
        raise click.UsageError("--try does not wait: it cannot be combined with --wait")
    if shared and seats is not None:
        raise click.UsageError("a semaphore has seats, and no --shared")
    wishes = Wishes(
        key=key,
        command=command,
        server=server,
        lease_s=lease_s,
        patience_s=0.0 if attempt else wait_s,
        timeout_s=timeout_s,
        min_hold_s=min_hold_s,
        shared=shared,
        seats=seats,
        policy=Policy(on_lost),
        leave_behind=leave_behind,
        verbose=verbose,
        quiet=quiet,
        progress=sys.stderr.isatty() if progress is None else progress,
        operation=operation or os.path.basename(command[0]),
    )
    click.get_current_context().exit(perform(wishes))


def perform(wishes: Wishes) -> int:
    """Do it all; answers the exit code."""
    try:
        look_for(wishes.command[0], os.environ)
    except NotStarted as error:
        say(error.detail)
        return error.exit_code
    return Performance(wishes).go()


def say(told: str) -> None:
    """Tell the person."""
    click.echo(f"holdfast: {plain(told)}", err=True)


class Performance:
    """One run, from the fork of the guardian to the release of the lock."""

    def __init__(self, wishes: Wishes) -> None:
        self._wishes = wishes
        self._ignored = ignored_signals()
        self._deadline = SharedDeadline()
        orders = Orders(wishes.command, dict(os.environ), wishes.policy, wishes.leave_behind, self._ignored)
        # Before anything is loaded that may start a thread: a fork copies only the one that forks.
        self._guardian, self._channel = fork_guardian(orders, self._deadline)

    def go(self) -> int:
        """Wait, run, give back."""
        # What the client has to tell a person, about renewals say, is told as we tell it.
        logging.basicConfig(format="holdfast: %(message)s")
        with SignalBox(self._ignored) as signals:
            try:
                outcome = self._hold(signals)
            except Interrupted as interruption:
                return self._interrupted(interruption.number)
            except HoldfastError as error:
                if not (self._wishes.quiet and isinstance(error, (Busy, TimedOut))):
                    say(f"{self._wishes.key!r} is taken: {error}" if isinstance(error, Busy) else str(error))
                return SPELLINGS[error.code].exit_code
            finally:
                self._dismiss_guardian()
        if outcome.detail:
            say(outcome.detail)
        if outcome.by_us:
            return SPELLINGS["lease_lost"].exit_code
        return leave(outcome)

    def _hold(self, signals: SignalBox) -> Outcome:
        wishes = self._wishes
        with ExitStack() as stack:
            client = stack.enter_context(opened(wishes.server, name=OUR_NAME, timeout_s=wishes.timeout_s))
            lock = lock_of(client, wishes, lambda _held: signals.wake())
            with Progress(wishes.server, wishes.key, "semaphore" if wishes.seats else "lock", shown=wishes.progress):
                held = lock.acquire()
            granted_at = kernel.now_ns()
            signals.keep()
            if wishes.verbose:
                say(f"holding {wishes.key} with fence {held.fence}")
            outcome = self._supervise(held, signals)
            self._wait_out(held, granted_at, signals)
            self._give_back(held, granted_at, signals, outcome)
        return outcome

    def _supervise(self, held: "Held", signals: SignalBox) -> Outcome:
        if scheme_of(url_of(self._wishes.server)) == "dflock":
            # Such a server takes the lock back as soon as our connection is gone. Should we be killed, it lives on
            # until the guardian has ended too, which is after the command.
            self._channel.lend(sockets_of_ours())
        supervisor = Supervisor(
            self._guardian, self._channel, self._deadline, signals, policy=self._wishes.policy, tell=say
        )
        lease = HeldLease(held, int(self._wishes.lease_s * SECOND))
        return supervisor.run(lease, variables(self._wishes.key, held.fence, lease.deadline_ns()))

    def _wait_out(self, held: "Held", granted_at: int, signals: SignalBox) -> None:
        """Keep the lock for as long as was wished, unless it is lost or somebody has had enough of us."""
        left_ns = granted_at + int(self._wishes.min_hold_s * SECOND) - kernel.now_ns()
        if left_ns <= 0:
            return
        if self._wishes.verbose:
            say(f"keeping the lock for another {left_ns / SECOND:.1f} s")
        try:
            signals.interrupt()
            held.lost.wait(left_ns / SECOND)
            signals.keep()
        except Interrupted:
            say("gives the lock back early")

    def _give_back(self, held: "Held", granted_at: int, signals: SignalBox, outcome: Outcome) -> None:
        """Have it served to the next at once, unless that takes too long for somebody's liking."""
        if not held.held and outcome.exit_code == 0:
            say(LOST_TOO_EARLY)
        if held.state is not State.HELD:
            # It cannot be renewed, so that asking to take it back would not be heard either.
            held.abandon()
            return
        try:
            signals.interrupt()
            given_back = held.release()
            signals.keep()
        except Interrupted:
            return  # closing the client tries once more, and does not wait for long
        if not given_back and outcome.exit_code == 0:
            say(LOST_TOO_EARLY)
        elif self._wishes.verbose:
            say(f"gave {self._wishes.key} back after {(kernel.now_ns() - granted_at) / SECOND:.1f} s")

    def _interrupted(self, number: int) -> int:
        terminal = Terminal()
        from_terminal = terminal.is_ours()
        terminal.close()
        return leave(Outcome(SIGNALS_END + number, number, in_front=from_terminal))

    def _dismiss_guardian(self) -> None:
        """Hang up; it ends when nobody is left to be guarded, which is now unless somebody cannot be killed."""
        self._channel.close()


def lock_of(client: "Client", wishes: Wishes, on_lost: Callable[["Held"], None]) -> "Lock":
    """Choose what is to be held."""
    options: dict[str, Any] = {
        "lease": wishes.lease_s,
        "patience": wishes.patience_s,
        "operation": wishes.operation[:256],
        "on_lost": on_lost,
    }
    if wishes.seats is not None:
        return client.semaphore(wishes.key, wishes.seats, **options)
    return client.lock(wishes.key, mode="PR" if wishes.shared else "EX", **options)


def variables(key: str, fence: int, deadline_ns: int) -> dict[str, str]:
    """Tell the command what it works under; the deadline is the one at its start, and moves on with each renewal."""
    at = time.time_ns() + deadline_ns - kernel.now_ns()
    ms = at // MILLISECOND
    utc = datetime.fromtimestamp(ms // 1000, UTC)
    return {
        "HOLDFAST_KEY": key,
        "HOLDFAST_FENCE": str(fence),
        "HOLDFAST_DEADLINE": f"{deadline_ns // SECOND}.{deadline_ns % SECOND // MILLISECOND:03}",
        "HOLDFAST_DEADLINE_AT": f"{utc:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z",
    }


def sockets_of_ours() -> list[int]:
    """List our connections over a network."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError), socket.socket(fileno=os.dup(int(name))) as one:
            if one.family in (socket.AF_INET, socket.AF_INET6) and one.getpeername():
                found.append(int(name))
    return found


# Has a shell complete names of files, as it would without us.
FILES = CompletionItem("", type="file")


class RunCommand(click.Command):
    """A command line of which the rest, from the command on, belongs to somebody else."""

    allow_interspersed_args = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find where our options end: they may stand before the key, and behind it before the command."""
        before, rest = self._split(ctx, args)
        key, behind = rest[:1], rest[1:]
        ours, command = self._split(ctx, behind)
        return super().parse_args(ctx, [*before, *ours, "--", *key, *command])

    def _split(self, ctx: click.Context, args: list[str]) -> tuple[list[str], list[str]]:
        """Take the options off the front, and two dashes behind them."""
        options: list[click.Parameter] = [param for param in self.params if isinstance(param, click.Option)]
        alone = click.Command(self.name, params=options)
        alone.allow_interspersed_args = False
        _, rest, _ = alone.make_parser(ctx).parse_args(list(args))
        taken = args[: len(args) - len(rest)]
        return (taken[:-1] if taken[-1:] == ["--"] else taken), rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Show the two dashes."""
        return ["[OPTIONS]", "KEY", "--", "COMMAND..."]


def command() -> click.Command:
    """Build the click command."""
    params: list[click.Parameter] = [
        click.Argument(["key"]),
        click.Argument(["command"], nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=lambda *_: [FILES]),
        server_option(),
        _seconds("--lease", "lease_s", "30", LEASE_S_LEAST, "How long the lock stays ours when nobody renews it."),
        _seconds("--wait", "wait_s", None, 0.0, "How long to wait for the lock at most. [default: for ever]"),
        click.Option(["--try", "attempt"], is_flag=True, help="Do not wait at all."),
        _seconds("--timeout", "timeout_s", "10", TIMEOUT_S_LEAST, "How long to put up with a server out of reach."),
        _seconds("--min-hold", "min_hold_s", "0", 0.0, "Keep the lock at least this long, for jobs on skewed clocks."),
        click.Option(["--shared"], is_flag=True, help="Hold the lock beside others who share it."),
        click.Option(
            ["--semaphore", "seats"],
            type=click.IntRange(1, SEATS_MAX),
            metavar="N",
            help="Take one seat of a semaphore that has N.",
        ),
        click.Option(
            ["--on-lost"],
            type=click.Choice([policy.value for policy in Policy]),
            default=Policy.KILL.value,
            help="What becomes of the command when the lock is being lost: SIGTERM and SIGKILL, only SIGTERM, nothing.",
        ),
        click.Option(
            ["--leave-behind"], is_flag=True, help="Leave alone what the command leaves running when it ends."
        ),
        click.Option(["--operation"], help="What to be listed as. [default: name of the command]"),
        click.Option(
            ["--progress/--no-progress"], default=None, help="Tell who is in the way. [default: on a terminal]"
        ),
        click.Option(["--verbose", "-v"], is_flag=True, help="Tell of the lock when it comes and goes."),
        click.Option(["--quiet", "-q"], is_flag=True, help="Say nothing of a lock that was not to be had."),
    ]
    return RunCommand(
        "run",
        params=params,
        callback=refusing(run),
        help=run.__doc__,
        context_settings={"max_content_width": 110, "show_default": True},
    )


def _seconds(flag: str, name: str, default: str | None, least: float, about: str) -> click.Option:
    return click.Option([flag, name], type=Seconds(least, DAY_S), default=default, metavar="SECONDS", help=about)
