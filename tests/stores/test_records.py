"""The ledger between table and backend: what a restart finds, what a failure undoes, and what others have written.

Random sequences of all that are in test_shelf_machine.py; here are the ones that a person should read.
"""

import pytest

from holdfast.engine.document import encode
from holdfast.engine.resource import Resource, first_holder
from holdfast.errors import DocumentError, StoreBusy, StoreFailed
from holdfast.secret import lease_id_of, secret_of
from holdfast.stores.backend import Record
from holdfast.stores.records import record_of
from holdfast.testing.paper_backend import PaperBackend
from holdfast.words import CW, EX, PR, RESIDENT, SECOND, Answer, Convert, End, Ended, Granted, Hangup, Reason, Stayed
from tests.stores.rig import KEY, PaperRig

LEFT, RIGHT = b"lock:left", b"lock:right"
LEASE_ID = b"12345678-1234-4123-a123-123456789abc"


def foreign(rig: PaperRig, *, fence: int, version: int, lease_s: float = 10, key: bytes = KEY) -> Record:
    """What a server writes that knows nothing of documents: those stay as they are."""
    known = rig.paper.durable.get(key)
    document = known.document if known is not None else None
    return Record(key, fence, version, document, b"them", LEASE_ID, fence, rig.clock.now + round(lease_s * SECOND))


def released(rig: PaperRig, *, fence: int, version: int, key: bytes = KEY) -> Record:
    known = rig.paper.durable.get(key)
    return Record(key, fence, version, known.document if known is not None else None, held_fence=fence)


# --- what is written beside the document, for people ---


def test_a_record_shows_who_holds_and_until_when() -> None:
    rig = PaperRig()
    claim = rig.ask(owner=b"me", session=RESIDENT)
    assert record_of(rig.table.resources[KEY]) == rig.paper.durable[KEY]
    record = rig.paper.durable[KEY]
    assert (record.owner, record.lease_id, record.held_fence) == (b"me", lease_id_of(claim.secret), 1)
    assert record.deadline == claim.deadline


def test_who_did_not_say_who_they_are_is_shown_by_session() -> None:
    rig = PaperRig()
    rig.ask(session=17)
    assert rig.paper.durable[KEY].owner == b"session/17"


def test_a_free_key_without_a_value_has_no_document() -> None:
    rig = PaperRig()
    rig.end(rig.ask())
    record = rig.paper.durable[KEY]
    assert (record.document, record.owner, record.fence, record.held_fence) == (None, None, 1, 1)
    rig.end(rig.ask(), value=b"left")
    assert rig.paper.durable[KEY].document is not None


# --- restarts ---


def test_a_restart_keeps_who_holds_and_drops_who_waits() -> None:
    rig = PaperRig()
    held = rig.ask(lease_s=30)
    rig.ask(session=2)
    reader = rig.ask(b"lock:shared", PR, session=3)
    rig.ask(b"lock:shared", PR, session=4)
    rig.do(Convert(3, reader.ticket, EX))
    rig.ask(b"sem:pool", CW, limit=3, session=5, units=2)
    rig.restart()
    rig.log.take()
    assert rig.held() == {KEY: [1], b"lock:shared": [1, 2], b"sem:pool": [1]}
    assert rig.census().waiting == 0
    rig.ask(b"sem:pool", CW, limit=3, units=2, patience_s=0)
    assert rig.renew(held, 20) is Answer.RENEWED
    rig.log.take()
    rig.after(20)
    assert rig.log.take() == [(Ended, Reason.EXPIRED)]


def test_a_session_of_this_run_is_not_one_of_the_last() -> None:
    rig = PaperRig()
    held = rig.ask(session=1)
    rig.restart()
    rig.hangup(1)
    assert rig.held() == {KEY: [1]}
    assert rig.end(held) is Answer.ENDED


def test_what_ran_out_while_nothing_ran_is_told_of_and_counted_at_the_first_tick() -> None:
    rig = PaperRig()
    rig.ask(lease_s=5)
    rig.kill()
    rig.clock.advance(100)
    rig.start()
    rig.log.take()
    rig.tick()
    assert rig.log.take() == [(Ended, Reason.EXPIRED)]
    assert rig.held() == {}


def test_a_claim_without_a_session_of_its_own_is_found_again_by_its_ticket() -> None:
    rig = PaperRig()
    held = rig.ask(session=RESIDENT, ticket=b"once", owner=b"me")
    waiter = rig.ask(session=RESIDENT, ticket=b"later")
    rig.restart()
    rig.log.take()
    again = rig.ask(session=RESIDENT, ticket=b"once")
    assert rig.log.take() == [Answer.GRANTED]
    assert (rig.now_is(again).fence, rig.now_is(again).token) == (1, held.token)
    rig.ask(session=RESIDENT, ticket=waiter.ticket)
    assert rig.log.take() == [Answer.QUEUED]


