"""The rule that says when a command is warned and when it has to be dead, and the deadline that processes share.

Who does it is tested with the guardian.
"""

import os

import pytest

from holdfast.cli.run_deadline import EARLY_NS_MAX, FOREVER, Rule, SharedDeadline, Step

SECOND = 1_000_000_000


def test_a_deadline_is_seen_by_a_forked_process_also_when_it_moves_later():
    deadline = SharedDeadline(5)
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0 if deadline.get() == 77 else 1)
    deadline.set(77)
    os.close(writer)
    os.close(reader)
    assert os.waitpid(pid, 0)[1] == 0
    deadline.close()


@pytest.mark.parametrize("instant", [0, 1, 123 * SECOND, FOREVER])
def test_what_was_set_is_read(instant):
    assert SharedDeadline(instant).get() == instant


class Words:
    """Memory whose writer is stopped after so many words."""

    def __init__(self, words, left):
        self.words, self.left = words, left

    def __getitem__(self, at):
        return self.words[at]

    def __setitem__(self, at, word):
        if self.left:
            self.words[at] = word
        self.left = max(0, self.left - 1)


@pytest.mark.parametrize("written", [0, 1, 2, 3])
def test_whoever_is_stopped_while_it_moves_a_deadline_leaves_one_that_is_whole(written):
    deadline = SharedDeadline(5)
    deadline.set(6)
    memory = deadline._words
    deadline._words = Words(memory, written)
    deadline.set(7)
    deadline._words = memory
    assert deadline.get() == (7 if written == 3 else 6)


def test_a_half_written_deadline_is_none():
    deadline = SharedDeadline(5)
    deadline._words[1 + 2 * deadline._words[0]] = 6
    assert deadline.get() is None
    deadline.set(7)
    assert deadline.get() == 7


@pytest.mark.parametrize(("lease_ns", "early_ns"), [(SECOND, SECOND // 10), (30 * SECOND, EARLY_NS_MAX), (0, 0)])
def test_it_is_over_before_the_deadline(lease_ns, early_ns):
    rule = Rule(lease_ns)
    assert rule.over_at(100 * SECOND) == 100 * SECOND - early_ns
    assert rule.danger_at(100 * SECOND) <= rule.over_at(100 * SECOND)


def test_held_then_danger_then_over():
    rule = Rule(30 * SECOND)
    steps = [rule.step(now, 30 * SECOND) for now in (0, 20 * SECOND - 1, 20 * SECOND, 30 * SECOND - EARLY_NS_MAX)]
    assert steps == [Step.HELD, Step.HELD, Step.DANGER, Step.OVER]
    assert rule.step(SECOND, 0) is Step.OVER


def test_the_next_look_is_when_the_answer_changes():
    rule = Rule(30 * SECOND)
    now, seen = 0, []
    while (after := rule.next_look(now, 30 * SECOND)) is not None:
        assert rule.step(after - 1, 30 * SECOND) is rule.step(now, 30 * SECOND)
        now = after
        seen.append(rule.step(now, 30 * SECOND))
    assert seen == [Step.DANGER, Step.OVER]
