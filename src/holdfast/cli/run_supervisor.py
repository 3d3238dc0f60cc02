"""`holdfast run` while its command runs: keeps the shared deadline true, passes signals on, and minds the terminal.

It knows a lease by its deadline only. The guardian ends the command in time, and this one where the guardian does not.
"""

import os
import select
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from holdfast.cli import run_kernel as kernel
from holdfast.cli.run_channel import Channel, Message
from holdfast.cli.run_deadline import MILLISECOND, Policy, Rule, SharedDeadline
from holdfast.cli.run_guardian import EXIT_INTERNAL
from holdfast.cli.run_signals import SignalBox, die_of, stop_ourselves
from holdfast.cli.run_terminal import Terminal

SECOND = 1_000 * MILLISECOND
LOOK_NS_MAX = 1_000 * MILLISECOND
# How long we wait for a command that was killed and will not die, before we end without it.
STUBBORN_NS_MAX = 10_000 * MILLISECOND

TERMINAL_STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
SIGNALS_END = 128


class Lease(Protocol):
    """What has to be known of what is held."""

    @property
    def lease_ns(self) -> int:
        """How long it lasts after a renewal."""

    def deadline_ns(self) -> int:
        """Tell until when it is surely ours, on the clock of `run_kernel.now_ns`; 0 when it no longer is."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended."""

    exit_code: int  # as a shell would tell it
    by_signal: int = 0
    by_us: bool = False  # it died of a signal that we sent because of the deadline
    in_front: bool = False  # keys on the terminal reached it through us
    had_terminal: bool = False  # keys reached it, and not us
    detail: str = ""