@pytest.mark.parametrize("call", ["begin", "keep", "commit"])
def test_a_first_transaction_that_fails_does_not_bring_the_dead_back(call: str) -> None:
    # What is kept is still what the last run wrote, with its waiters and its sessions.
    rig = PaperRig()
    held = rig.ask(session=1, ticket=1)
    rig.ask(session=2, ticket=2)
    reader = rig.ask(b"lock:shared", PR, session=3)
    rig.ask(b"lock:shared", PR, session=4)
    rig.do(Convert(3, reader.ticket, EX))
    rig.restart()
    rig.log.take()
    rig.paper.refused[call] = StoreBusy
    rig.do(rig.claim(session=2, ticket=2), Hangup(1))
    rig.paper.refused.clear()
    rig.after(1)
    assert rig.log.take() == [Answer.STORE_BUSY]
    assert rig.held() == {KEY: [1], b"lock:shared": [1, 2]}
    rig.ask(session=2, ticket=2)
    assert rig.end(held) is Answer.ENDED
    assert rig.log.take() == ["seen", Answer.QUEUED, Answer.ENDED, Granted]


def test_a_key_that_only_waiters_of_the_last_run_kept_is_free_also_after_a_failure_and_a_sweep() -> None:
    r = Resource(b"sem:pool", 3, 4)
    rig = PaperRig()
    held = rig.ask(b"sem:pool", CW, limit=3)
    rig.ask(b"sem:pool", CW, limit=3, units=3, session=2)
    rig.put(End(held.key, held.token))
    rig.kill()
    stuck = rig.table.resources[b"sem:pool"]
    stuck.sole, stuck.used, stuck.mask, stuck.tally, stuck.stuck = None, 0, 0, None, True
    rig.paper.durable[r.key] = Record(r.key, 4, 9, encode(stuck))
    rig.start()
    rig.log.take()
    rig.paper.refused["keep"] = StoreFailed
    rig.clock.advance(100)
    rig.sweep()
    rig.paper.refused.clear()
    rig.sweep()
    rig.ask(b"sem:pool", CW, limit=5)
    assert rig.log.take() == [Answer.GRANTED]


def test_a_file_with_a_document_that_cannot_be_read_is_not_opened() -> None:
    with pytest.raises(DocumentError, match=r"lock:job.*cannot be read"):
        PaperRig(PaperBackend({KEY: Record(KEY, 1, 0, b"rubbish")}))


# --- failures ---


def test_a_ticket_may_move_to_another_key_in_a_transaction_that_fails() -> None:
    rig = PaperRig()
    one = rig.ask(b"lock:one", session=RESIDENT, ticket=b"once")
    rig.paper.refused["commit"] = StoreFailed
    rig.do(End(one.key, one.token), rig.claim(b"lock:two", session=RESIDENT, ticket=b"once"))
    rig.paper.refused.clear()
    assert rig.held() == {b"lock:one": [1]}
    assert rig.end(one) is Answer.ENDED


def test_a_holder_that_a_failed_start_undid_is_not_forgotten_when_there_is_no_document() -> None:
    # A file of the original has none: its holders are known by their rows alone.
    deadline = 1_700_000_030 * SECOND
    rig = PaperRig(PaperBackend({KEY: Record(KEY, 5, 2, None, b"them", LEASE_ID, 5, deadline)}))
    rig.paper.refused["begin"] = StoreBusy
    rig.ask(b"lock:other")
    rig.paper.refused.clear()
    assert rig.held() == {KEY: [5]}
    rig.after(30)
    assert rig.log.take()[-1] == (Ended, Reason.EXPIRED)


# --- others ---


def test_a_holder_whose_key_somebody_else_has_given_away_is_told_and_waiters_keep_their_order() -> None:
    rig = PaperRig()
    held = rig.ask(tracked=True)
    waiters = [rig.ask(session=session) for session in (2, 3)]
    rig.log.take()
    rig.paper.scribble(foreign(rig, fence=2, version=3))
    assert rig.end(held) is Answer.NOT_HELD
    assert rig.log.take() == [(Ended, Reason.BROKEN), Answer.NOT_HELD]
    assert rig.held() == {KEY: [2]}
    rig.log.take()
    rig.after(10)
    assert rig.log.take() == [(Ended, Reason.EXPIRED), Granted]
    assert rig.now_is(waiters[0]).fence == 3
    rig.end(waiters[0])
    assert rig.now_is(waiters[1]).fence == 4


def test_a_key_that_somebody_else_has_freed_goes_to_whoever_waits() -> None:
    rig = PaperRig()
    rig.ask()
    waiter = rig.ask(session=2)
    rig.log.take()
    rig.paper.scribble(released(rig, fence=1, version=2))
    rig.probe()
    assert rig.log.take() == [(Ended, Reason.BROKEN), Granted]
    assert rig.now_is(waiter).fence == 2


def test_a_converting_holder_is_told_that_it_is_broken() -> None:
    rig = PaperRig()
    one, _ = rig.ask(want=PR), rig.ask(want=PR, session=2)
    rig.do(Convert(1, one.ticket, EX))
    rig.log.take()
    rig.paper.scribble(foreign(rig, fence=3, version=3))
    rig.probe()
    assert rig.log.take() == [(Ended, Reason.BROKEN)] * 2
    assert Stayed not in rig.log.take()


