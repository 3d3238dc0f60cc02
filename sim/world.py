"""The world of one seed: it decides, step by step, who acts, what arrives, how time passes and what breaks.

Everything in it follows from the seed. Whether what happened was right is judged afterwards, by `checkers/`.
"""

import random
import traceback
from collections.abc import Callable

from holdfast.errors import FenceFileError
from holdfast.stores.journal import FILE_BYTES, RECORD_BYTES, decode_record
from holdfast.testing.disk import PaperDisk, PowerCut
from holdfast.words import FOREVER
from sim.callers import Caller
from sim.faults import Faults
from sim.files import Files, SickBackend
from sim.history import (
    Cleared,
    Connected,
    Cut,
    Drained,
    History,
    Inspected,
    Lost,
    Minted,
    Noted,
    Performing,
    Raised,
    Slept,
    Started,
    Stopped,
    Swept,
    Taken,
    Ticked,
)
from sim.network import Link
from sim.node import Node
from sim.plan import SECOND, draw, on_file

# How many worlds have a store of transactions.
SHARE_ON_FILE = 1 / 3

WALL_CLOCK = 1_700_000_000 * SECOND
MILLISECOND = SECOND // 1000

# How much time passes at once. Few and round numbers, so that things fall together.
STRIDES = (1, MILLISECOND, SECOND // 4, SECOND // 2, SECOND, SECOND, 2 * SECOND, 5 * SECOND)

# Only with these can anything change that the invariants speak of.
STIRRING = (Taken, Ticked, Lost, Cut, Swept, Drained, Performing)

# A server that wants to be woken this often while time passes has stopped making progress.
TICKS_MAX = 2_000


class World:
    """One server at a time, its callers, and what lies between them."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.plan = draw(self.dice)
        store_dice = random.Random(f"the store of {seed}")
        if store_dice.random() < SHARE_ON_FILE:
            self.plan = on_file(self.plan, store_dice)
        self.history = History(seed)
        self.node: Node | None = None
        self.draining = False
        self.disk = PaperDisk() if self.plan.rules.fence_file else None
        self.links: list[Link] = []
        gossip: list[tuple[bytes, bytes, bytes]] = []
        self.callers = [Caller(self.plan, self.dice, gossip) for _ in range(self.plan.callers)]
        self._faults = Faults(self)
        self._skew = WALL_CLOCK
        self._peers = 0
        self._starts = 0
        self._file_has_served = False
        self.files: Files | None = None
        self.eager = False  # from now on the store does its work at once

    def run(self) -> History:
        """Live from the first start to the last stop, or to the first thing that must never happen."""
        try:
            if self.plan.rules.durable:
                self.files = Files()
            self.start()
            for _ in range(self.plan.steps):
                self._step()
            if self.dice.random() < 0.2:
                self.stop()
            self._finish()
        except Exception:  # noqa: BLE001  whatever the server lets out is what we are looking for
            self.history.add(Raised, traceback.format_exc())
        finally:
            self._faults.clean_up()
        return self.history

    # --- one step ---

    def _step(self) -> None:
        if self.node is not None and self.node.has_work and self.dice.random() < 0.5:
            self._call(self.node.work)
        chance = self.dice.random()
        if chance >= self.plan.haste:
            self._let_time_pass()
            return
        chance /= self.plan.haste
        if chance < 0.4:
            self._ask()
        elif chance < 0.8:
            self._arrive()
        elif chance < 0.96:
            self._listen()
        elif self.links and chance < 0.98:
            self._say_farewells()
        elif self.dice.random() < 0.5:
            self._clean()
        if self.dice.random() < self.plan.trouble:
            self._faults.strike()

    def _ask(self) -> None:
        caller = self.dice.choice(self.callers)
        for _ in range(3):
            if not caller.waits:
                break
            caller = self.dice.choice(self.callers)
        if caller.link is None or caller.link.closing:
            self._connect(caller)
        elif self.dice.random() < self.plan.rudeness:
            caller.leave()
        elif not caller.waits or self.dice.random() < self.plan.pipelining:
            caller.ask()
            if self.dice.random() < self.plan.slowness:
                caller.fall_deaf(self.history.now)

    def _connect(self, caller: Caller) -> None:
        caller.forget()
        link = self.connect()
        if link is not None:
            caller.meet(link)

    def connect(self) -> Link | None:
        """Reach the server, unless there is none, or it takes in nobody any more."""
        node = self.node
        if node is None or self.draining:
            return None
        self._peers += 1
        link = Link(self._peers, self.history)
        self.links.append(link)
        self.call(self._meet, node, link)
        return link if link in self.links else None  # unless the server has died meanwhile

    def _meet(self, node: Node, link: Link) -> None:
        self.history.add(Connected, link.peer)
        link.connect(node.connect(link.peer, lambda: None))

    def _arrive(self) -> None:
        """Let something arrive: mostly all that is on its way, sometimes only a part."""
        ready = [link for link in self.links if link.has_news]
        if not ready:
            return
        link = self.dice.choice(ready)
        count = len(link.on_way)
        if count and self.dice.random() < self.plan.chopping:
            count = self.dice.randint(1, count)
        self.call(link.arrive_some, count)

    def _listen(self) -> None:
        """Let somebody read who has something to read."""
        now = self.history.now
        ready = [caller for caller in self.callers if caller.may_listen(now)]
        if ready:
            self.call(self.dice.choice(ready).listen)

    def _say_farewells(self) -> None:
        """Tell the server of every connection that is over."""
        for link in [link for link in self.links if link.ended]:
            if link in self.links:  # unless the server has died of an earlier one
                self.links.remove(link)
                self.call(link.farewell)

    def _clean(self) -> None:
        if self.node is not None:
            self.call(self.node.sweep_phases if self.dice.random() < 0.5 else self.node.sweep_keys)

    # --- calls into the server ---

    def call(self, act: Callable[..., None], *args: object) -> None:
        """Let the server do one thing, and its store perhaps some of its work behind it."""
        self._call(act, *args)
        self._let_store_work()

    def _let_store_work(self) -> None:
        while (node := self.node) is not None and node.has_work:
            if not self.eager and self.dice.random() >= self.plan.eagerness:
                return
            self._call(node.work)

    def _call(self, act: Callable[..., None], *args: object) -> None:
        """Let one thing happen, and look at the invariants; the power may go in the middle of it."""
        history = self.history
        history.step += 1
        so_far = len(history.events)
        try:
            act(*args)
        except PowerCut:
            self.crash("power cut")
        if self.node is not None and any(type(event) in STIRRING for event in history.events[so_far:]):
            self.node.check()

    # --- time ---

    def _let_time_pass(self) -> None:
        stride = self.dice.choice(STRIDES)
        if self.dice.random() < self.plan.trouble:
            self.sleep(stride)
        else:
            self.pass_time(stride)

    def sleep(self, duration: int) -> None:
        """Let time pass without the server: a machine that swaps, a laptop that was closed."""
        until = self.history.now + duration
        self.history.add(Slept, until)
        self.history.now = until

    def pass_time(self, duration: int) -> None:
        """Let time pass; the server is woken whenever it asked to be."""
        until = self.history.now + duration
        self._say_farewells()
        ticks = 0
        while self.node is not None and (when := self.node.next_tick()) <= until:
            self.history.now = when
            if self.dice.random() < 0.3:
                self._arrive()  # what arrives at the same instant may come before the tick
            self._tick()
            ticks += 1
            if ticks > TICKS_MAX:
                raise RuntimeError("the server wants to be woken again and again")
        self.history.now = max(until, self.history.now)  # a transaction may have had to wait

    def _tick(self) -> None:
        if self.node is not None:
            self.call(self.node.tick)
        self._say_farewells()

    # --- starts and stops ---

    def start(self) -> None:
        """Start a server. Its wall clock may be far from what it was before."""
        if self._starts:
            self._skew += self.dice.choice((0, 1, -1, -50)) * 86_400 * SECOND
        try:
            self.node = Node(
                self.history,
                self.plan.rules,
                skew=self._skew,
                dice=self.dice,
                disk=self.disk,
                fence_range=self.plan.fence_range,
                backend=self._open_files(),
            )
        except PowerCut:
            self.crash("power cut")
        except FenceFileError as error:
            self._cannot_start(error)
        else:
            self._starts += 1
            self._file_has_served = True
            self.draining = False
            self.history.add(Started, self.plan.rules, self.history.now + self._skew)

    def _open_files(self) -> SickBackend | None:
        return None if self.files is None else SickBackend(self.files.path, self.history, self.dice)

    def _cannot_start(self, error: FenceFileError) -> None:
        """A sick disk may keep a server from starting; a healthy one only if the file was cut short while it grew.

        Then the operator does as the manual says, and writes down a number that no fence is above.
        """
        assert self.disk is not None
        self.history.add(Noted, f"no start: {error.detail}")
        if self._faults.disk_is_sick:
            self._faults.heal_disk()
        elif self._grows(self.disk.content):
            self._file_has_served = False
            fences = [event.fence for event in self.history.events if isinstance(event, Minted)]
            self.disk = PaperDisk(max(fences).to_bytes(8, "big") if fences else b"")
        else:
            raise error
        self.start()

    def _grows(self, content: bytes) -> bool:
        """Say whether a fence file may be unusable: before its first start, or with a torn record behind the first."""
        cut_short = RECORD_BYTES < len(content) < FILE_BYTES
        return not self._file_has_served or (cut_short and decode_record(content[:RECORD_BYTES]) is not None)

    def crash(self, how: str) -> None:
        """The server is gone from one instant to the next. What was written and not synced may be lost."""
        self._faults.restart_files(how)
        self.history.add(Stopped, how)
        self.node = None
        for caller in self.callers:
            caller.forget()
        self.links.clear()
        self._faults.restart_disk(lose=how == "power cut")
        self.history.now += self.dice.choice((0, 1, SECOND, 60 * SECOND))
        self.start()

    def drain(self) -> None:
        """Ask the server to finish."""
        if self.node is not None and not self.draining:
            self.draining = True
            self.call(self._drain, self.node)

    def _drain(self, node: Node) -> None:
        self.history.add(Drained)
        node.drain()

    def stop(self) -> None:
        """Stop in good order."""
        self.drain()
        for _ in range(self.dice.randrange(10)):
            self._arrive()
        if self.node is not None:
            self.call(self._clear, self.node)
        self._say_farewells()
        if (node := self.node) is not None:
            self._call(node.close)
            if self.node is node:
                self.crash("stopped")

    def _clear(self, node: Node) -> None:
        self.history.add(Cleared)
        node.door.close()

    # --- the end ---

    def _finish(self) -> None:
        """Let everything come to rest, let everybody leave, and look at what is left."""
        self._faults.heal()
        for _ in range(3):
            self._settle()
            self.pass_time(SECOND)
        for caller in self.callers:
            if caller.link is not None:
                caller.leave()
        self._settle()
        for link in self.links:
            link.reset()
        self._wait_for_silence()
        if not self.draining:
            self._ask_for_stats()
        self._look_inside()

    def _settle(self) -> None:
        """Let everything arrive and be read that is on its way."""
        self._let_store_work()
        for _ in range(10):
            for link in list(self.links):
                while link.has_news:
                    self.call(link.arrive_some, len(link.on_way))
            for caller in self.callers:
                caller.deaf_until = 0
                if caller.may_listen(self.history.now):
                    self.call(caller.listen)
            self._say_farewells()

    def _wait_for_silence(self) -> None:
        self._say_farewells()
        assert self.node is not None
        while (when := self.node.next_tick()) < FOREVER:
            self.pass_time(when - self.history.now)

    def _ask_for_stats(self) -> None:
        """Ask as anybody could: nothing may be held, and nobody may wait."""
        link = self.connect()
        assert link is not None
        token = self.plan.rules.auth_token
        link.on_way += b"" if token is None else b"auth\n_\n%b\n" % token
        link.on_way += b"stats\n_\n_\n"
        self.call(link.arrive_some, len(link.on_way))
        link.reset()
        self._wait_for_silence()

    def _look_inside(self) -> None:
        assert self.node is not None
        self.call(self.node.sweep_phases)
        self.history.now += self.plan.rules.idle_max_ns + 1
        self.call(self.node.sweep_keys)
        self.history.add(Inspected, self.node.leftovers())
