"""All checkers, in the order in which their findings say most.

A history is judged here and nowhere else.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from sim.checkers.answers import check_answers
from sim.checkers.exclusion import check_exclusion
from sim.checkers.fences import check_fences
from sim.checkers.framing import check_framing
from sim.checkers.leases import check_leases
from sim.checkers.ledger import check_ledger
from sim.checkers.leftovers import check_leftovers
from sim.checkers.order import check_order
from sim.checkers.patience import check_patience
from sim.checkers.promises import check_promises
from sim.checkers.straight import straighten
from sim.checkers.talks import Finding, Talks
from sim.history import History

Checker = Callable[[Talks], Iterator[Finding]]

CHECKERS: tuple[Checker, ...] = (
    check_leftovers,
    check_promises,
    check_exclusion,
    check_fences,
    check_order,
    check_leases,
    check_patience,
    check_framing,
    check_answers,
    check_ledger,
)

# One mistake can make a thousand findings; the first few of each checker are enough.
FINDINGS_MAX = 3


def judge(history: History) -> list[Finding]:
    """Let every checker say what it finds."""
    talks = straighten(Talks(history))
    return [finding for check in CHECKERS for finding in islice(check(talks), FINDINGS_MAX)]