def test_a_group_is_not_granted_what_somebody_else_has_taken_since() -> None:
    rig = PaperRig()
    rig.ask(LEFT)
    group = rig.ask_all(LEFT, RIGHT, session=2)
    rig.log.take()
    rig.paper.scribble(released(rig, fence=1, version=2, key=LEFT))
    rig.paper.scribble(foreign(rig, fence=1, version=1, key=RIGHT))
    assert rig.probe() is None
    assert rig.log.take() == [(Ended, Reason.BROKEN)]
    assert rig.held() == {RIGHT: [1]}
    rig.after(10)
    assert rig.held() == {claim.key: [rig.now_is(claim).fence] for claim in group.claims}
    assert [rig.now_is(claim).fence for claim in group.claims] == [2, 2]


@pytest.mark.parametrize("call", ["keep", "commit"])
def test_a_group_whose_grant_cannot_be_kept_waits_as_before(call: str) -> None:
    rig = PaperRig()
    held = rig.ask(LEFT)
    group = rig.ask_all(LEFT, RIGHT, session=2)
    rig.ask(RIGHT, session=3)
    rig.log.take()
    rig.paper.refused = {call: StoreFailed}
    assert rig.end(held) is Answer.STORE_FAILED
    rig.paper.refused = {}
    assert rig.held() == {LEFT: [1]}
    rig.log.take()
    assert rig.end(held) is Answer.ENDED
    assert rig.log.take() == [Answer.ENDED, Granted, Granted]
    assert rig.held() == {claim.key: [rig.now_is(claim).fence] for claim in group.claims}


def test_a_group_that_cannot_be_kept_has_never_been_asked_for() -> None:
    rig = PaperRig()
    rig.ask(LEFT)
    rig.paper.refused = {"commit": StoreBusy}
    group = rig.ask_all(LEFT, RIGHT, session=2, ticket=b"once")
    rig.hangup(1)
    rig.paper.refused = {}
    rig.after(1)
    assert rig.held() == {}
    rig.ask_all(*(claim.key for claim in group.claims), session=2, ticket=b"once")
    assert sorted(rig.held()) == [LEFT, RIGHT]


def test_a_free_key_that_somebody_else_has_used_goes_on_above_their_fences() -> None:
    # It was free before and is free again, so that nothing but its fence tells.
    rig = PaperRig()
    rig.end(rig.ask())
    rig.ask(b"sem:pool", limit=1, units=2)  # known here and never granted
    rig.paper.scribble(released(rig, fence=9, version=12))
    rig.paper.scribble(released(rig, fence=4, version=4, key=b"sem:pool"))
    assert rig.ask().fence == 10
    assert rig.ask(b"sem:pool", CW, limit=2).fence == 5


def test_what_others_wrote_is_read_again_when_the_transaction_that_read_it_has_failed() -> None:
    # The old holder must not come back: its document still stands in the row that others have written.
    rig = PaperRig()
    held = rig.ask()
    rig.log.take()
    rig.paper.scribble(foreign(rig, fence=2, version=2))
    for call in ("load_busy", "keep", "commit"):
        rig.paper.refused = {call: StoreFailed}
        assert rig.end(held) is Answer.STORE_FAILED
        assert rig.log.take() == [Answer.STORE_FAILED]
    rig.paper.refused.clear()
    rig.ask(session=2, patience_s=0)
    assert rig.log.take() == [(Ended, Reason.BROKEN), Answer.TIMED_OUT]
    assert rig.held() == {KEY: [2]}
    assert rig.end(held) is Answer.NOT_HELD


def test_who_holds_by_the_word_of_others_can_renew_and_release_here() -> None:
    rig = PaperRig()
    rig.ask()
    rig.paper.scribble(foreign(rig, fence=2, version=2))
    rig.probe()
    secret = secret_of(2, LEASE_ID)
    assert secret is not None
    assert rig.do(End(KEY, secret[:32])) is Answer.ENDED
    assert rig.paper.durable[KEY].version == 3


def test_a_fence_that_an_operator_has_raised_takes_nothing_from_whoever_holds() -> None:
    rig = PaperRig()
    held = rig.ask()
    rig.log.take()
    record = rig.paper.durable[KEY]
    rig.paper.scribble(Record(KEY, 100, record.version, record.document, b"", b"", 1, record.deadline))
    rig.probe()
    assert rig.log.take() == []
    assert rig.end(held) is Answer.ENDED
    assert rig.ask().fence == 101


def test_a_lease_id_that_is_no_uuid_is_held_all_the_same() -> None:
    deadline = 1_700_000_030 * SECOND
    rig = PaperRig(PaperBackend({KEY: Record(KEY, 5, 2, None, b"them", b"odd", 5, deadline)}))
    holder = first_holder(rig.table.resources[KEY])
    assert holder is not None
    assert (holder.owner, holder.fence, len(holder.secret)) == (b"them", 5, 48)
    rig.ask(patience_s=0)
    assert rig.log.take() == [Answer.TIMED_OUT]
