"""A child of a fork is another process: it has another number, and those who want to know are told."""

from holdfast.client import process
from tests.client.forks import in_child


def test_a_process_keeps_its_number():
    assert process.generation() == process.generation()


def test_a_child_has_another_number_and_its_parent_keeps_its_own():
    before = process.generation()
    assert in_child(process.generation) == str(before + 1)
    assert process.generation() == before


def test_a_grandchild_has_yet_another_number():
    assert in_child(lambda: in_child(process.generation)) == repr(str(process.generation() + 2))


def test_whoever_wants_to_know_is_told_in_the_child_and_there_alone(monkeypatch):
    monkeypatch.setattr(process, "_listeners", [])
    told = []
    process.on_fork(lambda: told.append(("first", process.generation())))
    process.on_fork(lambda: told.append(("second", process.generation())))
    number = process.generation() + 1
    assert in_child(lambda: told) == repr([("first", number), ("second", number)])
    assert told == []
