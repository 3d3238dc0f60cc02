"""What can go wrong with a lease in a database, by the names that users of cluster locks know.

Busy, lost and unavailable are three different things, and nothing else is ever mistaken for one of them.
"""

from holdfast.errors import BadRequest, Busy, LeaseLost, NotHeld, Refused, Unavailable


class LockException(Busy):
    """The lock was not to be had in time."""


class LockNotHeld(NotHeld):
    """The database has no record that we hold the lock."""


class LockLost(LockNotHeld, LeaseLost):
    """We held the lock, and do not any more: somebody else may."""


class AlreadyHeld(Refused):
    """This process holds the lock already, or is asking for it: it would wait for itself."""


class DatabaseUnavailable(Unavailable):
    """The database did not answer, or not in time; whether it did what it was asked for may be unknown."""


class BadKey(BadRequest):
    """No lock can have this key."""


class BadTable(BadRequest):
    """The table of the locks is not there, or not as it has to be; the sentence says what to do."""


class StatementRefused(BadRequest):
    """The database refused a statement, for a reason that asking again does not mend."""
