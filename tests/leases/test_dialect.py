"""What all databases share: what is written down of a holder, what is read back, how long a statement gets."""

import pytest

from holdfast.leases.dialect import BATCH_MAX, batches, need_version, read_holder, refuse_strange, spelled, text
from holdfast.leases.errors import BadKey, BadTable
from holdfast.leases.steps import Result
from holdfast.leases.words import Hold


def test_no_statement_grows_without_bound() -> None:
    holds = [Hold(b"%d" % number, "id") for number in range(2 * BATCH_MAX + 1)]
    assert [len(batch) for batch in batches(holds)] == [BATCH_MAX, BATCH_MAX, 1]
    assert [hold for batch in batches(holds) for hold in batch] == holds
    assert list(batches([])) == []


def test_a_holder_is_written_down_whatever_is_in_it() -> None:
    assert spelled({"b": "é", "a": None, "c": {1}}) == '{"a": null, "b": "é", "c": "{1}"}'
    with pytest.raises(BadKey, match="at most 4096 bytes"):
        spelled({"operation": "é" * 2100})


@pytest.mark.parametrize("stored", ["no JSON", "[1]", "null", None, 7, b"\xff"])
def test_whatever_stands_in_the_table_is_no_reason_to_fail(stored: object) -> None:
    assert read_holder(stored) == {}


def test_a_holder_is_read_as_it_was_written() -> None:
    assert read_holder('{"pid": 7}') == read_holder(b'{"pid": 7}') == read_holder({"pid": 7}) == {"pid": 7}
    assert text(b"id") == text("id") == "id"


def test_only_the_version_of_this_release_will_do() -> None:
    need_version(Result(1, [(5,)]))
    for rows, why in (([], "not been prepared"), ([(4,)], "run `holdfast leases init`"), ([(6,)], "later release")):
        with pytest.raises(BadTable, match=why):
            need_version(Result(len(rows), list(rows)))


def test_a_table_without_our_columns_is_left_alone() -> None:
    refuse_strange(["a", "b", "more"], ["a", "b"])
    with pytest.raises(BadTable, match="it has no b, c"):
        refuse_strange(["a"], ["c", "a", "b"])
