"""The disk of paper is held to what it promises: nothing lasts before a sync, and a cut leaves pieces in one part.

The journal that is tried on it has tests of its own.
"""

import random

import pytest

from holdfast.testing.disk import PaperDisk, PowerCut, overlay


def test_a_piece_lies_over_what_was_there() -> None:
    assert overlay(b"abcdef", 2, b"XY") == b"abXYef"
    assert overlay(b"", 2, b"XY") == b"\0\0XY"
    assert overlay(b"abc", 9, b"") == b"abc"


def test_a_write_is_read_at_once_and_lasts_after_a_sync() -> None:
    disk = PaperDisk(b"old")
    file = disk.open("paper")
    disk.write(file, 0, b"new")
    assert disk.read(file, 100) == b"new"
    assert disk.durable == b"old"
    disk.sync(file)
    assert disk.durable == b"new"


def test_a_second_opener_is_turned_away_until_the_first_has_closed() -> None:
    disk = PaperDisk()
    file = disk.open("paper")
    with pytest.raises(BlockingIOError):
        disk.open("paper")
    disk.close(file)
    disk.open("paper")


def test_a_refused_write_leaves_as_much_as_it_was_told_to() -> None:
    disk = PaperDisk(b"....")
    disk.refused, disk.torn_bytes = {"write"}, 2
    with pytest.raises(OSError, match="refuses to write"):
        disk.write(7, 0, b"abcd")
    assert disk.content == b"ab.."


def test_the_power_goes_after_as_many_calls_as_were_paid_for() -> None:
    disk = PaperDisk(b"....")
    disk.calls_left = 1
    disk.write(7, 0, b"abcd")
    with pytest.raises(PowerCut):
        disk.sync(7)
    assert disk.durable == b"...."


def test_what_remains_after_a_cut_is_one_of_the_contents_that_may() -> None:
    disk = PaperDisk(b"........")
    disk.write(7, 0, b"abc")
    disk.write(7, 5, b"xyz")
    possible = disk.power_cut()
    dice = random.Random(1)
    seen = {disk.remains(lambda most: dice.randint(0, most)) for _ in range(500)}
    assert seen <= possible
    assert b"........" in seen
    assert b"abc..xyz" in seen
    assert len(seen) > 10
