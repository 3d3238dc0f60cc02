"""The guardian of a command: a small process that starts it, watches the deadline, and ends it in time.

It knows no server and no lock, shares no thread, lock or interpreter with those who renew, and waits for none of them.
"""

import gc
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from holdfast.cli import run_kernel as kernel
from holdfast.cli.run_channel import Channel, Message, pair
from holdfast.cli.run_child import NotStarted, start
from holdfast.cli.run_deadline import DANGER_SHARE, MILLISECOND, Policy, Rule, SharedDeadline, Step
from holdfast.errors import SPELLINGS

EXIT_LOST = SPELLINGS["lease_lost"].exit_code
EXIT_INTERNAL = 70
EXIT_OS_ERROR = 71

# What the command leaves running when it ends gets this long to end too.
LEFT_NS = 2_000 * MILLISECOND
# While we wait for the killed to be dead, and when we speak of those who will not die.
SWEEP_NS = 5 * MILLISECOND
SWEEP_SLOW_NS = 100 * MILLISECOND
STUBBORN_NS = 1_000 * MILLISECOND

STOPS_NOBODY = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}


@dataclass(slots=True)
class Orders:
    """What the guardian is told before it is made."""

    command: Sequence[str]
    environ: Mapping[str, str]
    policy: Policy = Policy.KILL
    leave_behind: bool = False
    ignored: Iterable[int] = field(default_factory=frozenset)


