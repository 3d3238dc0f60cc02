"""The shelf: what comes together is one transaction, nobody hears of it before it is safe, and failures undo all of it.

What commands mean is in the contract of stores; that nothing is ever lost is tested by a machine beside this file.
"""

from holdfast.errors import StoreBusy, StoreFailed
from holdfast.stores.backend import Record
from holdfast.stores.shelf import RETRY_NS
from holdfast.testing.paper_backend import PaperBackend
from holdfast.words import FOREVER, RESIDENT, SECOND, Answer, Cancel, Census, End, Ended, Granted, Hangup, Look, Reason
from tests.stores.rig import KEY, PaperRig


def commits(rig: PaperRig) -> int:
    return rig.paper.log.count("commit")


# --- batches ---


def test_nobody_hears_of_anything_before_it_is_safe() -> None:
    rig = PaperRig()
    rig.put(rig.claim())
    assert rig.log.told == []
    rig.runner.take_in()
    assert rig.log.told == []
    rig.settle()
    assert rig.log.take() == [Answer.GRANTED]
    assert rig.paper.durable[KEY].fence == 1


def test_what_comes_together_is_one_transaction() -> None:
    rig = PaperRig()
    rig.do(*(rig.claim(b"lock:%d" % number) for number in range(50)))
    assert commits(rig) == 1
    assert rig.log.take() == [Answer.GRANTED] * 50
    assert (rig.shelf.tally.batches, rig.shelf.tally.commands) == (1, 50)


def test_what_comes_while_a_transaction_runs_is_the_next_one() -> None:
    rig = PaperRig()
    rig.put(rig.claim())
    rig.runner.take_in()
    rig.put(*(rig.claim(session=session) for session in (2, 3, 4)))
    rig.runner.step()
    assert rig.log.take() == [Answer.GRANTED]
    rig.settle()
    assert rig.log.take() == [Answer.QUEUED] * 3
    assert commits(rig) == 2


def test_a_transaction_takes_in_no_more_than_it_may() -> None:
    rig = PaperRig(batch_max=2)
    rig.do(*(rig.claim(b"lock:%d" % number) for number in range(5)))
    assert commits(rig) == 3
    assert rig.log.take() == [Answer.GRANTED] * 5


def test_what_an_answer_leads_to_is_done_next() -> None:
    rig = PaperRig()
    held = rig.ask()
    rig.log.then = lambda: rig.put(End(held.key, held.token))
    rig.ask(session=2)
    assert rig.log.take() == [Answer.GRANTED, Answer.QUEUED, Answer.ENDED, Granted]


def test_the_clock_is_read_when_the_transaction_has_begun() -> None:
    # Whoever had to wait for the database has not used up any of the lease.
    rig = PaperRig()
    claim = rig.claim(lease_s=10)
    rig.put(claim)
    rig.clock.advance(8)
    rig.settle()
    assert claim.deadline == rig.clock.now + 10 * SECOND


def test_looks_and_counts_alone_need_no_transaction() -> None:
    rig = PaperRig()
    rig.ask()
    rig.paper.log.clear()
    rig.paper.refused["begin"] = StoreBusy
    assert rig.held() == {KEY: [1]}
    assert rig.census().held == 1
    assert rig.paper.log == []


def test_what_changes_nothing_is_not_written() -> None:
    rig = PaperRig()
    rig.ask()
    rig.paper.log.clear()
    rig.ask(session=2, queue=False)
    assert rig.do(End(KEY, b"no such token")) is Answer.NOT_HELD
    assert "commit" not in rig.paper.log
    assert rig.shelf.tally.failures == 0


def test_a_key_that_was_asked_for_and_never_granted_leaves_nothing() -> None:
    rig = PaperRig()
    rig.ask(b"sem:pool", limit=1, units=2)
    assert rig.log.take() == [Answer.LIMIT_MISMATCH]
    assert rig.paper.durable == {}


# --- failures ---


def test_when_it_is_busy_those_who_wait_for_an_answer_get_one_and_nothing_is_done() -> None:
    rig = PaperRig()
    held = rig.ask()
    rig.paper.refused["begin"] = StoreBusy
    rig.do(rig.claim(session=2), End(held.key, held.token), Cancel(1, held.ticket), rig.claim(b"lock:other"))
    assert rig.log.take() == [Answer.GRANTED, *[Answer.STORE_BUSY] * 4]
    assert rig.shelf.fault == "paper refuses to begin"
    assert (rig.shelf.tally.busy, rig.shelf.tally.failures) == (1, 0)
    rig.paper.refused.clear()
    assert rig.held() == {KEY: [1]}
    assert rig.end(held) is Answer.ENDED
    assert rig.shelf.fault is None


