"""How the keys of locks are spelled, and which cannot be."""

import pytest

from holdfast.leases.errors import BadKey
from holdfast.leases.words import KEY_BYTES_MAX, LEASE_SECONDS, REFRESH_INTERVAL, REFRESH_RETRY, Row, key_of


@pytest.mark.parametrize(
    ("parts", "key"),
    [
        (("cluster", None, None), b"cluster/"),
        (("cluster", "", ""), b"cluster/"),
        (("t", "s", "n"), b"t/s/n"),
        (("t", None, "n"), b"t/n"),
        (("t", "s", None), b"t/s/"),
        (("attribute", "instance", "uuid/power_state"), b"attribute/instance/uuid/power_state"),
        (("t", None, "é"), b"t/\xc3\xa9"),
    ],
)
def test_a_key_is_spelled_as_ever(parts: tuple[str, str | None, str | None], key: bytes) -> None:
    assert key_of(*parts) == key


def test_a_key_that_no_lock_can_have_is_refused_before_it_is_sent() -> None:
    assert len(key_of("t", None, "k" * (KEY_BYTES_MAX - 2))) == KEY_BYTES_MAX
    for parts in (("",), ("t", None, "k" * (KEY_BYTES_MAX - 1)), ("t", None, "é" * 600), ("t", None, "a\0b")):
        with pytest.raises(BadKey):
            key_of(*parts)


def test_a_lease_outlives_two_refreshes_that_are_lost() -> None:
    assert (LEASE_SECONDS, REFRESH_INTERVAL, REFRESH_RETRY) == (60, 20, 2)


def test_a_row_has_lapsed_when_nothing_is_left() -> None:
    row = Row(key=b"k", holder={}, node="n", pid=1, process="p", lock_id="i", fence=1, age_us=0, left_us=0)
    assert row.lapsed
