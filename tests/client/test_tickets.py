"""A ticket is 16 bytes of chance, spelled so that every protocol takes it, and derived from nothing."""

import os
import re

from holdfast.client.tickets import RANDOM_BYTES, new_ticket


def test_a_ticket_is_all_of_what_the_dice_gave_and_nothing_else():
    asked = []

    def dice(count):
        asked.append(count)
        return bytes(range(count))

    assert new_ticket(dice) == bytes(range(RANDOM_BYTES)).hex()
    assert asked == [16]


def test_a_ticket_passes_through_every_protocol():
    # What docs/protocol/native.md says of tickets; Idempotency-Key takes all that is printable.
    assert re.fullmatch(r"[A-Za-z0-9_.:~+/=@-]{16,64}", new_ticket(os.urandom))


def test_no_two_tickets_are_the_same():
    assert len({new_ticket(os.urandom) for _ in range(1000)}) == 1000