def test_whoever_has_waited_for_a_busy_file_behind_others_does_not_wait_for_it_again() -> None:
    rig = PaperRig(batch_max=2)
    rig.paper.refused["begin"] = StoreBusy
    begun_in_a_hurry = []

    def batch() -> None:
        rig.runner.step()
        begun_in_a_hurry.append(rig.paper.hurried)

    rig.put(rig.claim(b"lock:1"))
    rig.runner.take_in()  # this transaction begins, and waits
    rig.put(*(rig.claim(b"lock:%d" % number) for number in (2, 3, 4)))
    for _ in range(3):
        batch()
    rig.put(rig.claim(b"lock:5"))  # who comes only now has not waited
    batch()
    assert rig.log.take() == [Answer.STORE_BUSY] * 5
    # Of each transaction it shows only when the one behind it has been begun.
    assert begun_in_a_hurry == [True, True, True, False]


def test_what_a_failed_commit_has_granted_is_granted_to_nobody() -> None:
    rig = PaperRig()
    rig.paper.refused["commit"] = StoreFailed
    first = rig.ask()
    assert rig.log.take() == [Answer.STORE_FAILED]
    assert rig.held() == {}
    rig.paper.refused.clear()
    second = rig.ask(session=2)
    assert rig.log.take()[-1] is Answer.GRANTED
    assert second.fence == 1  # nobody was told of the first one
    assert second.token != first.token
    assert rig.end(first) is Answer.NOT_HELD


def test_a_release_whose_commit_failed_has_not_happened() -> None:
    rig = PaperRig()
    held, waiter = rig.ask(), rig.ask(session=2)
    rig.paper.refused["keep"] = StoreFailed
    assert rig.end(held) is Answer.STORE_FAILED
    rig.paper.refused.clear()
    assert rig.log.take() == [Answer.GRANTED, Answer.QUEUED, Answer.STORE_FAILED]
    assert rig.end(held) is Answer.ENDED
    assert rig.log.take() == [Answer.ENDED, Granted]
    assert rig.now_is(waiter).fence == 2


def test_a_hangup_that_fails_is_done_when_it_works_again_by_itself() -> None:
    rig = PaperRig()
    rig.ask()
    rig.ask(session=2)
    rig.log.take()
    rig.paper.refused["begin"] = StoreFailed
    rig.hangup(1)
    assert rig.log.take() == []
    assert rig.store.next_deadline() == rig.clock.now + RETRY_NS
    assert rig.alarms[-1] == rig.clock.now + RETRY_NS
    rig.after(1)
    assert rig.log.take() == []
    rig.paper.refused.clear()
    rig.after(1)
    assert rig.log.take() == [(Ended, Reason.LAPSED), Granted]


def test_a_hangup_that_failed_comes_before_what_is_asked_later() -> None:
    rig = PaperRig()
    rig.ask()
    rig.log.take()
    rig.paper.refused["commit"] = StoreFailed
    rig.hangup(1)
    rig.paper.refused.clear()
    rig.ask(session=2)
    assert rig.log.take() == [(Ended, Reason.LAPSED), Answer.GRANTED]


def test_a_withdrawal_that_nobody_awaits_is_not_lost_either() -> None:
    rig = PaperRig()
    rig.ask()
    waiter = rig.ask(session=RESIDENT, ticket=b"once")
    rig.log.take()
    rig.paper.refused["keep"] = StoreBusy
    rig.do(Cancel(RESIDENT, waiter.ticket, quiet=True))
    assert rig.log.take() == []
    rig.paper.refused.clear()
    rig.after(1)
    assert rig.log.take() == [Answer.CANCELLED]


def test_however_many_have_hung_up_the_others_get_their_answers_while_it_fails() -> None:
    # They used to fill the batch again and again, so that nobody else was ever reached.
    rig = PaperRig(batch_max=2)
    for session in range(1, 6):
        rig.ask(b"lock:%d" % session, session=session)
    rig.log.take()
    rig.paper.refused["commit"] = StoreFailed
    rig.put(*(Hangup(session) for session in range(1, 6)))
    for session in range(6, 9):
        rig.put(rig.claim(session=session))
    for _ in range(20):
        rig.runner.step()
    assert rig.runner.idle
    assert rig.log.take() == [Answer.STORE_FAILED] * 3
    rig.paper.refused.clear()
    rig.after(1)
    assert rig.log.take() == [(Ended, Reason.LAPSED)] * 5


def test_an_expiry_that_fails_is_tried_again_a_little_later() -> None:
    rig = PaperRig()
    rig.ask(lease_s=5)
    rig.ask(session=2)
    rig.log.take()
    rig.paper.refused["commit"] = StoreFailed
    rig.after(5)
    assert rig.log.take() == []
    rig.paper.refused.clear()
    rig.after(0.9)
    assert rig.log.take() == []
    rig.after(0.1)
    assert rig.log.take() == [(Ended, Reason.EXPIRED), Granted]


