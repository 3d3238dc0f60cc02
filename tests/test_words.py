"""The vocabulary: the table of modes against the one in the literature, and what a word says of itself.

Rules about who may hold what are tested in engine/.
"""

from itertools import product

import pytest

from holdfast.words import (
    BESIDE,
    BIT,
    CLASH,
    CR,
    CW,
    EX,
    FOREVER,
    NL,
    PR,
    PW,
    UNLIMITED,
    Bond,
    Claim,
    End,
    Group,
    Hangup,
    Holder,
    Look,
    Mode,
    Reason,
    Renew,
    View,
    Wait,
    WaitFor,
    covers,
    member_ticket,
)
from tests.engine.naive import compatible

PAIRS = list(product(Mode, Mode))


@pytest.mark.parametrize(("held", "want"), PAIRS, ids=lambda mode: mode.name)
def test_every_pair_of_modes_clashes_just_where_the_classic_table_says_so(held: Mode, want: Mode) -> None:
    assert bool(CLASH[held] & BIT[want]) is not compatible(held.name, want.name)


@pytest.mark.parametrize(("held", "want"), PAIRS, ids=lambda mode: mode.name)
def test_clashing_is_mutual(held: Mode, want: Mode) -> None:
    assert bool(CLASH[held] & BIT[want]) is bool(CLASH[want] & BIT[held])


@pytest.mark.parametrize(("strong", "weak"), PAIRS, ids=lambda mode: mode.name)
def test_a_mode_covers_another_if_it_keeps_out_all_that_the_other_keeps_out(strong: Mode, weak: Mode) -> None:
    kept_out = {mode for mode in Mode if not compatible(weak.name, mode.name)}
    assert covers(strong, weak) is all(not compatible(strong.name, mode.name) for mode in kept_out)


def test_strength_is_a_partial_order_in_which_reading_and_writing_together_are_apart() -> None:
    assert not covers(PR, CW)
    assert not covers(CW, PR)
    apart = [(one, other) for one, other in PAIRS if not covers(one, other) and not covers(other, one)]
    assert apart == [(CW, PR), (PR, CW)]


@pytest.mark.parametrize("want", Mode, ids=lambda mode: mode.name)
def test_a_holder_steps_aside_by_going_down_to_the_strongest_mode_beside_the_wanted_one(want: Mode) -> None:
    beside = Mode(BESIDE[want])
    assert compatible(Mode(beside).name, want.name)
    for mode in Mode:
        assert not compatible(mode.name, want.name) or covers(beside, mode)


def test_the_modes_to_step_aside_to_are_those_of_the_specification() -> None:
    assert dict(zip(Mode, BESIDE, strict=True)) == {NL: EX, CR: PW, CW: CW, PR: PR, PW: CR, EX: NL}


def test_forever_is_later_than_any_deadline_and_still_fits_a_document_when_a_time_is_added() -> None:
    three_centuries_ns = 300 * 366 * 24 * 3600 * 10**9
    assert three_centuries_ns < 2**64
    assert FOREVER > 2 * 10**18
    assert FOREVER + 2 * 10**18 < 2**64


def test_a_claim_begins_as_a_question_that_holds_nothing() -> None:
    c = Claim(b"k", EX, 1, UNLIMITED, FOREVER, 0)
    assert (c.mode, c.fence, c.token, c.deadline, c.convert_deadline) == (NL, 0, b"", FOREVER, FOREVER)
    assert (c.reason, c.book) == (None, None)
    assert (c.queue, c.tracked, c.listens) == (True, False, False)


def test_what_few_claims_have_takes_no_place_before_there_is_any() -> None:
    c = Claim(b"k", EX, 1, UNLIMITED, FOREVER, 0)
    c.convert_deadline, c.asked, c.nudged, c.rival, c.seen, c.bond = FOREVER, 0, 0, None, None, None
    assert c.more is None
    c.bond = Bond(b"t", 1, 2, 3)
    assert c.more is not None
    assert (c.bond.ticket, c.bond.index, c.bond.count, c.bond.number, c.bond.ties) == (b"t", 1, 2, 3, None)
    assert member_ticket(c.bond.ticket, c.bond.index) == b"t#1"


def test_a_group_carries_what_it_was_made_of() -> None:
    c = Claim(b"k", EX, 1, UNLIMITED, FOREVER, 0)
    group = Group(b"t", [c], 5)
    assert (group.session, group.ticket, group.claims, group.patience_ns) == (0, b"t", [c], 5)
    assert (group.queue, group.tracked, group.refuses) == (True, False, False)


def test_a_claim_introduces_itself_without_its_secret() -> None:
    c = Claim(b"k", EX, 1, UNLIMITED, FOREVER, 0)
    c.session, c.ticket, c.secret, c.token = 7, b"t", b"s3cret", b"s3c"
    assert repr(c) == "<Claim b'k' 7/b't' ASKED mode=NL want=EX fence=0>"


def test_commands_carry_what_they_were_made_of() -> None:
    wait, wait_for, renew = Wait(3, 1, 5), WaitFor(b"k", 6), Renew(b"k", b"t", 7)
    assert (wait.session, wait.ticket, wait.patience_ns) == (3, 1, 5)
    assert (wait_for.session, wait_for.key, wait_for.patience_ns) == (0, b"k", 6)
    assert (renew.session, renew.key, renew.token, renew.lease_ns) == (0, b"k", b"t", 7)
    end, hangup, look = End(b"k", b"t"), Hangup(3), Look(b"k")
    assert (end.session, end.reason, end.value) == (0, Reason.RELEASED, None)
    assert (hangup.session, hangup.keep_held) == (3, False)
    assert (look.session, look.prefix) == (0, b"k")


def test_a_view_tells_of_holders_what_doors_may_pass_on() -> None:
    c = Claim(b"k", PW, 2, 5, FOREVER, 0)
    c.session, c.mode, c.fence, c.deadline = 7, PW, 9, 11
    view = View(b"k", 5, [Holder(c)], 4, 12, 1)
    holder = view.holders[0]
    assert (holder.session, holder.mode, holder.units, holder.fence, holder.deadline) == (7, PW, 2, 9, 11)
    assert (view.key, view.limit, view.waiters, view.touched) == (b"k", 5, 4, 12)
    assert (holder.owner, holder.secret) == (b"", b"")
