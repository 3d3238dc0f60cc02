"""Records are values: two that say the same are equal, and none can be changed afterwards."""

from dataclasses import FrozenInstanceError

import pytest

from holdfast.testing.history import Asked, Granted, Lost


def test_records_are_values():
    assert Asked(1.0, "a", "job") == Asked(1.0, "a", "job", mode="EX", units=1, limit=None)
    assert Lost(1.0, "a") != Lost(2.0, "a")
    with pytest.raises(FrozenInstanceError):
        Granted(1.0, "a", fence=1).fence = 2
