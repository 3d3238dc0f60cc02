"""One command on a table: the answer comes before the news, and a ticket that is shown again asks for nothing new.

What commands mean is tested with the engine.
"""

import pytest

from holdfast.engine.table import Table
from holdfast.stores.apply import Told, apply, is_unanswered
from holdfast.testing.mint import CountingMint
from holdfast.words import (
    EX,
    FOREVER,
    PR,
    RESIDENT,
    SECOND,
    UNLIMITED,
    Answer,
    Cancel,
    Claim,
    Command,
    Convert,
    End,
    Ended,
    Granted,
    Hangup,
    Look,
    Reason,
    Renew,
    Wait,
)
from tests.stores.rig import KEY, Log

NOW = 1000 * SECOND


@pytest.fixture
def table() -> Table:
    return Table(CountingMint(), 10, 0, 60 * SECOND)


def claim(ticket: int | bytes, want: int = EX, key: bytes = KEY, lease_s: int = 30) -> Claim:
    c = Claim(key, want, 1, UNLIMITED, lease_s * SECOND, FOREVER)
    c.session, c.ticket = RESIDENT, ticket
    return c


def tell(told: Told) -> list[object]:
    log = Log()
    told.tell(log)
    return log.take()


def test_every_command_is_answered_and_its_news_told_behind(table: Table) -> None:
    one, two = claim(1), claim(2)
    assert tell(apply(table, one, NOW)) == [Answer.GRANTED]
    assert tell(apply(table, two, NOW)) == [Answer.QUEUED]
    assert tell(apply(table, Wait(RESIDENT, 2, SECOND), NOW)) == [Answer.QUEUED]
    assert tell(apply(table, Convert(RESIDENT, 1, PR), NOW)) == [Answer.GRANTED]
    assert tell(apply(table, Cancel(RESIDENT, 1), NOW)) == [Answer.BUSY]
    assert tell(apply(table, End(KEY, one.token), NOW)) == [Answer.ENDED, Granted]
    assert tell(apply(table, Look(), NOW)) == ["seen"]
    assert tell(apply(table, Hangup(RESIDENT), NOW)) == [(Ended, Reason.LAPSED)]
    assert tell(apply(table, Hangup(RESIDENT), NOW)) == []


def test_a_renewal_is_answered_with_the_claim_that_it_is_about(table: Table) -> None:
    one = claim(1)
    apply(table, one, NOW)
    told = apply(table, Renew(KEY, one.token, 60 * SECOND), NOW)
    assert (told.answer, told.claim) == (Answer.RENEWED, one)
    told = apply(table, Renew(KEY, b"another", 60 * SECOND), NOW)
    assert (told.answer, told.claim) == (Answer.NOT_HELD, None)


def test_a_ticket_that_is_shown_again_is_answered_with_what_it_was_given(table: Table) -> None:
    one, two = claim(b"one"), claim(b"two")
    apply(table, one, NOW)
    apply(table, two, NOW)
    for first, answer in ((one, Answer.GRANTED), (two, Answer.QUEUED)):
        again = claim(first.ticket)
        told = apply(table, again, NOW)
        assert (told.command, told.answer, told.claim) == (again, answer, first)


def test_a_ticket_whose_claim_is_over_asks_anew_and_tells_what_was_found_out(table: Table) -> None:
    one = claim(b"one", lease_s=5)
    apply(table, one, NOW)
    again = claim(b"one")
    told = apply(table, again, NOW + 5 * SECOND)
    assert (told.answer, told.claim) == (Answer.GRANTED, again)
    assert tell(told) == [Answer.GRANTED, (Ended, Reason.EXPIRED)]


def test_news_of_time_that_has_passed_needs_no_command() -> None:
    c = claim(1)
    assert tell(Told(None, None, None, [Ended(c, Reason.BROKEN, c.state)])) == [(Ended, Reason.BROKEN)]


@pytest.mark.parametrize(
    ("command", "unanswered"),
    [
        (Hangup(1), True),
        (Cancel(1, 1, quiet=True), True),
        (Cancel(1, 1), False),
        (claim(1), False),
        (End(KEY, b""), False),
        (Look(), False),
    ],
)
def test_some_commands_are_answered_to_nobody(command: Command, unanswered: bool) -> None:
    assert is_unanswered(command) is unanswered
