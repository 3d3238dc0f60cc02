"""Whose turn it is: threads that wait in virtual time, of which one runs at a time, always the same one.

Whoever waits lets time pass until its wait is over, or hands its turn to somebody else whose wait is over. Nothing
about locks or networks is known here.
"""

import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

from holdfast.testing.timeline import Timeline
from holdfast.words import FOREVER, SECOND

# For how much virtual time clients may wait while the test does nothing: renewals alone keep a world busy for ever.
WAIT_NS_MAX: Final = 86_400 * SECOND
# For how much real time a thread may keep the turn: it blocks outside of virtual time, or it computes.
REAL_WAIT_S_MAX: Final = 30.0
SHOWN_MAX: Final = 20
# How much may happen at one instant before it counts as going round in circles.
STEPS_MAX: Final = 1_000_000


class Stuck(Exception):
    """Nothing can happen any more, or nothing that matters, and somebody waits."""


class WorldClosed(BaseException):
    """The world is over: whoever still waits in it is sent home."""


class Waiter(Protocol):
    """On whose behalf somebody waits: a program, which may stand still or be killed."""

    @property
    def name(self) -> str: ...

    @property
    def stands_still(self) -> bool: ...

    @property
    def is_dead(self) -> bool: ...

    def must_live(self) -> None:
        """Raise if it is dead."""


class Wait:
    """One thing that a thread waits for."""

    __slots__ = ("last", "ready", "since", "told", "until", "what", "who")

    def __init__(
        self,
        ready: Callable[[], bool],
        until: int,
        what: str,
        who: Waiter | None,
        since: int,
        *,
        told: bool = False,
        last: bool = False,
    ) -> None:
        self.ready = ready
        self.until = until
        self.what = what
        self.who = who
        self.since = since
        self.told = told  # the test itself has said for how long
        self.last = last  # whoever else can go on goes first

    @property
    def is_idle(self) -> bool:
        """Whether it is on behalf of a program that stands still, and so cannot end."""
        return self.who is not None and self.who.stands_still

    def is_over(self, now: int) -> bool:
        if self.who is not None and (self.who.stands_still or self.who.is_dead):
            return self.who.is_dead
        return now >= self.until or self.ready()

    def describe(self, now: int) -> str:
        name = "the test" if self.who is None else f"client {self.who.name!r}"
        still = ", but stands still" if self.is_idle else ""
        return f"{name} waits {self.what}, for {(now - self.since) / SECOND:g} s so far{still}"


class Task:
    """A function in a thread of its own, which runs when it is its turn."""

    def __init__(self, turns: "Turns", name: str, act: Callable[[], Any], *, daemon: bool = False) -> None:
        self.name = name
        self.daemon = daemon  # nobody minds if it waits for ever
        self.done = False
        self.error: BaseException | None = None
        self.waits: list[Wait] = []  # the last one is what it waits for; those before it wait for that one to end
        self.baton = threading.Semaphore(0)
        self.stuck: Stuck | None = None
        self._turns = turns
        self._act = act
        self._result: Any = None
        self.thread: threading.Thread | None = None

    def run(self) -> None:
        """Be the thread: wait for the first turn, act, and hand the turn on."""
        self.baton.acquire()
        try:
            if not self._turns.closed:
                self._result = self._act()
        except WorldClosed:
            pass
        except BaseException as error:  # noqa: BLE001  whoever joins gets it
            self.error = error
        self.done = True
        self._turns.leave(self)

    def join(self, seconds: float | None = None) -> Any:
        """Wait in virtual time until it is done; answer its result, or raise what it raised."""
        turns = self._turns
        until = FOREVER if seconds is None else turns.timeline.now + round(seconds * SECOND)
        if not turns.wait(lambda: self.done, until, f"for {self.name!r} to end", told=seconds is not None):
            raise TimeoutError(f"{self.name!r} has not ended in {seconds:g} s of virtual time")
        if self.error is not None:
            raise self.error
        return self._result


