"""The openings of the client have no contents: an address shows itself, and the real parts fit into the world."""

import dataclasses
import ssl
import threading

import pytest

from holdfast.client.ports import Address, World


@pytest.mark.parametrize(("host", "shown"), [("locks", "locks:1"), ("127.0.0.1", "127.0.0.1:1"), ("::1", "[::1]:1")])
def test_an_address_is_shown_as_it_is_written_in_a_url(host, shown):
    assert str(Address(host, 1)) == shown


def test_an_address_with_tls_is_another_one():
    assert Address("locks", 1) == Address("locks", 1)
    assert Address("locks", 1) != Address("locks", 1, ssl.create_default_context())


def test_a_world_is_complete_and_does_not_change():
    parts = {field.name for field in dataclasses.fields(World)}
    with pytest.raises(TypeError, match="missing"):
        World()
    world = World(**dict.fromkeys(parts))
    with pytest.raises(dataclasses.FrozenInstanceError):
        world.clock = None


def test_threads_wait_at_real_locks_unless_a_world_has_others():
    parts = {field.name for field in dataclasses.fields(World)} - {"lock"}
    assert World(**dict.fromkeys(parts)).lock is threading.Lock
