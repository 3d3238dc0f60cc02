"""The runner in the hand: nothing is done before `step`, one thing at a time, and in order.

What a shelf does with it is tested with the shelf.
"""

from collections.abc import Callable

import pytest

from holdfast.stores.shelf import Outcome
from holdfast.testing.hand_runner import HandRunner


class Diary:
    """Writes down what was done, and what was told of it."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def work(self, name: str) -> Callable[[], Outcome]:
        def work() -> Outcome:
            self.lines.append(f"do {name}")
            return Outcome(fault=name)

        return work

    def done(self, outcome: Outcome) -> None:
        self.lines.append(f"told {outcome.fault}")


def test_nothing_happens_before_a_step() -> None:
    runner, diary = HandRunner(), Diary()
    runner.soon(lambda: diary.lines.append("soon"))
    runner.run(diary.work("one"), diary.done)
    assert diary.lines == []
    assert not runner.idle
    assert runner.step()
    assert diary.lines == ["soon", "do one", "told one"]
    assert runner.idle
    assert not runner.step()


def test_what_is_told_may_ask_for_more() -> None:
    runner, diary = HandRunner(), Diary()

    def done(outcome: Outcome) -> None:
        diary.done(outcome)
        runner.run(diary.work("two"), diary.done)

    runner.run(diary.work("one"), done)
    runner.finish()
    assert diary.lines == ["do one", "told one", "do two", "told two"]


def test_a_second_transaction_while_one_runs_is_a_mistake() -> None:
    runner, diary = HandRunner(), Diary()
    runner.run(diary.work("one"), diary.done)
    with pytest.raises(AssertionError, match="a second transaction"):
        runner.run(diary.work("two"), diary.done)


def test_ahead_the_next_transaction_is_over_before_the_last_is_told_of() -> None:
    runner, diary = HandRunner(ahead=True), Diary()

    def done(outcome: Outcome) -> None:
        runner.run(diary.work("two"), diary.done)
        diary.done(outcome)

    runner.run(diary.work("one"), done)
    assert diary.lines == ["do one"]
    runner.step()
    assert diary.lines == ["do one", "do two", "told one"]
    runner.step()
    assert diary.lines == ["do one", "do two", "told one", "told two"]


def test_closing_finishes_what_runs_and_begins_nothing() -> None:
    runner, diary = HandRunner(), Diary()
    runner.run(diary.work("one"), diary.done)
    runner.soon(lambda: diary.lines.append("soon"))
    runner.close()
    runner.close()
    assert diary.lines == ["do one", "told one"]
    assert runner.idle