def test_once_it_works_again_deadlines_are_kept_to_the_instant() -> None:
    rig = PaperRig()
    rig.ask(lease_s=5)
    rig.after(4.5)
    rig.paper.refused["begin"] = StoreBusy
    rig.ask(b"lock:other")
    rig.paper.refused.clear()
    rig.ask(b"lock:other")
    rig.log.take()
    rig.after(0.5)
    assert rig.log.take() == [(Ended, Reason.EXPIRED)]


def test_looks_and_counts_tell_what_is_safe_also_while_it_fails() -> None:
    rig = PaperRig()
    rig.ask()
    rig.log.take()
    for call in ("begin", "commit"):
        rig.paper.refused = {call: StoreFailed}
        heard: list[Census] = []
        rig.store.count(heard.append)
        rig.do(rig.claim(b"lock:other"), Look())
        assert rig.log.take() == [Answer.STORE_FAILED, "seen"]
        assert [view.key for view in rig.log.views] == [KEY]
        assert [(census.keys, census.held) for census in heard] == [(1, 1)]


def test_a_probe_tells_why_nothing_can_be_kept() -> None:
    rig = PaperRig()
    assert rig.probe() is None
    assert commits(rig) == 1
    rig.paper.refused["commit"] = StoreFailed
    assert rig.probe() == "paper refuses to commit"
    assert rig.shelf.fault == "paper refuses to commit"
    rig.paper.refused.clear()
    assert rig.probe() is None
    assert rig.shelf.fault is None


def test_a_sweep_that_fails_is_left_to_the_next_one() -> None:
    rig = PaperRig()
    rig.end(rig.ask())
    rig.after(61)
    rig.paper.refused["commit"] = StoreFailed
    rig.sweep()
    rig.paper.refused.clear()
    rig.sweep()
    again = rig.ask()
    assert again.fence == 2


def test_a_document_that_nobody_can_read_fails_those_who_ask_for_its_key() -> None:
    rig = PaperRig(PaperBackend())
    rig.paper.durable[b"lock:bad"] = Record(b"lock:bad", 3, 1, b"no document")
    rig.ask(b"lock:bad")
    rig.ask()
    assert rig.log.take() == [Answer.STORE_FAILED, Answer.GRANTED]


# --- time ---


def test_the_alarm_is_set_for_the_next_deadline_whenever_a_transaction_is_over() -> None:
    rig = PaperRig()
    rig.ask(lease_s=None)
    assert rig.alarms == []
    rig.ask(b"lock:other", lease_s=20)
    assert rig.alarms == [rig.clock.now + 20 * SECOND]
    assert rig.store.next_deadline() == rig.clock.now + 20 * SECOND


def test_one_tick_at_a_time_is_under_way() -> None:
    rig = PaperRig()
    rig.ask(lease_s=5)
    rig.clock.advance(5)
    for _ in range(3):
        rig.store.tick(rig.clock())
    assert rig.store.next_deadline() == FOREVER
    rig.settle()
    assert commits(rig) == 2
    rig.store.tick(rig.clock())
    assert rig.runner.idle


def test_each_commit_is_told_to_whoever_measures() -> None:
    rig = PaperRig()
    seen: list[tuple[int, int]] = []
    rig.shelf.tally.observe = lambda commands, ns: seen.append((commands, ns))
    rig.do(rig.claim(), rig.claim(session=2))
    rig.look()
    assert seen == [(2, 0)]


# --- the end ---


def test_closing_does_what_was_asked_for_and_closes_the_backend() -> None:
    rig = PaperRig()
    held = rig.ask()
    rig.put(End(held.key, held.token))
    rig.runner.take_in()
    rig.put(rig.claim(b"lock:other"))
    rig.log.then = lambda: rig.put(Hangup(1))
    rig.shelf.close()
    assert rig.paper.closed
    assert rig.log.take()[:3] == [Answer.GRANTED, Answer.ENDED, Answer.GRANTED]
    assert all(record.document is None for record in rig.paper.durable.values())


def test_closing_tries_once_more_what_has_failed() -> None:
    rig = PaperRig()
    rig.ask()
    rig.paper.refused["begin"] = StoreFailed
    rig.hangup(1)
    rig.paper.refused.clear()
    rig.shelf.close()
    assert rig.paper.durable[KEY].document is None


def test_what_is_asked_after_closing_is_not_done() -> None:
    rig = PaperRig()
    rig.shelf.close()
    rig.put(rig.claim())
    rig.runner.finish()
    assert rig.paper.durable == {}
