"""What a restart leaves of a resource: those who hold keep it until their leases end, and nobody waits any more.

Who is connected after the restart is somebody else; nobody is told here, for nobody is there to be told.
"""

from holdfast.engine.resource import Resource, holders, leave_converting, remove
from holdfast.words import CONVERTING, Reason


def survive(r: Resource, resident: int) -> None:
    """Carry a resource over a restart. Claims of the resident session stay in it; all others belong to nobody."""
    if r.waiting is not None:
        for c in r.waiting.values():
            remove(r, c, Reason.LAPSED)
    for c in holders(r):
        if c.state is CONVERTING:
            leave_converting(r, c)
        if c.session != resident:
            c.session = resident  # its number is somebody else's by now
            c.kept = True
    r.stuck = False