class Turns:
    """The threads of a world: the one that made it, and its tasks."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.closed = False
        self.wait_ns_max = WAIT_NS_MAX
        self.steps_max = STEPS_MAX
        self._idle_since = timeline.now  # when the test last did something
        self._steps_now = 0  # how much has happened at this instant
        self._main = Task(self, "main", lambda: None)
        self._main.thread = threading.current_thread()
        self._tasks = [self._main]
        self._turn = self._main  # who runs now

    def spawn(self, act: Callable[[], Any], name: str, *, daemon: bool = False) -> Task:
        """Have a function called in a thread of its own, as soon as the others wait."""
        task = Task(self, name, act, daemon=daemon)
        self._tasks.append(task)
        task.waits.append(Wait(lambda: True, FOREVER, "for its first turn", None, self.timeline.now))
        task.thread = threading.Thread(target=task.run, name=name, daemon=True)
        task.thread.start()
        return task

    def must_have_turn(self) -> Task:
        """Answer whose turn it is; refuse a thread that is not of this world."""
        if self._turn.thread is not threading.current_thread():
            raise RuntimeError(
                f"thread {threading.current_thread().name!r} is not of this world, and would make what happens depend "
                f"on real time; start it with world.spawn(function)"
            )
        if self.closed:
            raise RuntimeError("this world is over") if self._turn is self._main else WorldClosed("this world is over")
        return self._turn

    def wait(
        self,
        ready: Callable[[], bool],
        until: int,
        what: str,
        who: Waiter | None = None,
        *,
        told: bool = False,
        last: bool = False,
    ) -> bool:
        """Block the calling thread, while time passes, until something is so, or until an instant; say whether it is.

        Raises Stuck when that can never be.
        """
        task = self.must_have_turn()
        wait = Wait(ready, until, what, who, self.timeline.now, told=told, last=last)
        task.waits.append(wait)
        try:
            self._drive(task, wait)
        finally:
            task.waits.remove(wait)
            if told:
                self._idle_since = self.timeline.now
        if who is not None:
            who.must_live()
        return ready()

    def _drive(self, task: Task, wait: Wait) -> None:
        while True:
            over = self._whose_wait_is_over()
            if over is task:
                return
            if over is not None:
                self._hand_over(over, task)
                continue
            stuck = self._pass_time()
            if stuck is not None:
                if task is not self._main and self._main.waits:
                    self._main.stuck = stuck  # whoever made the world hears of it first
                    self._hand_over(self._main, task)
                else:
                    raise stuck

    def _whose_wait_is_over(self) -> Task | None:
        now = self.timeline.now
        last = None
        for task in self._tasks:
            if task.waits and task.waits[-1].is_over(now):
                if not task.waits[-1].last:
                    return task
                last = last or task
        return last

    def _pass_time(self) -> Stuck | None:
        """Let the next thing happen, or say that nothing can that would end a wait."""
        timeline = self.timeline
        tops = [task.waits[-1] for task in self._tasks if task.waits]
        until = min((wait.until for wait in tops if not wait.is_idle), default=FOREVER)
        then = timeline.next_at()
        if then >= FOREVER and until >= FOREVER:
            return Stuck(self._describe("nothing can happen any more"))
        if min(then, until) - self._idle_since > self.wait_ns_max and not any(wait.told for wait in self._main.waits):
            span = self.wait_ns_max / SECOND
            return Stuck(self._describe(f"nothing that ends a wait has happened for {span:g} s"))
        if then <= until:
            self._steps_now = self._steps_now + 1 if then <= timeline.now else 0
            if self._steps_now > self.steps_max:
                return Stuck(self._describe(f"{self.steps_max} things have happened at one instant"))
            timeline.step()
        else:
            timeline.advance_to(until)
        return None

    def _describe(self, why: str) -> str:
        now = self.timeline.now
        tasks = [task for task in self._tasks if not task.daemon]
        waits = [f"{task.name}: {wait.describe(now)}" for task in tasks for wait in task.waits]
        return "\n  ".join([why, *waits[:SHOWN_MAX]])

    # --- handing over ---

    def _hand_over(self, task: Task, mine: Task) -> None:
        """Let another thread go on, and wait until it is our turn again."""
        self._turn = task
        task.baton.release()
        if not mine.baton.acquire(timeout=REAL_WAIT_S_MAX):
            raise RuntimeError(
                f"{self._turn.name!r} has kept its turn for {REAL_WAIT_S_MAX:g} s of real time: does it block "
                f"outside of virtual time? Use world.sleep() and world.wait() in it"
            )
        if mine.stuck is not None:
            stuck, mine.stuck = mine.stuck, None
            raise stuck
        if self.closed and mine is not self._main:
            raise WorldClosed("this world is over")

    def leave(self, task: Task) -> None:
        """A task has ended: hand its turn on to whoever can go on."""
        self._tasks.remove(task)
        if self.closed:
            self._turn = self._main
            self._main.baton.release()
            return
        while (over := self._whose_wait_is_over()) is None:
            stuck = self._pass_time()
            if stuck is not None:
                over = self._main
                over.stuck = stuck
                break
        self._turn = over
        over.baton.release()

    def close(self) -> None:
        """Send home all who still wait."""
        if self._turn is not self._main or threading.current_thread() is not self._main.thread:
            raise RuntimeError("a world is closed by the thread that made it")
        self.closed = True
        for task in self._tasks[1:]:
            self._turn = task
            task.baton.release()
            if not self._main.baton.acquire(timeout=REAL_WAIT_S_MAX):
                raise RuntimeError(f"{task.name!r} does not end")
