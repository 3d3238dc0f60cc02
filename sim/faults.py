"""What breaks: disks that refuse or lose, power cuts, crashes, stops, connections that are torn, a server that sleeps.

One strike at a time; when to strike is decided by the world.
"""

from typing import TYPE_CHECKING

from holdfast.testing.disk import PaperDisk
from sim.files import CUTS, LATE_CUT, SickBackend
from sim.history import Noted
from sim.plan import SECOND

if TYPE_CHECKING:
    from sim.world import World

FILE_CALLS = ({"begin"}, {"load"}, {"keep"}, {"commit"}, {"sync"}, {"sync"}, {"commit", "keep"})
DISK_CALLS = ({"write"}, {"sync"}, {"write", "sync"})


class Faults:
    """The bad luck of one world."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._ends_left = world.plan.restarts

    def strike(self) -> None:
        """Let one thing go wrong, or come right again."""
        dice = self._world.dice
        chance = dice.random()
        if chance < 0.20:
            self._tear_a_connection()
        elif chance < 0.40:
            self._world.sleep(dice.choice((1, SECOND // 2, SECOND, 5 * SECOND)))
        elif self._ends_left and self._files_are_uncertain:
            self._ends_left -= 1
            self._world.crash(dice.choice(("killed", "power cut")))
        elif chance < 0.70:
            self._trouble_disk()
        elif self._ends_left:
            self._ends_left -= 1
            self._end_server()

    @property
    def _files_are_uncertain(self) -> bool:
        """Say whether there is a commit that failed and may be found by the next server: the chance does not last."""
        node = self._world.node
        return node is not None and node.backend is not None and node.backend.is_uncertain

    def _tear_a_connection(self) -> None:
        world = self._world
        if world.links:
            world.dice.choice(world.links).reset()

    def _end_server(self) -> None:
        chance = self._world.dice.random()
        if chance < 0.2:
            self._world.crash("killed")
        elif chance < 0.6:
            self._world.crash("power cut")
        else:
            self._world.stop()

    # --- the disk ---

    @property
    def disk_is_sick(self) -> bool:
        disk = self._world.disk
        return disk is not None and bool(disk.refused)

    def _trouble_disk(self) -> None:
        """Make the disk sick or well, or let the power go at one of its next calls."""
        world, disk = self._world, self._world.disk
        if world.node is not None and world.node.backend is not None:
            self._trouble_files(world.node.backend)
        if disk is None:
            return
        chance = world.dice.random()
        if disk.refused:
            self.heal_disk()
        elif chance < 0.6:
            disk.refused = set(world.dice.choice(DISK_CALLS))
            disk.torn_bytes = world.dice.randint(0, 32)
            world.history.add(Noted, f"the disk refuses to {' and '.join(sorted(disk.refused))}")
        elif self._ends_left:
            self._ends_left -= 1
            disk.calls_left = world.dice.randint(0, 3)
            world.history.add(Noted, f"the power will go after {disk.calls_left} calls of the disk")

    def _trouble_files(self, backend: SickBackend) -> None:
        world = self._world
        chance = world.dice.random()
        if backend.is_sick:
            backend.heal()
            world.history.add(Noted, "the files are well again")
        elif chance < 0.3:
            backend.refuse(world.dice.choice(FILE_CALLS))
            world.history.add(Noted, f"the files refuse to {' and '.join(sorted(backend.refused))}")
        elif chance < 0.5:
            backend.intrude()
            world.history.add(Noted, "another process has the files to itself")
        elif chance < 0.6:
            backend.delay_ns = world.dice.choice((1, SECOND, 3 * SECOND))
        elif self._ends_left:
            self._ends_left -= 1
            backend.cut = world.dice.choice((*CUTS, LATE_CUT))
            world.history.add(Noted, f"the power will go {backend.cut}")

    def restart_files(self, how: str) -> None:
        """The server is gone: what it leaves in its files is what the next one finds."""
        world = self._world
        if world.node is None or world.node.backend is None or how == "stopped":
            return
        assert world.files is not None
        world.files.replace(world.node.backend.remains(lose=how == "power cut"))

    def clean_up(self) -> None:
        """Leave nothing behind in the machine that the simulator runs on."""
        if self._world.node is not None and self._world.node.backend is not None:
            self._world.node.backend.close()
        if self._world.files is not None:
            self._world.files.remove()

    def heal_disk(self) -> None:
        disk = self._world.disk
        if disk is not None and disk.refused:
            disk.refused = set()
            self._world.history.add(Noted, "the disk is well again")

    def restart_disk(self, *, lose: bool) -> None:
        """The machine, or only the server, starts again: without power, what was not synced lasts in parts at best."""
        world, old = self._world, self._world.disk
        if old is None:
            return
        new = PaperDisk(old.durable)
        if lose:
            new.durable = old.remains(lambda most: world.dice.randint(0, most))
        else:
            new.pending = old.pending
        new.refused = old.refused
        new.torn_bytes = old.torn_bytes
        world.disk = new

    def heal(self) -> None:
        """From now on nothing goes wrong any more."""
        self._ends_left = 0
        self._world.eager = True
        self.heal_disk()
        if self._world.node is not None and self._world.node.backend is not None:
            self._world.node.backend.heal()
        if self._world.disk is not None:
            self._world.disk.calls_left = None
