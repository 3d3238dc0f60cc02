"""Whatever breaks, and wherever it breaks: the next start is above every promise, or there is no next start.

Power cuts and failing calls happen on a disk of paper, kill -9 to a real process on a real file.
"""

import signal
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import FenceFileError
from holdfast.stores.journal import FENCE_RANGE, Journal, decode_record, encode_record
from holdfast.testing.disk import PaperDisk, PowerCut
from tests.stores.processes import ours

CLOCK = 0x18A0_0000_0000_0000
SIZES = ["fresh", "number", "one record", "two records"]
TWO_SLOTS = encode_record(5, CLOCK + 5) + encode_record(4, CLOCK + 4)


def floor_found(content: bytes) -> int | None:
    """Start on `content` with a clock that knows nothing; None if the start is refused."""
    try:
        return Journal.open("fences", 0, PaperDisk(content)).floor
    except FenceFileError:
        return None


# --- the order of things ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "writes"), [(b"", 1), (bytes(8), 2), (TWO_SLOTS[:32], 2), (TWO_SLOTS, 2)], ids=SIZES
)
def test_a_start_syncs_after_each_write_and_then_the_directory(content: bytes, writes: int) -> None:
    disk = PaperDisk(content)
    Journal.open("fences", CLOCK, disk)
    assert disk.log == ["open", "read", *["write", "sync"] * writes, "sync_directory"]
    assert disk.pending == []


def test_an_extension_is_one_write_and_one_sync() -> None:
    disk = PaperDisk(TWO_SLOTS)
    journal = Journal.open("fences", CLOCK, disk)
    disk.log.clear()
    journal.extend(journal.ceiling)
    journal.close()
    assert disk.log == ["write", "sync", "close"]
    assert disk.pending == []


# --- calls that fail ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["read", "write", "sync", "sync_directory"])
@pytest.mark.parametrize("content", [b"", bytes(8), TWO_SLOTS], ids=["fresh", "number", "two records"])
def test_a_start_that_cannot_do_all_its_work_is_refused_and_gives_the_lock_back(call: str, content: bytes) -> None:
    disk = PaperDisk(content)
    disk.refused.add(call)
    with pytest.raises(FenceFileError, match=f"cannot be used.*paper refuses to {call}"):
        Journal.open("fences", CLOCK, disk)
    assert not disk.locked


@pytest.mark.parametrize("content", [b"", TWO_SLOTS[:32], TWO_SLOTS], ids=["fresh", "one record", "two records"])
@pytest.mark.parametrize("torn_bytes", range(33))
def test_a_torn_extension_is_retried_in_its_own_slot_and_the_good_record_stays(content: bytes, torn_bytes: int) -> None:
    disk = PaperDisk(content)
    journal = Journal.open("fences", CLOCK, disk)
    promised = journal.ceiling
    good = disk.durable.index(encode_record(journal_sequence(disk), promised))
    record = disk.durable[good : good + 32]
    disk.torn_bytes = torn_bytes
    for failure in ("write", "sync", "write"):
        disk.refused = {failure}
        with pytest.raises(OSError, match="paper refuses"):
            journal.extend(promised)
        assert journal.ceiling == promised
        assert disk.content[good : good + 32] == record
    disk.refused.clear()
    assert journal.extend(promised + 3) == promised + 3 + FENCE_RANGE
    assert disk.durable[good : good + 32] == record
    assert journal_sequence(disk) == int.from_bytes(record[8:16], "big") + 1
    assert floor_found(disk.durable) == promised + 3 + FENCE_RANGE


def journal_sequence(disk: PaperDisk) -> int:
    """The sequence of the newest record on the disk."""
    records = (decode_record(disk.durable[:32]), decode_record(disk.durable[32:]))
    return max(record.sequence for record in records if record)


# --- power cuts ---------------------------------------------------------------------------------------------


def live(disk: PaperDisk, promises: list[int]) -> None:
    """Start, extend, stop, and all that again; note each promise at the moment it is made."""
    for _ in range(2):
        journal = Journal.open("fences", 0, disk)
        promises.append(journal.ceiling)
        for _ in range(3):
            promises.append(journal.extend(journal.ceiling))
        journal.close()


