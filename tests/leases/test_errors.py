"""Busy, lost, unavailable and mistaken are four different things, by class and by code."""

from holdfast.errors import BadRequest, Busy, HoldfastError, NotHeld, Unavailable
from holdfast.leases.errors import (
    AlreadyHeld,
    BadKey,
    BadTable,
    DatabaseUnavailable,
    LockException,
    LockNotHeld,
    StatementRefused,
)


def test_nothing_that_failed_can_be_mistaken_for_a_loss_or_for_busy() -> None:
    for failure in (DatabaseUnavailable, BadTable, BadKey, StatementRefused):
        assert issubclass(failure, HoldfastError)
        assert not issubclass(failure, NotHeld | Busy)
    assert issubclass(DatabaseUnavailable, Unavailable)
    assert issubclass(StatementRefused, BadRequest)


def test_the_names_of_the_original_mean_what_they_meant() -> None:
    assert issubclass(LockException, Busy)
    assert issubclass(LockNotHeld, NotHeld)
    assert not issubclass(AlreadyHeld, NotHeld)
