"""Tickets: the caller's own name for a claim, which makes asking a second time harmless.

Whoever knows a ticket may come back for its claim, so tickets are never logged, shown or derived from anything.
"""

from collections.abc import Callable
from typing import Final

# As many random bytes as nobody can guess; spelled in hexadecimal they pass through every protocol of ours.
RANDOM_BYTES: Final = 16


def new_ticket(dice: Callable[[int], bytes]) -> str:
    """Make a ticket that nobody else has."""
    return dice(RANDOM_BYTES).hex()
