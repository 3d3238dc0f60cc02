"""Keys that somebody else has given away: they hold by their own words, and whoever we knew is out or keeps waiting.

How a store hears of it is tested with the store.
"""

from holdfast.engine.document import decode, encode
from holdfast.engine.foreign import LEASE_NS, stranger, usurp
from holdfast.engine.invariants import check
from holdfast.engine.resource import Resource, fits, holder, is_proven
from holdfast.secret import lease_id_of
from holdfast.words import EX, GONE, HELD, PR, SECOND, UNLIMITED, WAITING, Claim, Effect, Ended, Proof, Reason
from tests.engine.kit import KEY, Scene

NOW = 1000 * SECOND
LEASE_ID = b"12345678-1234-4123-a123-123456789abc"
SPARE = b"f" * 48


def held_by_a_stranger(lease_id: bytes = LEASE_ID, fence: int = 7, deadline: int = NOW + SECOND) -> Resource:
    r = Resource(KEY, UNLIMITED, 5)
    stranger(r, b"them", fence, lease_id, SPARE, deadline)
    return r


def test_a_stranger_holds_all_of_the_key_until_the_lease_ends() -> None:
    r = held_by_a_stranger()
    check(r, NOW)
    c = r.sole
    assert c is not None
    assert (c.state, c.mode, c.owner, c.deadline, c.lease_ns) == (HELD, EX, b"them", NOW + SECOND, LEASE_NS)
    assert (r.fence, r.soonest) == (7, NOW + SECOND)
    assert not fits(r, Claim(KEY, PR, 1, UNLIMITED, 1, 1))


def test_a_stranger_proves_the_claim_by_the_lease_id_and_the_token_that_follows_from_it() -> None:
    r = held_by_a_stranger()
    c = r.sole
    assert c is not None
    assert lease_id_of(c.secret) == LEASE_ID
    assert is_proven(c, Proof(b"them", LEASE_ID))
    assert not is_proven(c, Proof(b"you", LEASE_ID))
    assert holder(r, c.token) is c


def test_a_lease_id_that_is_none_of_ours_gets_a_secret_that_nobody_knows() -> None:
    c = held_by_a_stranger(b"odd").sole
    assert c is not None
    assert c.secret == b"%016x" % 7 + b"f" * 32


def test_a_fence_that_is_lower_than_the_last_one_leaves_that_where_it_is() -> None:
    assert held_by_a_stranger(fence=3).fence == 5


def test_strangers_on_two_keys_have_tickets_of_their_own() -> None:
    one = held_by_a_stranger().sole
    other = Resource(b"other", UNLIMITED)
    stranger(other, b"them", 7, LEASE_ID, SPARE, NOW)
    assert one is not None
    assert other.sole is not None
    assert one.ticket != other.sole.ticket


def test_a_stranger_on_a_key_with_seats_has_its_limit() -> None:
    r = Resource(KEY, 3)
    stranger(r, b"them", 1, LEASE_ID, SPARE, NOW + SECOND)
    check(r, NOW)
    assert encode(decode(KEY, encode(r))) == encode(r)


def test_who_held_is_out_and_who_waited_waits_on() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR)
    scene.ask("c", EX)
    scene.ask("d", PR)
    old, out = scene.key, list[Effect]()
    old.touched = NOW
    new = held_by_a_stranger(fence=1)
    waiting = usurp(old, new, out)
    assert waiting == [scene["c"], scene["d"]]
    assert [(effect.claim, effect.reason, effect.was) for effect in out if isinstance(effect, Ended)] == [
        (scene["a"], Reason.BROKEN, HELD),
        (scene["b"], Reason.BROKEN, HELD),
    ]
    assert [scene[name].state for name in "abcd"] == [GONE, GONE, WAITING, WAITING]
    assert (scene["a"].reason, new.fence, new.touched) == (Reason.BROKEN, 5, NOW)


def test_a_key_that_nobody_waited_for_leaves_nobody_waiting() -> None:
    scene = Scene()
    scene.ask("a")
    assert usurp(scene.key, held_by_a_stranger(), []) == []
