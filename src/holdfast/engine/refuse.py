"""Whether somebody who would rather be refused would close a cycle by waiting; asked before anything has changed.

Only the part of the graph that can be reached from the newcomer is looked at. Cycles themselves are found in graph.py.
"""

from typing import TYPE_CHECKING

from holdfast.engine.graph import closes
from holdfast.engine.reach import reach
from holdfast.engine.view import view_of
from holdfast.words import Claim, Waiter

if TYPE_CHECKING:
    from holdfast.engine.table import Table


def may_not_wait(table: "Table", claims: list[Claim]) -> bool:
    """Say whether a deadlock would come of it if these claims of one caller stood last in their queues."""
    starts = [table.resources[c.key] for c in claims]
    views = [view_of(r, True) for r in reach(table, starts, claims[0])]
    return closes(views, [(c.key, Waiter(c)) for c in claims])


def may_not_convert(table: "Table", c: Claim, want: int) -> bool:
    """Say whether a deadlock would come of it if a holder waited for another mode."""
    views = [view_of(r, True) for r in reach(table, [table.resources[c.key]], c)]
    waiter = Waiter(c)
    waiter.converting = True
    waiter.want = want
    waiter.group = 0
    return closes(views, [(c.key, waiter)])