class Guardian:
    """The state of the guardian, inside its process."""

    def __init__(self, orders: Orders, channel: Channel, deadline: SharedDeadline, wakeup: int) -> None:
        self._orders = orders
        self._channel = channel
        self._deadline = deadline
        self._wakeup = wakeup
        self._alarm = kernel.Alarm()
        self._poll = select.poll()
        for source in (channel.fileno(), wakeup, self._alarm.fileno()):
            self._poll.register(source, select.POLLIN)
        self._rule = Rule(0)
        self._child = 0
        self._status: os.waitid_result | None = None  # of the child, once it is dead
        self._parent_there = True
        self._warned_for: int | None = None  # the deadline that it has been warned of
        self._sent: int | None = None  # the signal with which we meant to end it
        self._killing_since: int | None = None
        self._left_until: int | None = None  # when those whom the command left behind are killed
        self._spoke_of_stubborn = False
        self._done = False

    def run(self) -> None:
        """Watch until there is nobody to be watched."""
        while not self._done:
            self._sleep()
            self._listen()
            if self._child:
                self._mind_the_clock()
                self._look_after_children()

    def kill_everybody(self) -> None:
        """End the command and all that it has started, as far as we can see them, at once."""
        if self._killing_since is None:
            self._killing_since = kernel.now_ns()
            self._sent = signal.SIGKILL
        self._signal(signal.SIGKILL)

    # --- when to do something ---

    def _sleep(self) -> None:
        self._alarm.set(self._wake_at())
        self._poll.poll()
        self._alarm.hush()
        with suppress(BlockingIOError):
            os.read(self._wakeup, 4096)

    def _wake_at(self) -> int | None:
        """Say when to look at everything again, if nothing wakes us before."""
        if not self._child:
            return None
        now = kernel.now_ns()
        if self._killing_since is not None:
            return now + (SWEEP_NS if now - self._killing_since < STUBBORN_NS else SWEEP_SLOW_NS)
        deadline = self._deadline.get()
        looks = [now + MILLISECOND if deadline is None else self._rule.next_look(now, deadline), self._left_until]
        return min((look for look in looks if look is not None), default=None)

    def _mind_the_clock(self) -> None:
        """Do what the deadline demands."""
        deadline = self._deadline.get()
        if self._killing_since is not None or deadline is None:
            return
        now = kernel.now_ns()
        step = self._rule.step(now, deadline)
        if step is Step.OVER and self._orders.policy is Policy.KILL:
            self._channel.send(killed=True)
            self.kill_everybody()
        elif step is not Step.HELD and self._orders.policy is not Policy.WARN and not self._is_warned(deadline):
            self._warned_for = deadline
            self._warn(left_ns=deadline - now)
        elif self._left_until is not None and now >= self._left_until:
            self.kill_everybody()

    def _is_warned(self, deadline: int) -> bool:
        """Tell whether it knows of this deadline; the same one is told a little differently each time."""
        return self._warned_for is not None and deadline - self._warned_for < self._rule.lease_ns // DANGER_SHARE

    def _warn(self, *, left_ns: int) -> None:
        self._channel.send(warned=left_ns)
        self._sent = signal.SIGTERM
        self._signal(signal.SIGTERM)

    # --- what we are told ---

    def _listen(self) -> None:
        if not self._parent_there:
            return
        messages, self._parent_there = self._channel.receive()
        for message in messages:
            self._obey(message)
        if self._parent_there:
            return
        self._poll.unregister(self._channel.fileno())
        if not self._child:
            self._done = True
        elif self._orders.policy is Policy.WARN:
            _say("holdfast run has ended; nobody renews the lock of the command any more")
        elif self._orders.policy is Policy.TERM:
            _say("holdfast run has ended; its command is told to end")
            self._warn(left_ns=0)
        else:
            _say("holdfast run has ended; its command is killed")
            self.kill_everybody()

    def _obey(self, message: Message) -> None:
        if "start" in message:
            self._start(message["start"], message["lease_ns"])
        elif "signal" in message and self._child and self._status is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child, message["signal"])

    def _start(self, extra: Mapping[str, str], lease_ns: int) -> None:
        self._rule = Rule(lease_ns)
        deadline = self._deadline.get()
        if deadline is not None and self._rule.step(kernel.now_ns(), deadline) is Step.OVER:
            self._channel.send(failed=EXIT_LOST, detail="the lock was lost before the command could be started")
            self._done = True
            return
        try:
            child = start(self._orders.command, {**self._orders.environ, **extra}, self._orders.ignored)
        except NotStarted as error:
            self._channel.send(failed=error.exit_code, detail=error.detail)
            self._done = True
        except OSError as error:
            self._channel.send(failed=EXIT_OS_ERROR, detail=str(error))
            self._done = True
        else:
            self._child = child
            self._channel.send(started=child)
            # Whoever reads what the command writes must not have to wait for us as well.
            _let_go_of_input_and_output()

    # --- whom we watch ---

    def _signal(self, number: int) -> None:
        """Signal the group of the command and, where we can see them, all others who descend from it."""
        # The child has not been waited for, so that neither it nor its group can have become somebody else.
        _send(os.killpg, self._child, number)
        for pid in kernel.descendants(os.getpid()):
            if _group_of(pid) != self._child:
                _send(os.kill, pid, number)

    def _look_after_children(self) -> None:
        if self._status is None:
            self._status = self._look_after_child()
        others = self._others()
        if self._status is not None and (not others or self._leaves_behind()):
            self._end()
        elif self._killing_since is not None:
            self.kill_everybody()
            self._speak_of_the_stubborn(others)
        elif self._status is not None and self._left_until is None:
            self._left_until = kernel.now_ns() + LEFT_NS
            self._channel.send(left=len(others))
            self._signal(signal.SIGTERM)

    def _leaves_behind(self) -> bool:
        return self._orders.leave_behind and self._killing_since is None

    def _look_after_child(self) -> os.waitid_result | None:
        """Tell how it ended, without letting go of its number; pass on that it was stopped."""
        found = os.waitid(os.P_PID, self._child, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        if found is None or found.si_code not in (os.CLD_STOPPED, os.CLD_TRAPPED):
            return found
        with suppress(ChildProcessError):  # it was killed meanwhile, which we hear in a moment
            os.waitid(os.P_PID, self._child, os.WSTOPPED | os.WNOHANG)
        self._channel.send(stopped=found.si_status)
        return None

    def _others(self) -> list[int]:
        """Reap the orphans that came to us and are dead, and list the living descendants besides the child."""
        ours = os.getpid()
        for pid in kernel.children(ours):
            if pid != self._child:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        return [pid for pid in kernel.descendants(ours) if pid != self._child and not kernel.is_dead(pid)]

    def _speak_of_the_stubborn(self, others: list[int]) -> None:
        assert self._killing_since is not None
        if not self._spoke_of_stubborn and kernel.now_ns() - self._killing_since >= STUBBORN_NS:
            self._spoke_of_stubborn = True
            self._channel.send(stubborn=others if self._status is not None else [self._child, *others])

    def _end(self) -> None:
        """Tell how the command ended; only then its number may become somebody else's."""
        assert self._status is not None
        value = self._status.si_status
        by_signal = self._status.si_code != os.CLD_EXITED
        ours = by_signal and value == self._sent
        self._channel.send(ended=value, by_signal=by_signal, by_us=ours)
        os.waitpid(self._child, 0)
        self._done = True


def _send(how: Callable[[int, int], None], whom: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        how(whom, number)
        if number == signal.SIGTERM:
            # Who is stopped does not hear it.
            how(whom, signal.SIGCONT)


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def fork_guardian(orders: Orders, deadline: SharedDeadline) -> tuple[int, Channel]:
    """Make the guardian; must be called before this process has threads. Answers its pid and our end of the line."""
    ours, its = pair()
    pid = os.fork()
    if pid:
        its.close()
        return pid, ours
    code = EXIT_INTERNAL
    try:
        ours.close()
        code = _live(orders, its, deadline)
    finally:
        # No clean-up of the process that we are a copy of may run here.
        os._exit(code)


def _live(orders: Orders, channel: Channel, deadline: SharedDeadline) -> int:
    """Be the guardian; answers the exit code."""
    # A group of our own: keys on the terminal do not reach us. The session stays, or job control would be lost.
    os.setpgid(0, 0)
    kernel.be_called("holdfast-guard")
    kernel.adopt_orphans()
    gc.disable()
    guardian = Guardian(orders, channel, deadline, _signals_as_bytes())
    try:
        guardian.run()
    except Exception:  # noqa: BLE001  # whatever it is: nobody guards the command any more
        traceback.print_exc()
        guardian.kill_everybody()
        return EXIT_INTERNAL
    return 0


def _signals_as_bytes() -> int:
    """Ignore what asks us to end, and make the end of a child readable; answers the descriptor to read."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - STOPS_NOBODY:
        with suppress(OSError):  # the C library keeps some for itself
            signal.signal(number, signal.SIG_IGN)
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def _let_go_of_input_and_output() -> None:
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in (0, 1):
        os.dup2(nothing, number)
    os.close(nothing)


def _say(text: str) -> None:
    with suppress(OSError):  # standard error may have gone with the one who has
        os.write(sys.__stderr__.fileno() if sys.__stderr__ is not None else 2, f"holdfast: {text}\n".encode())
