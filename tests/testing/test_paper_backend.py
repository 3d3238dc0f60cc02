"""The backend of paper keeps what is committed and nothing else, and fails as it is told to.

What a shelf makes of that is tested with the shelf.
"""

import pytest

from holdfast.errors import StoreBusy, StoreFailed
from holdfast.stores.backend import Keeping, Record
from holdfast.testing.disk import PowerCut
from holdfast.testing.paper_backend import PaperBackend

ONE = Record(b"one", 1, 1, b"document")
TWO = Record(b"two", 7, 3)


def keeping(*records: Record, forgotten: tuple[bytes, ...] = (), now: int = 5) -> Keeping:
    return Keeping(records, records, forgotten, now)


def test_what_is_committed_is_there_after_a_restart() -> None:
    paper = PaperBackend()
    assert paper.open() == 0
    paper.begin()
    paper.keep(keeping(ONE, TWO))
    assert paper.durable == {}
    paper.commit()
    again = paper.restarted()
    assert again.open() == 5
    assert again.load([b"one", b"three"]) == [ONE]
    assert again.load_busy() == [ONE]


def test_what_is_rolled_back_is_not() -> None:
    paper = PaperBackend()
    paper.begin()
    paper.keep(keeping(ONE))
    paper.rollback()
    paper.rollback()
    paper.begin()
    paper.commit()
    assert paper.restarted().durable == {}


def test_of_what_is_forgotten_the_fence_is_kept() -> None:
    paper = PaperBackend({b"two": TWO})
    paper.begin()
    paper.keep(keeping(forgotten=(b"two",)))
    paper.commit()
    assert paper.load([b"two"]) == [Record(b"two", 7, 0)]


def test_whoever_gets_a_record_may_do_with_it_what_they_like() -> None:
    paper = PaperBackend({b"one": ONE})
    (record,) = paper.load([b"one"])
    record.fence = 99
    assert paper.durable[b"one"].fence == 1


def test_whoever_says_that_a_fence_has_risen_has_to_be_right() -> None:
    paper = PaperBackend({b"one": ONE})
    paper.begin()
    with pytest.raises(AssertionError):
        paper.keep(keeping(ONE))


@pytest.mark.parametrize("call", ["begin", "has_changed", "load", "load_busy", "keep", "commit"])
@pytest.mark.parametrize("kind", [StoreBusy, StoreFailed])
def test_a_call_that_is_refused_fails_and_the_transaction_can_be_undone(
    call: str, kind: type[StoreBusy] | type[StoreFailed]
) -> None:
    paper = PaperBackend({b"two": TWO})
    paper.refused[call] = kind
    paper.torn_records = 1

    def transact() -> None:
        paper.begin()
        paper.has_changed()
        paper.load([b"two"])
        paper.load_busy()
        paper.keep(keeping(ONE, Record(b"three", 1, 1)))
        paper.commit()

    with pytest.raises(kind, match=f"paper refuses to {call}"):
        transact()
    paper.rollback()
    assert paper.durable == {b"two": TWO}
    paper.refused.clear()
    transact()
    assert set(paper.durable) == {b"one", b"two", b"three"}


def test_what_others_write_is_noticed_once() -> None:
    paper = PaperBackend()
    paper.scribble(ONE)
    paper.begin()
    assert paper.has_changed()
    assert not paper.has_changed()
    with pytest.raises(AssertionError, match="others cannot write"):
        paper.scribble(TWO)
    paper.rollback()


def test_the_power_goes_after_as_many_calls_as_were_paid_for() -> None:
    paper = PaperBackend()
    paper.calls_left = 2
    paper.begin()
    paper.keep(keeping(ONE))
    with pytest.raises(PowerCut):
        paper.commit()
    assert paper.restarted().durable == {}


def test_it_writes_down_what_it_is_asked_for() -> None:
    paper = PaperBackend()
    paper.begin()
    paper.commit()
    paper.close()
    assert paper.closed
    assert paper.log == ["begin", "commit", "close"]
