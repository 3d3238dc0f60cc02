"""The registry of a process: one live claim for a key, and none that is over in the way."""

import threading

from holdfast.leases.registry import Registry, process_registry
from tests.client.forks import in_child

PLACE = ("sqlite:here", b"cluster/")


class Claim:
    def __init__(self, lock_id="a"):
        self.lock_id = lock_id
        self.asking = False
        self.held = False

    @property
    def live(self):
        return self.asking or self.held


def test_a_second_live_claim_is_refused_and_so_is_the_first_once_more():
    registry, first, second = Registry(), Claim(), Claim("b")
    assert registry.enter(PLACE, first)
    assert not registry.enter(PLACE, second)
    assert not registry.enter(PLACE, first)
    assert registry.enter(("sqlite:there", b"cluster/"), second)


def test_a_claim_that_is_over_is_in_nobodys_way():
    registry, first, second = Registry(), Claim(), Claim("b")
    registry.enter(PLACE, first)
    first.asking = False
    assert registry.enter(PLACE, second)
    registry.leave(PLACE, first)
    assert not registry.enter(PLACE, Claim("c"))
    registry.leave(PLACE, second)
    assert registry.enter(PLACE, Claim("c"))


def test_a_lock_id_is_known_while_its_claim_is_live():
    registry, claim = Registry(), Claim("mine")
    registry.enter(PLACE, claim)
    assert registry.knows("mine")
    assert not registry.knows("other")
    assert not registry.knows(None)
    claim.asking = False
    assert not registry.knows("mine")


def test_of_many_threads_one_gets_in():
    registry, claims = Registry(), [Claim(str(number)) for number in range(8)]
    came, barrier = [], threading.Barrier(8)

    def enter(claim):
        barrier.wait()
        if registry.enter(PLACE, claim):
            came.append(claim)

    threads = [threading.Thread(target=enter, args=(claim,)) for claim in claims]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(came) == 1


def test_a_child_of_a_fork_has_no_claims():
    claim = Claim()
    process_registry.enter(PLACE, claim)
    try:
        assert in_child(lambda: process_registry.enter(PLACE, Claim("b"))) == "True"
        assert not process_registry.enter(PLACE, Claim("b"))
    finally:
        process_registry.leave(PLACE, claim)
