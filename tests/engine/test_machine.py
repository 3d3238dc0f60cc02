"""Random commands, time and trouble on a table, under the eyes of a ledger and of all invariants.

The machine is in machine.py; here it runs as it is, and among so many bystanders that every key keeps an agenda.
"""

from hypothesis import settings

from holdfast.engine.deadline import CROWD
from holdfast.words import Answer
from tests.engine.kit import bystander
from tests.engine.machine import LIMITS, Machine


class Crowded(Machine):
    """The same in a crowd. It keeps every key in use, so that nothing is ever swept."""

    def __init__(self) -> None:
        super().__init__()
        for number in range(len(LIMITS) * (CROWD + 1)):
            key = list(LIMITS)[number % len(LIMITS)]
            c = bystander(key, LIMITS[key], number)
            assert self.table.enqueue(c, self.now, []) is Answer.GRANTED


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)

TestCrowdedMachine = Crowded.TestCase
TestCrowdedMachine.settings = settings(max_examples=25, stateful_step_count=60, deadline=None)
