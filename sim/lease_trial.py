"""One lease trial: a plan is carried out in a world of virtual time, under the eyes of a monitor, and judged.

What the world is like is decided in `lease_plan.py`, what must not be in `lease_monitor.py`.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from holdfast.testing.checkers import Finding
from holdfast.testing.history import Record
from holdfast.testing.program import Killed, Program
from holdfast.testing.turns import Stuck, Task
from holdfast.testing.world import World
from holdfast.words import FOREVER, Reason
from sim.lease_holder import Holder, Scene, drive
from sim.lease_monitor import Monitor
from sim.lease_plan import SECOND, Fault, Plan, draw

if TYPE_CHECKING:
    from holdfast import aio

# When nothing goes wrong any more, everybody is done after so many leases, and nothing is held after so many more.
END_LEASES_MAX = 100
LEFT_LEASES_MAX = 3
STEPS_MAX = 20_000  # at one instant
# What is over at once has no span; answers are lost when they come, however late that is.
BRIEF = {"reset": 0, "half a reset": 0, "broken": 0, "client killed": 0, "wall clock": 0, "lost answers": FOREVER}
SHOWN_RECORDS = 12


@dataclass(slots=True)
class Outcome:
    """What came of one trial."""

    plan: Plan
    history: list[Record] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def report(self) -> str:
        """Tell it so that it can be replayed."""
        plan = self.plan
        faults = ", ".join(f"{fault.kind} at {fault.after_ns / SECOND:g} s" for fault in plan.faults) or "no faults"
        lines = [f"lease trial {plan.seed}: {plan.store} store, {len(plan.wants)} clients, {faults}"]
        if self.findings:
            lines += [f"  {record}" for record in self.history[-SHOWN_RECORDS:]]
        lines += [f"  {finding}" for finding in self.findings] or ["  no findings"]
        return "\n".join(lines)


def run(seed: int) -> Outcome:
    """Live through one trial, and judge it."""
    plan = draw(seed)
    with World(seed, store=plan.store, session_grace_ns=plan.grace_ns) as world:
        return Trial(plan, world).run()


class Trial:
    """The clients of one world, what they do, and what goes wrong around them."""

    def __init__(self, plan: Plan, world: World) -> None:
        self.plan = plan
        self.world = world
        self.monitor = Monitor(world)
        self.scene = Scene(self.monitor, random.Random(f"lease trial {plan.seed}"))
        self._programs: list[Program] = []
        self._holders: list[Holder] = []
        self._tasks: list[Task] = []

    def run(self) -> Outcome:
        """Play it, from the first connection to the last lease."""
        plan, world = self.plan, self.world
        world.server.drift(plan.server_ppm)
        if plan.is_slow:
            self.monitor.trouble(FOREVER)
        world.server.commit_ns = lambda: self.scene.dice.randint(*plan.commit_ns)
        for number in range(len(plan.wants)):
            self._add_client(number)
        for fault in plan.faults:
            world.timeline.after(fault.after_ns, partial(self._begin, fault))
        world.turns.steps_max = STEPS_MAX
        try:
            world.clock.step(plan.run_ns / SECOND)
            self._finish()
        except Stuck as stuck:
            self.monitor.find("everybody_ends", str(stuck))
        self.scene.counts["lost"] = sum(not tracked.released for tracked in self.monitor.tracked)
        findings = self.monitor.close()
        return Outcome(plan, self.monitor.history, findings, self.scene.counts)

    def _add_client(self, number: int) -> None:
        plan, name = self.plan, f"client-{number}"
        program = self.world.program(name)
        program.drift(plan.ppm[number])
        program.route.delay_ns = self._delay
        holder = Holder(self.scene, program, plan.faces[number])
        self._programs.append(program)
        self._holders.append(holder)
        if plan.faces[number] == "loop":
            self._tasks.append(self.world.spawn(self._live_in_loop, holder, number, name=f"loop of {name}"))
            return
        client = self.world.connect(name)
        for place, want in enumerate(plan.wants[number]):
            work = partial(holder.work, client, want)
            self._tasks.append(self.world.spawn(lambda work=work: drive(work()), name=f"worker {number}.{place}"))

    def _live_in_loop(self, holder: Holder, number: int) -> None:
        async def main(client: "aio.Client") -> None:
            await asyncio.gather(*(holder.work(client, want) for want in self.plan.wants[number]))

        with suppress(Killed):
            self.world.run(main, f"client-{number}")

    def _delay(self) -> int:
        return self.scene.dice.randint(*self.plan.delay_ns)

    # --- what goes wrong ---

    def _begin(self, fault: Fault) -> None:
        self.scene.counts[fault.kind] += 1
        end = FAULTS[fault.kind](self, fault, self._programs[fault.who])
        if fault.kind != "hang":  # which costs nobody a lease
            self.monitor.trouble(BRIEF.get(fault.kind, fault.span_ns))
        if end is not None:
            self.world.timeline.after(fault.span_ns, end)

    def _freeze(self, _fault: Fault, program: Program) -> Callable[[], None]:
        program.freeze()
        return program.thaw

    def _hang(self, fault: Fault, _program: Program) -> None:
        self._holders[fault.who].hang_ns = fault.span_ns

    def _partition(self, fault: Fault, program: Program) -> Callable[[], None]:
        program.route.partition(up=fault.kind != "partition down", down=fault.kind != "partition up")
        return program.route.heal

    def _kill_server(self, _fault: Fault, _program: Program) -> Callable[[], None]:
        server = self.world.server
        # Without a file it forgets what it held, and so it does where its clock was set forward meanwhile.
        self.monitor.forgives = self.monitor.forgives or server.store == "memory" or server.wall_clock_steps_ns > 0
        server.kill()
        return server.start

    def _pause_server(self, _fault: Fault, _program: Program) -> Callable[[], None]:
        self.world.server.pause()
        return self.world.server.resume

    def _reset(self, _fault: Fault, program: Program) -> None:
        program.route.reset()

    def _half_reset(self, fault: Fault, program: Program) -> None:
        """One end hears of it, and the other one does not."""
        program.route.reset(client=fault.count == 1, server=fault.count > 1)

    def _lose_answers(self, fault: Fault, program: Program) -> None:
        program.route.drop_answers(fault.count)

    def _step_wall_clock(self, fault: Fault, _program: Program) -> None:
        server, forward = self.world.server, fault.count > 1
        server.step_wall_clock(fault.span_ns if forward else -fault.span_ns)
        self.monitor.forgives = self.monitor.forgives or (forward and not server.alive)

    def _slow_link(self, fault: Fault, program: Program) -> Callable[[], None]:
        program.route.delay_ns = lambda: fault.span_ns // 4

        def end() -> None:
            program.route.delay_ns = self._delay

        return end

    def _kill_client(self, _fault: Fault, program: Program) -> None:
        program.kill()

    def _break(self, fault: Fault, _program: Program) -> None:
        holdings = list(self.world.server.holdings())
        if holdings:
            holding = holdings[fault.count % len(holdings)]
            self.monitor.broken(holding.claim.token)
            self.world.server.end(holding, Reason.BROKEN)

    # --- the end ---

    def _finish(self) -> None:
        """Let everything go right again, and everybody come to an end."""
        world, monitor = self.world, self.monitor
        self.scene.over = True
        lease_s = max(want.lease_ns for wants in self.plan.wants for want in wants) / SECOND
        # What began late is over after its own span.
        world.clock.step(max((fault.span_ns for fault in self.plan.faults), default=0) / SECOND)
        if not world.wait(lambda: all(task.done for task in self._tasks), END_LEASES_MAX * lease_s):
            left = ", ".join(task.name for task in self._tasks if not task.done)
            monitor.find("everybody_ends", f"nothing goes wrong any more, and these still wait: {left}")
        for task in self._tasks:
            if task.error is not None:
                monitor.find("everybody_ends", f"{task.name} failed: {task.error!r}")
        world.clock.step(LEFT_LEASES_MAX * lease_s)
        for key in sorted({holding.key for holding in world.server.holdings()}):
            monitor.find("nothing_left", f"{key.decode()} is held at the end, and by nobody")


FAULTS: dict[str, Callable[[Trial, Fault, Program], Callable[[], None] | None]] = {
    "freeze": Trial._freeze,
    "hang": Trial._hang,
    "partition": Trial._partition,
    "partition up": Trial._partition,
    "partition down": Trial._partition,
    "server killed": Trial._kill_server,
    "server paused": Trial._pause_server,
    "reset": Trial._reset,
    "half a reset": Trial._half_reset,
    "lost answers": Trial._lose_answers,
    "wall clock": Trial._step_wall_clock,
    "slow link": Trial._slow_link,
    "client killed": Trial._kill_client,
    "broken": Trial._break,
}