class Supervisor:
    """Our side of one command."""

    def __init__(
        self,
        guardian: int,
        channel: Channel,
        deadline: SharedDeadline,
        signals: SignalBox,
        *,
        policy: Policy,
        tell: Callable[[str], None],
    ) -> None:
        self._guardian = guardian
        self._channel = channel
        self._deadline = deadline
        self._signals = signals
        self._policy = policy
        self._tell = tell
        self._terminal = Terminal()
        self._child = 0
        self._outcome: Outcome | None = None
        self._lost = False
        self._give_up_at: int | None = None
        self._poll = select.poll()
        self._poll.register(channel.fileno(), select.POLLIN)
        self._poll.register(signals.fileno(), select.POLLIN)

    def run(self, lease: Lease, extra: Mapping[str, str]) -> Outcome:
        """Have the command started with these variables, and return when it has ended."""
        # When the guardian dies, the command becomes our child, and what it has started too.
        kernel.adopt_orphans()
        rule = Rule(lease.lease_ns)
        self._note_deadline(lease)
        self._channel.send(start=dict(extra), lease_ns=lease.lease_ns)
        while self._outcome is None:
            self._poll.poll(self._wait_ms(rule, lease))
            self._note_deadline(lease)
            self._pass_signals_on()
            self._listen(lease)
            self._stand_in(rule, lease)
        self._terminal.take_back(self._child)
        self._terminal.close()
        return self._outcome

    def _wait_ms(self, rule: Rule, lease: Lease) -> int:
        """Say how long to wait for news: whoever renews tells nobody, so that we have to look."""
        look_ns = min(lease.lease_ns // 10, LOOK_NS_MAX)
        left_ns = self._late(rule, lease) - kernel.now_ns()
        return int(look_ns if left_ns <= 0 else min(look_ns, left_ns)) // MILLISECOND + 1

    def _note_deadline(self, lease: Lease) -> None:
        """Let the guardian know until when the lock is ours."""
        deadline = lease.deadline_ns()
        self._deadline.set(deadline)
        if not deadline and not self._lost:
            # It sleeps until the deadline that it knew.
            self._channel.send(look=True)
            self._tell("the lock is lost")
        self._lost = not deadline

    def _pass_signals_on(self) -> None:
        for number in self._signals.taken():
            self._channel.send(signal=number)

    def _stand_in(self, rule: Rule, lease: Lease) -> None:
        """Kill the command ourselves when the guardian should have done so and has not, being stopped, say."""
        late = kernel.now_ns() >= self._late(rule, lease)
        if late and self._policy is Policy.KILL and self._outcome is None and self._kill():
            if self._give_up_at is None:
                self._give_up_at = kernel.now_ns() + STUBBORN_NS_MAX
            elif kernel.now_ns() >= self._give_up_at:
                whom = f"process {self._child}" if self._child else "the command"
                self._outcome = Outcome(EXIT_INTERNAL, detail=f"{whom} was killed and does not die")

    def _late(self, rule: Rule, lease: Lease) -> int:
        """Tell the instant at which the guardian is late."""
        return rule.over_at(lease.deadline_ns()) + rule.early_ns // 2

    def _kill(self) -> bool:
        """Kill the command and all that it has started; tell whether there was anything to kill.

        A guardian that is stopped may not have told yet whom it has started.
        """
        started = kernel.descendants(self._guardian)
        if self._child:
            # Until we are told of its end, nobody has waited for it, and its number is its own.
            _kill(os.killpg, self._child)
        for pid in started:
            _kill(os.kill, pid)
        return bool(self._child or started)

    # --- what the guardian tells ---

    def _listen(self, lease: Lease) -> None:
        messages, there = self._channel.receive()
        for message in messages:
            self._hear(message, lease)
        if not there and self._outcome is None:
            self._outcome = self._orphaned()

    def _hear(self, message: Message, lease: Lease) -> None:
        if "started" in message:
            self._child = message["started"]
        elif "failed" in message:
            self._outcome = Outcome(message["failed"], detail=message["detail"])
        elif "stopped" in message:
            self._follow_stop(message["stopped"], lease)
        elif "warned" in message:
            left_s = max(0, lease.deadline_ns() - kernel.now_ns()) / 1e9
            self._tell(
                f"the lock could not be renewed and ends in {left_s:.1f} s: the command is told to end (SIGTERM)"
            )
        elif "killed" in message:
            self._tell("the lock ends: the command is killed (SIGKILL)")
        elif "left" in message:
            self._tell(f"the command has ended, and what it left running is ended too: {message['left']} processes")
        elif "stubborn" in message:
            self._tell(f"killed, and not dead yet: processes {', '.join(map(str, message['stubborn']))}")
        elif "ended" in message:
            self._outcome = self._ended(message)

    def _ended(self, message: Message) -> Outcome:
        value = message["ended"]
        if not message["by_signal"]:
            return Outcome(value)
        in_front, had_terminal = self._terminal.is_ours(), self._terminal.take_back(self._child)
        return Outcome(SIGNALS_END + value, value, by_us=message["by_us"], in_front=in_front, had_terminal=had_terminal)

    def _orphaned(self) -> Outcome:
        """End the command, which nobody guards any more."""
        if self._child and self._policy is Policy.KILL:
            # The kernel has killed the command itself; its children have become ours.
            for pid in kernel.descendants(os.getpid()):
                _kill(os.kill, pid)
        return Outcome(EXIT_INTERNAL, detail="the guardian of the command has ended, and the command with it")

    # --- job control ---

    def _follow_stop(self, number: int, lease: Lease) -> None:
        """Do what the one who stopped the command expects of us."""
        if number in (signal.SIGTTIN, signal.SIGTTOU) and self._terminal.is_ours():
            # It asks for the terminal, and it is ours to give.
            self._terminal.give(self._child)
        elif number in TERMINAL_STOPS and self._terminal.foreground():
            self._stop_with_it(lease)
        else:
            self._tell(f"the command is stopped ({signal.Signals(number).name}); its lock is kept")
            return
        self._channel.send(signal=signal.SIGCONT)

    def _stop_with_it(self, lease: Lease) -> None:
        """Give the shell its terminal back, and stop, so that it notices; the lease runs on meanwhile."""
        had_terminal = self._terminal.take_back(self._child)
        left_s = max(0, lease.deadline_ns() - kernel.now_ns()) / SECOND
        self._tell(f"stopped, and nobody renews the lock: the command ends in {left_s:.0f} s unless it goes on before")
        stop_ourselves()
        self._note_deadline(lease)
        if had_terminal and self._terminal.is_ours():
            self._terminal.give(self._child)


def leave(outcome: Outcome) -> int:
    """Answer our exit code, unless the command was interrupted at the terminal: then we end as it did."""
    if outcome.by_signal in (signal.SIGINT, signal.SIGQUIT) and (outcome.in_front or outcome.had_terminal):
        # A shell that runs a script goes on with the next line if we only answer a number, or if it was not
        # interrupted itself; it would have been, had the command not had the terminal to itself.
        die_of(outcome.by_signal, with_our_group=outcome.had_terminal)
    return outcome.exit_code


def _kill(how: Callable[[int, int], None], whom: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        how(whom, signal.SIGKILL)
