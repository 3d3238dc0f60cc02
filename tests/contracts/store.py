"""What every store owes its callers, whatever it keeps its keys in: one suite, run whole on each of them.

Nothing here knows which store it is, nor what a restart or a failure would do to it.
"""

from holdfast.engine.document import decode, encode
from holdfast.secret import lease_id_of
from holdfast.words import (
    CR,
    CW,
    EX,
    NL,
    PR,
    RESIDENT,
    SECOND,
    Answer,
    Cancel,
    Convert,
    Ended,
    Granted,
    Hangup,
    Nudged,
    Proof,
    Reason,
    Renew,
    Stayed,
    Wait,
)
from tests.stores.rig import KEY, Rig

POOL = b"sem:pool"
OTHER = b"lock:other"


class StoreContract:
    """Subclass it with a fixture `rig`; limits are set with `limited`."""

    def limited(self, **limits: int) -> Rig:
        raise NotImplementedError

    # --- exclusive, shared, seats, modes ---

    def test_a_free_key_is_granted_and_a_held_one_is_waited_for(self, rig: Rig) -> None:
        one, two = rig.ask(), rig.ask(session=2)
        assert rig.log.take() == [Answer.GRANTED, Answer.QUEUED]
        assert rig.end(one) is Answer.ENDED
        assert rig.log.take() == [Answer.ENDED, Granted]
        assert rig.now_is(two).fence > one.fence
        assert rig.end(one) is Answer.NOT_HELD
        assert rig.end(two) is Answer.ENDED

    def test_waiters_are_served_in_the_order_of_their_arrival(self, rig: Rig) -> None:
        held = rig.ask()
        waiting = [rig.ask(session=session) for session in (4, 2, 3)]
        fences = [held.fence]
        for claim in waiting:
            rig.end(held)
            held = rig.now_is(claim)
            fences.append(held.fence)
        assert fences == sorted(set(fences))

    def test_readers_share_and_a_writer_waits_for_all_of_them(self, rig: Rig) -> None:
        readers = [rig.ask(want=PR, session=session) for session in (1, 2)]
        writer = rig.ask(session=3)
        late = rig.ask(want=PR, session=4)
        assert rig.log.take() == [Answer.GRANTED, Answer.GRANTED, Answer.QUEUED, Answer.QUEUED]
        for reader in readers:
            rig.end(reader)
        assert rig.log.take() == [Answer.ENDED, Answer.ENDED, Granted]
        rig.end(writer)
        assert rig.log.take() == [Answer.ENDED, Granted]
        assert rig.now_is(late).mode == PR

    def test_seats_are_given_out_up_to_the_limit(self, rig: Rig) -> None:
        seats = [
            rig.ask(POOL, CW, session=session, limit=3, units=units) for session, units in ((1, 1), (2, 2), (3, 1))
        ]
        assert rig.log.take() == [Answer.GRANTED, Answer.GRANTED, Answer.QUEUED]
        rig.end(seats[1])
        assert rig.log.take() == [Answer.ENDED, Granted]

    def test_a_limit_that_is_not_that_of_the_key_is_refused(self, rig: Rig) -> None:
        rig.ask(POOL, CW, limit=3)
        rig.ask(POOL, CW, limit=4)
        rig.ask(b"sem:small", CW, limit=1, units=2)
        assert rig.log.take() == [Answer.GRANTED, Answer.LIMIT_MISMATCH, Answer.LIMIT_MISMATCH]

    def test_the_first_of_two_who_come_together_says_what_the_limit_is(self, rig: Rig) -> None:
        rig.end(rig.ask(POOL, CW, limit=2))
        rig.after(61)
        rig.sweep()
        rig.log.take()
        rig.put(rig.claim(POOL, CW, limit=3), rig.claim(POOL, CW, limit=5))
        rig.settle()
        assert rig.log.take() == [Answer.GRANTED, Answer.LIMIT_MISMATCH]

    def test_a_try_leaves_nothing_behind(self, rig: Rig) -> None:
        held = rig.ask()
        tried = rig.ask(session=2, queue=False)
        hurried = rig.ask(session=3, patience_s=0)
        assert rig.log.take() == [Answer.GRANTED, Answer.BUSY, Answer.TIMED_OUT]
        assert tried.rival is not None
        assert tried.rival.fence == hurried.rival.fence == held.fence
        rig.end(held)
        assert rig.log.take() == [Answer.ENDED]

    def test_a_conversion_waits_for_others_and_gets_a_new_fence(self, rig: Rig) -> None:
        one, two = rig.ask(want=PR), rig.ask(want=PR, session=2)
        first = one.fence
        assert rig.do(Convert(1, one.ticket, EX)) is Answer.CONVERTING
        rig.ask(want=CR, session=3)
        rig.log.take()
        rig.end(two)
        assert rig.log.take() == [Answer.ENDED, Granted]
        assert rig.now_is(one).mode == EX
        assert rig.now_is(one).fence > two.fence > first
        assert rig.do(Convert(1, one.ticket, NL)) is Answer.GRANTED
        assert rig.log.take() == [Answer.GRANTED, Granted]

    def test_a_conversion_can_be_called_off(self, rig: Rig) -> None:
        one, _ = rig.ask(want=PR), rig.ask(want=PR, session=2)
        rig.do(Convert(1, one.ticket, EX))
        rig.log.take()
        assert rig.do(Cancel(1, one.ticket)) is Answer.CANCELLED
        assert rig.log.take() == [Answer.CANCELLED, (Stayed, Reason.CANCELLED)]
        assert rig.do(Convert(9, 9, EX)) is Answer.NOT_HELD

    def test_two_conversions_that_wait_for_each_other_are_told_so(self, rig: Rig) -> None:
        one, two = rig.ask(want=PR), rig.ask(want=PR, session=2)
        assert rig.do(Convert(1, one.ticket, EX)) is Answer.CONVERTING
        assert rig.do(Convert(2, two.ticket, EX)) is Answer.WOULD_DEADLOCK

    # --- two phases, withdrawing ---

    def test_a_second_phase_starts_the_lease_again_and_waits_with_its_own_patience(self, rig: Rig) -> None:
        one = rig.ask(tracked=True, lease_s=30)
        two = rig.ask(tracked=True, session=2)
        rig.after(10)
        assert rig.do(Wait(1, one.ticket, SECOND)) is Answer.GRANTED
        assert rig.now_is(one).deadline == rig.clock.now + 30 * SECOND
        assert rig.do(Wait(2, two.ticket, 5 * SECOND)) is Answer.QUEUED
        rig.log.take()
        rig.after(5)
        assert rig.log.take() == [(Ended, Reason.TIMED_OUT)]
        assert rig.do(Wait(2, two.ticket, SECOND)) is Answer.NOT_ENQUEUED

    def test_a_first_phase_whose_lease_ran_out_is_told_of(self, rig: Rig) -> None:
        rig.ask(tracked=True, lease_s=3)
        rig.log.take()
        rig.after(3)
        assert rig.log.take() == [(Ended, Reason.EXPIRED)]

    def test_a_waiter_withdraws_and_lets_those_behind_it_through(self, rig: Rig) -> None:
        rig.ask(want=PR)
        writer = rig.ask(session=2)
        rig.ask(want=PR, session=3)
        rig.log.take()
        assert rig.do(Cancel(2, writer.ticket)) is Answer.CANCELLED
        assert rig.log.take() == [Answer.CANCELLED, Granted]
        assert rig.do(Cancel(2, writer.ticket)) is Answer.NOT_HELD

    # --- leases and patience ---

    def test_a_lease_ends_at_its_instant_and_the_next_is_served_then(self, rig: Rig) -> None:
        one, two = rig.ask(lease_s=10), rig.ask(session=2, lease_s=7)
        rig.log.take()
        rig.after(9.999)
        assert rig.log.take() == []
        rig.after(0.001)
        assert rig.log.take() == [(Ended, Reason.EXPIRED), Granted]
        assert rig.now_is(two).deadline == rig.clock.now + 7 * SECOND
        assert rig.end(one) is Answer.NOT_HELD
        assert rig.renew(one, 10) is Answer.NOT_HELD

    def test_a_lease_that_ran_out_before_anybody_looked_is_over(self, rig: Rig) -> None:
        one = rig.ask(lease_s=10)
        rig.clock.advance(11)
        assert rig.end(one) is Answer.NOT_HELD
        assert rig.log.take() == [Answer.GRANTED, Answer.NOT_HELD, (Ended, Reason.EXPIRED)]

    def test_a_renewal_starts_the_lease_again_and_may_be_forbidden_to_shorten_it(self, rig: Rig) -> None:
        one = rig.ask(lease_s=30)
        assert rig.renew(one, 60) is Answer.RENEWED
        assert rig.renew(one, 1, shortens=False) is Answer.RENEWED
        assert rig.now_is(one).deadline == rig.clock.now + 60 * SECOND
        assert rig.renew(one, 5) is Answer.RENEWED
        rig.after(5)
        assert rig.renew(one, 60) is Answer.NOT_HELD

    def test_who_must_show_more_than_the_token_has_to_show_all_of_it(self, rig: Rig) -> None:
        one = rig.ask(owner=b"me")
        lease_id = lease_id_of(one.secret)
        another = lease_id[:-1] + (b"1" if lease_id[-1:] != b"1" else b"2")
        assert rig.do(Renew(KEY, one.token, SECOND, Proof(b"me", another))) is Answer.NOT_HELD
        assert rig.end(one, proof=Proof(b"you", lease_id)) is Answer.NOT_HELD
        assert rig.end(one, proof=Proof(b"me", lease_id)) is Answer.ENDED

    def test_patience_runs_out(self, rig: Rig) -> None:
        rig.ask()
        rig.ask(session=2, patience_s=4)
        rig.ask(session=3, patience_s=2)
        rig.log.take()
        rig.after(2)
        assert rig.log.take() == [(Ended, Reason.TIMED_OUT)]
        rig.after(2)
        assert rig.log.take() == [(Ended, Reason.TIMED_OUT)]

    def test_what_is_held_for_ever_is_held_for_ever(self, rig: Rig) -> None:
        one = rig.ask(lease_s=None)
        rig.after(10_000_000)
        assert rig.end(one) is Answer.ENDED

    # --- hangups ---

    def test_a_hangup_ends_what_is_held_and_what_waits(self, rig: Rig) -> None:
        rig.ask()
        rig.ask(OTHER, session=2)
        rig.ask(OTHER, session=1)
        rig.ask(session=3)
        rig.log.take()
        rig.hangup(1)
        assert rig.log.take() == [(Ended, Reason.LAPSED), (Ended, Reason.LAPSED), Granted]
        rig.end(rig.log.claims[2, 2])
        assert rig.log.take() == [Answer.ENDED]

    def test_a_hangup_that_keeps_leaves_what_is_held_to_its_lease(self, rig: Rig) -> None:
        one = rig.ask(lease_s=20)
        rig.ask(OTHER, session=2, lease_s=None)
        rig.ask(OTHER, session=1)
        waiter = rig.ask(session=3)
        rig.log.take()
        rig.hangup(1, keep_held=True)
        assert rig.log.take() == [(Ended, Reason.LAPSED)]
        assert rig.renew(one, 30) is Answer.RENEWED
        rig.after(30)
        assert rig.log.take() == [Answer.RENEWED, (Ended, Reason.EXPIRED), Granted]
        assert rig.now_is(waiter).fence > one.fence

    def test_a_converting_holder_that_hangs_up_and_keeps_falls_back(self, rig: Rig) -> None:
        one, _ = rig.ask(want=PR), rig.ask(want=PR, session=2)
        rig.do(Convert(1, one.ticket, EX))
        rig.ask(want=PR, session=3)
        rig.log.take()
        rig.hangup(1, keep_held=True)
        assert rig.log.take() == [(Stayed, Reason.LAPSED), Granted]

    def test_an_operator_breaks_a_claim_and_its_session_hears_of_it(self, rig: Rig) -> None:
        one = rig.ask(tracked=True)
        rig.log.take()
        assert rig.end(one, reason=Reason.BROKEN) is Answer.ENDED
        assert rig.log.take() == [Answer.ENDED, (Ended, Reason.BROKEN)]

    def test_a_holder_that_listens_hears_that_somebody_waits(self, rig: Rig) -> None:
        rig.ask(listens=True)
        rig.log.take()
        rig.ask(session=2)
        assert rig.log.take() == [Answer.QUEUED, Nudged]

    # --- tickets ---

    def test_a_ticket_that_is_shown_again_finds_the_claim_that_it_was_given(self, rig: Rig) -> None:
        one = rig.ask(session=RESIDENT, ticket=b"once")
        again = rig.ask(session=RESIDENT, ticket=b"once")
        assert rig.log.take() == [Answer.GRANTED, Answer.GRANTED]
        assert rig.now_is(again).fence == one.fence
        two = rig.ask(session=RESIDENT, ticket=b"twice")
        rig.ask(session=RESIDENT, ticket=b"twice")
        assert rig.log.take() == [Answer.QUEUED, Answer.QUEUED]
        rig.end(one)
        rig.end(two)
        rig.log.take()
        later = rig.ask(session=RESIDENT, ticket=b"once")
        assert rig.log.take() == [Answer.GRANTED]
        assert later.fence > one.fence

    def test_a_ticket_whose_claim_has_run_out_unseen_asks_anew(self, rig: Rig) -> None:
        one = rig.ask(session=RESIDENT, ticket=b"once", lease_s=1)
        rig.clock.advance(2)
        two = rig.ask(session=RESIDENT, ticket=b"once")
        assert rig.log.take() == [Answer.GRANTED, Answer.GRANTED, (Ended, Reason.EXPIRED)]
        assert two.fence > one.fence

    # --- looking ---

    def test_a_look_shows_holders_and_counts_waiters(self, rig: Rig) -> None:
        held = rig.ask(owner=b"me")
        rig.ask(session=2)
        rig.ask(POOL, CW, limit=3)
        job, pool = sorted(rig.look(), key=lambda view: view.key)
        assert (job.key, job.waiters, job.version, pool.key, pool.limit) == (KEY, 1, 1, POOL, 3)
        (holder,) = job.holders
        assert (holder.owner, holder.fence, holder.deadline) == (b"me", held.fence, held.deadline)

    def test_a_look_can_be_told_what_to_leave_out(self, rig: Rig) -> None:
        for number in range(5):
            rig.ask(b"lock:%d" % number)
        rig.ask(POOL, CW, limit=3)
        rig.end(rig.ask(b"lock:free"))
        assert [view.key for view in rig.look(prefix=b"lock:", count=2)] == [b"lock:0", b"lock:1"]
        assert [view.key for view in rig.look(prefix=b"lock:", after=b"lock:3", count=9)] == [b"lock:4", b"lock:free"]
        assert [view.key for view in rig.look(prefix=b"lock:", after=b"lock:3", held=True)] == [b"lock:4"]
        assert [view.key for view in rig.look(held=False)] == [b"lock:free"]
        assert [view.key for view in rig.look(key=POOL)] == [POOL]
        assert rig.look(key=b"lock:unknown") == []

    def test_a_count_tells_locks_from_seats(self, rig: Rig) -> None:
        rig.ask()
        rig.ask(session=2)
        for session in (1, 2, 3):
            rig.ask(POOL, CW, limit=2, session=session)
        census = rig.census()
        assert (census.keys, census.held, census.waiting) == (2, 1, 1)
        assert (census.seats_held, census.seats_waiting) == (2, 1)

    def test_a_probe_finds_nothing_wrong(self, rig: Rig) -> None:
        assert rig.probe() is None

    def test_looks_counts_and_commands_that_come_together_are_done_in_order(self, rig: Rig) -> None:
        rig.do(rig.claim(), rig.claim(session=2), Hangup(1), rig.claim(session=3))
        assert rig.log.take() == [
            Answer.GRANTED,
            Answer.QUEUED,
            (Ended, Reason.LAPSED),
            Granted,
            Answer.QUEUED,
        ]

    # --- limits ---

    def test_a_full_store_takes_in_no_new_key_but_serves_those_it_has(self) -> None:
        rig = self.limited(keys_max=2)
        held = rig.ask()
        rig.ask(OTHER)
        rig.ask(b"lock:third")
        rig.ask(session=2)
        rig.end(held)
        rig.hangup(2)
        assert rig.log.take()[:4] == [Answer.GRANTED, Answer.GRANTED, Answer.TOO_MANY_KEYS, Answer.QUEUED]
        rig.after(61)
        rig.sweep()
        rig.log.take()
        rig.ask(b"lock:third")
        assert rig.log.take() == [Answer.GRANTED]

    def test_a_full_queue_takes_nobody(self) -> None:
        rig = self.limited(waiters_max=1)
        for session in (1, 2, 3):
            rig.ask(session=session)
        assert rig.log.take() == [Answer.GRANTED, Answer.QUEUED, Answer.TOO_MANY_WAITERS]

    # --- hygiene ---

    def test_a_key_that_was_swept_away_goes_on_with_its_fences(self, rig: Rig) -> None:
        for key in (KEY, POOL):
            last = 0
            for _ in range(3):
                claim = rig.ask(key, CW, limit=4)
                assert claim.fence > last
                last = claim.fence
                rig.end(claim)
                rig.after(61)
                rig.sweep()
            assert key not in rig.table.resources

    def test_a_key_that_is_swept_and_claimed_at_once_goes_on_with_its_fences(self, rig: Rig) -> None:
        first = [rig.ask(key, CW, limit=4) for key in (KEY, POOL)]
        for claim in first:
            rig.end(claim)
        rig.clock.advance(61)
        rig.store.sweep(rig.clock())
        again = [rig.claim(key, CW, limit=4) for key in (KEY, POOL)]
        rig.do(*again)
        assert [two.fence > one.fence for one, two in zip(first, again, strict=True)] == [True, True]

    def test_room_that_a_sweep_makes_is_no_room_for_old_fences(self) -> None:
        rig = self.limited(keys_max=1)
        first = rig.ask()
        rig.end(first)
        rig.after(61)
        rig.sweep()
        rig.end(rig.ask(OTHER))
        rig.clock.advance(61)
        rig.store.sweep(rig.clock())
        again = rig.claim()
        assert rig.do(again) is Answer.GRANTED
        assert again.fence > first.fence

    def test_a_sweep_leaves_alone_who_holds_and_who_waits(self, rig: Rig) -> None:
        one, two = rig.ask(lease_s=None), rig.ask(session=2)
        rig.after(1000)
        rig.sweep()
        assert rig.end(one) is Answer.ENDED
        assert rig.end(two) is Answer.ENDED

    def test_a_value_is_left_for_the_next_holder(self, rig: Rig) -> None:
        rig.end(rig.ask(), value=b"written")
        r = rig.table.resources[KEY]
        assert (r.value, r.value_valid) == (b"written", True)
        assert decode(KEY, encode(r)).value == b"written"