@pytest.mark.parametrize(
    ("content", "promised"),
    [
        (b"", 0),
        (CLOCK.to_bytes(8, "big"), CLOCK),
        ((2**63 + 255).to_bytes(8, "big"), 2**63 + 255),  # above the signature, read as a number
        (TWO_SLOTS[:32], CLOCK + 5),
        (TWO_SLOTS, CLOCK + 5),
        (TWO_SLOTS[:32] + bytes(32), CLOCK + 5),
    ],
    ids=["fresh", "number", "high number", "one record", "two records", "one bad slot"],
)
def test_after_a_power_cut_at_any_byte_of_any_write_no_start_is_below_a_promise(content: bytes, promised: int) -> None:
    for calls in count():
        disk = PaperDisk(content)
        disk.calls_left = calls
        promises = [promised]
        try:
            live(disk, promises)
        except PowerCut:
            for remains in disk.power_cut():
                floor = floor_found(remains)
                # Refusing is right while the file is still growing. A file with both slots must always start.
                assert len(disk.durable) < 64 if floor is None else floor >= max(promises)
        else:
            break
    assert len(promises) == 9


@pytest.mark.parametrize("refused", ["sync", "write"])
def test_a_record_that_was_read_but_never_reached_the_disk_is_secured_before_its_elder_is_given_up(
    refused: str,
) -> None:
    """A process whose fsync failed leaves its record in the kernel's memory, where the next process reads it."""
    for calls in count():
        disk = PaperDisk(TWO_SLOTS)
        journal = Journal.open("fences", 0, disk)
        promises = [journal.ceiling]
        disk.refused, disk.torn_bytes = {refused}, 32
        with pytest.raises(OSError, match="paper refuses"):
            journal.extend(journal.ceiling)
        journal.close()
        disk.refused.clear()
        disk.calls_left = calls
        try:
            live(disk, promises)
        except PowerCut:
            for remains in disk.power_cut(step=8):
                floor = floor_found(remains)
                assert floor is not None
                assert floor >= max(promises)
        else:
            break
    assert calls > 10


# --- arbitrary files ----------------------------------------------------------------------------------------

NUMBERS = st.one_of(st.integers(1, 2**64 - 1), st.integers(1, 5), st.integers(CLOCK, CLOCK + 5))
RECORDS = st.builds(encode_record, NUMBERS, NUMBERS)
SLOTS = st.one_of(RECORDS, st.binary(min_size=32, max_size=32))


@given(st.one_of(st.binary(min_size=64, max_size=64), st.builds(bytes.__add__, SLOTS, SLOTS)), NUMBERS)
@settings(max_examples=500)
def test_any_64_bytes_are_refused_or_yield_a_floor_above_every_sound_record(content: bytes, clock_ns: int) -> None:
    sound = [record for slot in (0, 32) if (record := decode_record(content[slot : slot + 32]))]
    disk = PaperDisk(content)
    refusal = ""
    try:
        journal = Journal.open("fences", clock_ns, disk)
    except FenceFileError as error:
        refusal = error.detail
    if refusal:
        assert "used up" in refusal if sound else "no sound record" in refusal
        assert disk.content == content
    else:
        spared = 2 * FENCE_RANGE if len(sound) == 1 else 0  # what a lost record may have promised
        assert journal.floor == max(clock_ns, *(record.ceiling + spared for record in sound))
        assert floor_found(disk.durable) in (journal.ceiling, None)  # None where the numbers end just there


@given(st.binary(max_size=80).filter(lambda content: len(content) not in (0, 8)))
def test_any_other_bytes_are_refused(content: bytes) -> None:
    assert floor_found(content) is None


# --- kill -9 ------------------------------------------------------------------------------------------------

MINTING = """
import sys
from holdfast.stores.fence import Fences, Mint
from holdfast.stores.journal import Journal
from holdfast.system import SystemDice
journal = Journal.open(sys.argv[1], 0)
mint = Mint(Fences(journal.floor, journal.ceiling, journal.extend), SystemDice())
while True:
    print(mint(0)[0])
"""

EXTENDING = """
import sys
from holdfast.stores.journal import Journal
journal = Journal.open(sys.argv[1], 0)
while True:
    print(journal.extend(journal.ceiling) - 1, flush=True)
"""


def last_printed_before_kill(script: str, path: Path, lines: int) -> int:
    """Run a process until it has printed so many lines, kill it, and return the last number it got out."""
    with ours(script, str(path)) as process:
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        printed += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    return int([line for line in printed if line.endswith("\n")][-1])


@pytest.mark.parametrize(("script", "lines"), [(MINTING, 5000), (EXTENDING, 50)])
def test_after_kill_9_the_first_fence_is_above_every_one_that_was_given_out(
    tmp_path: Path, script: str, lines: int
) -> None:
    path = tmp_path / "fences"
    for _ in range(3):
        last = last_printed_before_kill(script, path, lines)
        journal = Journal.open(path, 0)
        assert journal.floor >= last
        journal.close()
