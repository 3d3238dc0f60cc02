"""Random commands, time and trouble on a table, under the eyes of a ledger and of all invariants.

The machine is in machine.py; here it runs as it is, and with the agenda of crowded keys always in use.
"""

from hypothesis import settings

from holdfast.engine import deadline
from tests.engine.machine import Machine

EFFORT = settings(max_examples=100, stateful_step_count=60, deadline=None)


class Crowded(Machine):
    """The same with a crowd of nobody: every key keeps an agenda as soon as anything can run out."""

    def __init__(self) -> None:
        super().__init__()
        self.crowd, deadline.CROWD = deadline.CROWD, -1  # type: ignore[misc]

    def teardown(self) -> None:
        deadline.CROWD = self.crowd  # type: ignore[misc]


TestMachine = Machine.TestCase
TestMachine.settings = EFFORT

TestCrowdedMachine = Crowded.TestCase
TestCrowdedMachine.settings = EFFORT
