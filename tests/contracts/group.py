"""What every store owes to whoever asks for several keys at once, whatever it keeps its keys in.

A part of the suite that is run whole on each of them, in test_stores.py.
"""

from holdfast.words import PR, SECOND, Answer, Cancel, Ended, Granted, Reason, Wait
from tests.stores.rig import KEY, Rig

LEFT, RIGHT, SEATS = b"lock:left", b"lock:right", b"sem:seats"

# What is told when a token is shown: its session hears of it too, for nobody has said that it is the same.
GIVEN_BACK = [Answer.ENDED, (Ended, Reason.RELEASED)]


class GroupContract:
    """Subclass it with a fixture `rig`; limits are set with `limited`."""

    def limited(self, **limits: int) -> Rig:
        raise NotImplementedError

    def test_a_group_of_free_keys_is_granted_and_each_has_a_fence(self, rig: Rig) -> None:
        group = rig.ask_all(LEFT, RIGHT, SEATS)
        assert rig.log.take() == [Answer.GRANTED]
        assert rig.held() == {claim.key: [claim.fence] for claim in group.claims}
        rig.log.take()
        assert [rig.end(claim) for claim in group.claims] == [Answer.ENDED] * 3
        again = rig.ask_all(RIGHT, LEFT)
        assert again.claims[1].fence > group.claims[0].fence

    def test_a_group_waits_for_all_of_its_keys_and_holds_none_meanwhile(self, rig: Rig) -> None:
        held = rig.ask(LEFT)
        group = rig.ask_all(LEFT, RIGHT, session=2)
        rig.ask(RIGHT, session=3)
        assert rig.log.take() == [Answer.GRANTED, Answer.QUEUED, Answer.QUEUED]
        assert rig.held() == {LEFT: [held.fence]}
        rig.log.take()
        rig.end(held)
        assert rig.log.take() == [Answer.ENDED, Granted, Granted]
        assert sorted(rig.held()) == [LEFT, RIGHT]
        rig.log.take()
        assert rig.end(rig.now_is(group.claims[1])) is Answer.ENDED
        assert rig.log.take() == [*GIVEN_BACK, Granted]

    def test_groups_that_overlap_are_granted_in_their_order_and_none_for_ever_waits(self, rig: Rig) -> None:
        held = rig.ask(RIGHT)
        groups = [rig.ask_all(*keys, session=2) for keys in ((LEFT, RIGHT), (RIGHT, SEATS), (SEATS, LEFT))]
        rig.log.take()
        rig.end(held)
        assert rig.log.take() == [Answer.ENDED, Granted, Granted]
        for group in groups[:2]:
            for claim in group.claims:
                rig.end(claim)
            assert rig.log.take() == [*GIVEN_BACK, *GIVEN_BACK, Granted, Granted]

    def test_a_try_for_a_group_leaves_nothing_behind(self, rig: Rig) -> None:
        rig.ask(LEFT)
        rig.ask_all(LEFT, RIGHT, session=2, queue=False)
        rig.ask_all(RIGHT, LEFT, session=2, patience_s=0)
        assert rig.log.take() == [Answer.GRANTED, Answer.BUSY, Answer.TIMED_OUT]
        assert rig.census().waiting == 0
        assert list(rig.held()) == [LEFT]

    def test_a_ticket_of_a_group_that_is_shown_again_finds_it(self, rig: Rig) -> None:
        held = rig.ask(LEFT)
        rig.ask_all(LEFT, RIGHT, session=2, ticket=b"once")
        rig.ask_all(LEFT, RIGHT, session=2, ticket=b"once")
        rig.end(held)
        rig.log.take()
        again = rig.ask_all(LEFT, RIGHT, session=2, ticket=b"once")
        other = rig.ask_all(RIGHT, LEFT, session=2, ticket=b"once")
        assert rig.log.take() == [Answer.GRANTED, Answer.ALREADY_ENQUEUED]
        assert rig.held() == {claim.key: [claim.fence] for claim in again.claims}
        assert all(not claim.fence for claim in other.claims)

    def test_a_group_that_was_enqueued_is_waited_for_with_one_patience(self, rig: Rig) -> None:
        rig.ask(LEFT)
        group = rig.ask_all(LEFT, RIGHT, session=2, tracked=True)
        assert rig.do(Wait(2, group.ticket, 5 * SECOND)) is Answer.QUEUED
        rig.log.take()
        rig.after(5)
        assert rig.log.take() == [(Ended, Reason.TIMED_OUT)] * 2
        assert rig.do(Wait(2, group.ticket, SECOND)) is Answer.NOT_ENQUEUED
        assert rig.census().waiting == 0

    def test_a_wait_for_a_group_that_is_held_tells_what_it_was_granted(self, rig: Rig) -> None:
        group = rig.ask_all(LEFT, RIGHT, tracked=True, lease_s=30)
        rig.after(10)
        wait = Wait(1, group.ticket, SECOND)
        assert rig.do(wait) is Answer.GRANTED
        assert wait.claims is not None
        assert [claim.key for claim in wait.claims] == [LEFT, RIGHT]
        rig.after(25)
        assert sorted(rig.held()) == [LEFT, RIGHT]
        rig.after(5)
        assert rig.held() == {}

    def test_a_group_is_withdrawn_or_given_back_by_its_ticket(self, rig: Rig) -> None:
        held = rig.ask(LEFT)
        group = rig.ask_all(LEFT, RIGHT, session=2)
        late = rig.ask(RIGHT, session=3)
        rig.log.take()
        assert rig.do(Cancel(2, group.ticket)) is Answer.CANCELLED
        assert rig.log.take() == [Answer.CANCELLED, (Ended, Reason.CANCELLED), Granted]
        rig.end(rig.now_is(late))
        rig.end(held)
        again = rig.ask_all(LEFT, RIGHT, session=2)
        assert rig.do(Cancel(2, again.ticket)) is Answer.BUSY
        assert rig.do(Cancel(2, again.ticket, held=True)) is Answer.ENDED
        assert rig.held() == {}

    def test_a_session_that_hangs_up_takes_its_groups_along(self, rig: Rig) -> None:
        rig.ask(LEFT)
        rig.ask_all(LEFT, RIGHT, session=2)
        rig.ask_all(SEATS, KEY, session=2)
        rig.ask(RIGHT, PR, session=3)
        rig.log.take()
        rig.hangup(2)
        assert rig.log.take() == [(Ended, Reason.LAPSED)] * 4 + [Granted]
        assert sorted(rig.held()) == [LEFT, RIGHT]

    def test_what_is_left_of_a_group_over_a_session_is_found_by_its_ticket(self, rig: Rig) -> None:
        group = rig.ask_all(LEFT, RIGHT, session=2)
        fences = {claim.key: [claim.fence] for claim in group.claims}
        rig.hangup(2, keep_held=True)
        rig.ask_all(LEFT, RIGHT, session=3, ticket=group.ticket)
        assert rig.held() == fences
        rig.hangup(3)
        assert rig.held() == {}

    def test_the_limits_hold_for_all_of_a_group_or_for_none(self) -> None:
        rig = self.limited(keys_max=3, waiters_max=1)
        rig.ask(KEY)
        rig.ask_all(LEFT, RIGHT, SEATS)
        assert rig.log.take() == [Answer.GRANTED, Answer.TOO_MANY_KEYS]
        rig.ask(KEY, session=2)
        rig.ask_all(LEFT, KEY, session=3)
        assert rig.log.take() == [Answer.QUEUED, Answer.TOO_MANY_WAITERS]
        assert list(rig.held()) == [KEY]

    def test_a_group_comes_in_its_turn_among_others_that_come_together(self, rig: Rig) -> None:
        one, group, two = rig.claim(RIGHT), rig.group(LEFT, RIGHT, session=2), rig.claim(LEFT, session=3)
        rig.put(one, group, two)
        rig.settle()
        assert rig.log.take() == [Answer.GRANTED, Answer.QUEUED, Answer.QUEUED]
        rig.end(rig.now_is(one))
        assert rig.log.take() == [Answer.ENDED, Granted, Granted]
