"""The fence journal, byte for byte and rule by rule, on real files.

What breaks while it runs is the subject of `test_journal_crashes`; counting and stamps that of `test_fence`.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import FenceFileError, FenceUnavailable
from holdfast.stores.crc64 import crc64
from holdfast.stores.journal import FENCE_RANGE, UINT64_MAX, Journal, Record, decode_record, encode_record
from tests.stores.processes import ours

CLOCK = 0x18A0_0000_0000_0000
VECTORS = [
    (1, 0x18A0000000100000, "64666c666e63310a000000000000000118a0000000100000fd0bc91794727c8a"),
    (2, 0x18A0000000200000, "64666c666e63310a000000000000000218a0000000200000fec4e41794727c8a"),
    (3, 0xFFFFFFFFFFFFFFFF, "64666c666e63310a0000000000000003ffffffffffffffff7481d2179472929c"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fences"


def start(path: Path, clock_ns: int) -> Journal:
    """Open and close at once; what is left are the numbers."""
    journal = Journal.open(path, clock_ns)
    journal.close()
    return journal


# --- records ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sequence", "ceiling", "record"), VECTORS)
def test_three_known_records(sequence: int, ceiling: int, record: str) -> None:
    assert encode_record(sequence, ceiling).hex() == record
    assert decode_record(bytes.fromhex(record)) == Record(sequence, ceiling)


@given(st.integers(1, UINT64_MAX), st.integers(0, UINT64_MAX))
def test_a_record_comes_back_as_it_went(sequence: int, ceiling: int) -> None:
    assert decode_record(encode_record(sequence, ceiling)) == Record(sequence, ceiling)


def test_a_record_with_any_flipped_bit_or_missing_byte_is_none() -> None:
    record = encode_record(2, CLOCK)
    for bit in range(256):
        flipped = bytearray(record)
        flipped[bit // 8] ^= 1 << bit % 8
        assert decode_record(bytes(flipped)) is None
    for size in range(32):
        assert decode_record(record[:size]) is None
    assert decode_record(record + b"\0") is None


@pytest.mark.parametrize(("magic", "sequence"), [(b"dflfnc1\n", 0), (b"dflfnc2\n", 1)])
def test_a_well_sealed_record_that_starts_wrong_is_none(magic: bytes, sequence: int) -> None:
    body = magic + sequence.to_bytes(8, "big") + CLOCK.to_bytes(8, "big")
    assert decode_record(body + crc64(body).to_bytes(8, "big")) is None


def test_there_is_no_record_of_sequence_zero() -> None:
    with pytest.raises(AssertionError):
        encode_record(0, CLOCK)


# --- starting -----------------------------------------------------------------------------------------------


def test_a_missing_file_is_made_with_one_record_above_the_clock(path: Path) -> None:
    journal = start(path, CLOCK)
    assert (journal.floor, journal.ceiling) == (CLOCK, CLOCK + FENCE_RANGE)
    assert path.read_bytes().hex() == VECTORS[0][2]
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_empty_file_is_as_good_as_none(path: Path) -> None:
    path.touch()
    assert start(path, CLOCK).floor == CLOCK


def test_each_start_begins_where_the_range_before_ended_and_takes_the_other_slot(path: Path) -> None:
    start(path, CLOCK)
    assert start(path, 0).floor == CLOCK + FENCE_RANGE
    assert path.read_bytes().hex() == VECTORS[0][2] + VECTORS[1][2]
    assert start(path, 0).floor == CLOCK + 2 * FENCE_RANGE
    assert path.read_bytes() == encode_record(3, CLOCK + 3 * FENCE_RANGE) + bytes.fromhex(VECTORS[1][2])


def test_the_clock_wins_where_it_is_ahead_of_the_file(path: Path) -> None:
    start(path, CLOCK)
    assert start(path, CLOCK * 2).floor == CLOCK * 2


def test_a_bare_number_is_taken_over_and_becomes_the_first_record(path: Path) -> None:
    path.write_bytes(CLOCK.to_bytes(8, "big"))
    assert start(path, 0).floor == CLOCK
    assert path.read_bytes().hex() == VECTORS[0][2]


@pytest.mark.parametrize("size", [*range(1, 8), *range(9, 32), *range(33, 64), 65, 66, 96, 4096])
def test_any_other_size_is_refused_and_nothing_is_touched(path: Path, size: int) -> None:
    content = (encode_record(1, CLOCK) * 128)[:size]
    path.write_bytes(content)
    with pytest.raises(FenceFileError, match="bytes; a fence file has"):
        Journal.open(path, CLOCK)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [bytes(32), bytes(64), b"x" * 64, encode_record(1, CLOCK)[:8], encode_record(1, CLOCK)[:31] + b"\0"],
    ids=["32 zeros", "64 zeros", "noise", "signature only", "last byte lost"],
)
def test_a_file_without_a_sound_record_is_refused_and_nothing_is_touched(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(FenceFileError, match=str(path)):
        Journal.open(path, CLOCK)
    assert path.read_bytes() == content


@pytest.mark.parametrize("bad", [0, 32])
@pytest.mark.parametrize("sequences", [(1, 2), (3, 2), (7, 8), (9, 8)])
def test_one_bad_slot_is_survived_and_then_overwritten(path: Path, bad: int, sequences: tuple[int, int]) -> None:
    content = bytearray(b"".join(encode_record(sequence, CLOCK + sequence) for sequence in sequences))
    content[bad + 20] ^= 0x40
    path.write_bytes(content)
    good = 32 - bad
    ceiling = CLOCK + sequences[good // 32]
    survivor = start(path, 0)
    assert survivor.damaged
    assert survivor.floor == ceiling + 2 * FENCE_RANGE
    assert path.read_bytes()[good : good + 32] == content[good : good + 32]
    again = start(path, 0)
    assert not again.damaged
    assert again.floor == survivor.ceiling


@pytest.mark.parametrize("bad", [0, 32])
def test_no_fence_repeats_when_a_record_rots_and_the_clock_is_of_no_help(path: Path, bad: int) -> None:
    start(path, CLOCK)
    start(path, 0)
    journal = Journal.open(path, 0)
    lost_to_the_disk = 5
    highest = journal.extend(journal.ceiling + lost_to_the_disk) - 1
    journal.close()
    content = bytearray(path.read_bytes())
    content[bad + 20] ^= 0x40
    path.write_bytes(content)
    assert start(path, 0).floor + 1 > highest


def test_both_slots_bad_is_refused(path: Path) -> None:
    start(path, CLOCK)
    start(path, CLOCK)
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    content[63] ^= 1
    path.write_bytes(content)
    with pytest.raises(FenceFileError, match="no sound record"):
        Journal.open(path, CLOCK)


def test_the_newest_record_is_the_one_that_is_continued(path: Path) -> None:
    path.write_bytes(encode_record(9, CLOCK + 9) + encode_record(8, CLOCK + 8))
    assert start(path, 0).floor == CLOCK + 9
    assert path.read_bytes() == encode_record(9, CLOCK + 9) + encode_record(10, CLOCK + 9 + FENCE_RANGE)


def test_a_record_that_somebody_moved_to_the_wrong_slot_is_spared_by_the_next_one(path: Path) -> None:
    path.write_bytes(encode_record(2, CLOCK))
    assert start(path, 0).floor == CLOCK
    assert path.read_bytes() == encode_record(2, CLOCK) + encode_record(4, CLOCK + FENCE_RANGE)


@pytest.mark.parametrize(
    ("content", "clock_ns"),
    [
        (bytes.fromhex(VECTORS[2][2]), 0),
        (b"", UINT64_MAX - FENCE_RANGE + 1),
        (UINT64_MAX.to_bytes(8, "big"), 0),
        (encode_record(UINT64_MAX, CLOCK), 0),
    ],
    ids=["full ceiling", "clock too far", "full number", "full sequence"],
)
def test_a_start_without_numbers_left_is_refused(path: Path, content: bytes, clock_ns: int) -> None:
    path.write_bytes(content)
    with pytest.raises(FenceFileError, match="used up"):
        Journal.open(path, clock_ns)
    assert path.read_bytes() == content


def test_the_very_last_range_can_be_taken(path: Path) -> None:
    assert start(path, UINT64_MAX - FENCE_RANGE).ceiling == UINT64_MAX


def test_a_path_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FenceFileError, match="cannot be opened"):
        Journal.open(tmp_path, CLOCK)


# --- the lock -----------------------------------------------------------------------------------------------


def test_a_second_process_on_the_same_file_is_refused_until_the_first_has_closed(path: Path) -> None:
    script = "import sys; from holdfast.stores.journal import Journal; print(Journal.open(sys.argv[1], 0).floor)"
    journal = Journal.open(path, CLOCK)
    refusal = f"fence file {path}: another server holds its lock"
    out, err = ours(script, str(path)).communicate()
    assert out == ""
    assert refusal in err
    with pytest.raises(FenceFileError, match=refusal):
        Journal.open(path, 0)
    journal.close()
    assert ours(script, str(path)).communicate() == (f"{CLOCK + FENCE_RANGE}\n", "")


def test_a_refused_start_gives_the_lock_back(path: Path) -> None:
    path.write_bytes(bytes(32))
    with pytest.raises(FenceFileError):
        Journal.open(path, CLOCK)
    path.write_bytes(b"")
    start(path, CLOCK)


# --- extending ----------------------------------------------------------------------------------------------


def test_extending_writes_the_next_record_and_returns_its_ceiling(path: Path) -> None:
    journal = Journal.open(path, CLOCK)
    fence = journal.ceiling
    assert journal.extend(fence) == fence + FENCE_RANGE == journal.ceiling
    assert path.read_bytes()[32:] == encode_record(2, fence + FENCE_RANGE)
    assert journal.extend(journal.ceiling + 5) == fence + 2 * FENCE_RANGE + 5
    assert path.read_bytes()[:32] == encode_record(3, journal.ceiling)
    assert journal.floor == CLOCK
    journal.close()


def test_a_closed_journal_extends_no_more_and_may_be_closed_again(path: Path) -> None:
    journal = start(path, CLOCK)
    before = path.read_bytes()
    with pytest.raises(FenceUnavailable, match="closed"):
        journal.extend(journal.ceiling)
    journal.close()
    assert path.read_bytes() == before


def test_a_range_that_would_pass_the_last_number_is_refused(path: Path) -> None:
    journal = Journal.open(path, UINT64_MAX - FENCE_RANGE)
    with pytest.raises(FenceUnavailable, match="used up"):
        journal.extend(journal.ceiling)
    journal.close()


def test_a_sequence_that_has_ended_is_refused(path: Path) -> None:
    path.write_bytes(encode_record(UINT64_MAX - 1, CLOCK) * 2)
    journal = Journal.open(path, 0)
    with pytest.raises(FenceUnavailable, match="used up"):
        journal.extend(journal.ceiling)
    journal.close()


def test_a_ceiling_never_comes_down(path: Path) -> None:
    journal = Journal.open(path, CLOCK)
    with pytest.raises(AssertionError):
        journal.extend(CLOCK)
    journal.close()


def test_one_write_may_pay_for_fewer_fences(path: Path) -> None:
    journal = Journal.open(path, CLOCK, fence_range=4)
    assert journal.ceiling == CLOCK + 4
    assert journal.extend(CLOCK + 4) == CLOCK + 8
    journal.close()
    assert start(path, 0).floor == CLOCK + 8
