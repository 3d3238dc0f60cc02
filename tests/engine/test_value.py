"""The value block: who writes it, when it is trusted, and what a reader finds. S numbers are statements of the design.

How big a block a protocol can carry is tested where the protocol is.
"""

import pytest

from holdfast.engine.value import leave, writes
from holdfast.words import CR, EX, PR, PW, VALUE_BYTES_MAX, Mode, Reason, covers
from tests.engine.kit import Scene

# The directions of S33, for the cells in which one keeps out no more than before: W leaves the value behind.
WAYS_DOWN = {
    ("PW", "NL"): "W",
    ("PW", "CR"): "W",
    ("PW", "CW"): "W",
    ("PW", "PR"): "W",
    ("PW", "PW"): "W",
    ("EX", "NL"): "W",
    ("EX", "CR"): "W",
    ("EX", "CW"): "W",
    ("EX", "PR"): "W",
    ("EX", "PW"): "W",
    ("EX", "EX"): "W",
}
ALL = list(Mode)


def test_s32_a_block_has_room_for_64_bytes_and_no_more() -> None:
    scene = Scene()
    scene.ask("a")
    leave(scene.key, b"v" * VALUE_BYTES_MAX)
    assert VALUE_BYTES_MAX == 64
    with pytest.raises(AssertionError):
        leave(scene.key, b"v" * 65)


@pytest.mark.parametrize("old", ALL, ids=lambda mode: mode.name)
@pytest.mark.parametrize("new", ALL, ids=lambda mode: mode.name)
def test_s33_a_conversion_writes_the_block_just_where_the_table_says_so(old: Mode, new: Mode) -> None:
    assert writes(old, new) is ((old.name, new.name) in WAYS_DOWN)
    scene = Scene()
    scene.ask("a", old)
    scene.convert("a", new, value=b"new")
    assert scene.key.value == (b"new" if (old.name, new.name) in WAYS_DOWN else None)


def test_s33_only_a_way_down_writes_so_that_nothing_is_written_by_a_conversion_that_has_to_wait() -> None:
    assert all(covers(old, new) for old in ALL for new in ALL if writes(old, new))


def test_s33_a_conversion_without_a_value_leaves_the_block_alone() -> None:
    scene = Scene()
    scene.ask("a", EX)
    scene.convert("a", EX, value=b"old")
    scene.convert("a", PR)
    assert (scene.key.value, scene.key.value_seq) == (b"old", 1)


@pytest.mark.parametrize("mode", ALL, ids=lambda mode: mode.name)
def test_s34_an_unlock_writes_from_the_two_writing_modes_only(mode: Mode) -> None:
    scene = Scene()
    scene.ask("a", mode)
    scene.end("a", value=b"new")
    assert scene.key.value == (b"new" if mode in (PW, EX) else None)


def test_s34_each_write_counts() -> None:
    scene = Scene()
    for number in range(3):
        scene.ask("a", EX)
        scene.end("a", value=b"%d" % number)
    assert (scene.key.value, scene.key.value_seq) == (b"2", 3)


def test_s34_a_write_makes_a_doubtful_block_valid_again() -> None:
    scene = Scene()
    scene.ask("a", EX, lease=30)
    scene.convert("a", EX, value=b"old")
    scene.after(30)
    assert not scene.key.value_valid
    scene.ask("b", PW)
    scene.end("b", value=b"new")
    assert (scene.key.value, scene.key.value_valid) == (b"new", True)


@pytest.mark.parametrize("mode", ALL, ids=lambda mode: mode.name)
@pytest.mark.parametrize("reason", [Reason.EXPIRED, Reason.LAPSED, Reason.BROKEN], ids=lambda reason: reason.name)
def test_s35_a_block_is_in_doubt_when_a_writer_is_lost(mode: Mode, reason: Reason) -> None:
    scene = Scene()
    scene.ask("w", EX)
    scene.end("w", value=b"old")
    scene.ask("a", mode, lease=30)
    if reason is Reason.EXPIRED:
        scene.after(30)
    elif reason is Reason.LAPSED:
        scene.hangup("a")
    else:
        scene.end("a", Reason.BROKEN)
    assert scene.key.value == b"old"
    assert scene.key.value_valid is (mode not in (PW, EX))


def test_s35_the_doubt_is_seen_by_every_reader_until_the_next_write() -> None:
    scene = Scene()
    scene.ask("a", EX)
    scene.convert("a", EX, value=b"old")
    scene.hangup("a")
    for name in "bc":
        scene.ask(name, CR)
        scene.end(name)
        assert not scene.key.value_valid


def test_s35_an_orderly_farewell_without_a_value_leaves_the_block_trusted() -> None:
    scene = Scene()
    scene.ask("w", EX)
    scene.end("w", value=b"old")
    scene.ask("a", EX)
    scene.end("a")
    assert (scene.key.value, scene.key.value_valid) == (b"old", True)


def test_s35_where_nothing_was_ever_written_nothing_is_in_doubt() -> None:
    scene = Scene()
    scene.ask("a", EX)
    scene.hangup("a")
    assert (scene.key.value, scene.key.value_valid) == (None, True)


def test_a_waiter_that_goes_leaves_the_block_alone() -> None:
    scene = Scene()
    scene.ask("w", EX)
    scene.convert("w", EX, value=b"old")
    scene.ask("a", PW, patience=5)
    scene.ask("b", PW)
    scene.after(5)
    scene.hangup("b")
    assert (scene.key.value, scene.key.value_valid) == (b"old", True)
