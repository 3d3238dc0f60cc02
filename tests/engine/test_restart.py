"""After a restart those who hold keep it until their leases end; nobody waits, nobody converts, and nobody is told.

Where the documents come from is the store's business.
"""

from holdfast.engine.document import decode, encode
from holdfast.engine.invariants import check
from holdfast.engine.resource import Resource, holders, is_idle
from holdfast.engine.restart import survive
from holdfast.words import EX, HELD, NL, PR
from tests.engine.kit import KEY, Scene, span

RESIDENT = 7


def after_a_restart(scene: Scene) -> Resource:
    r = decode(KEY, encode(scene.key))
    survive(r, RESIDENT)
    check(r, scene.now)
    return r


def test_who_holds_keeps_it_until_the_lease_ends_and_belongs_to_nobody() -> None:
    scene = Scene()
    scene.ask("a", PR, lease=30)
    scene.ask("b", PR, lease=20)
    r = after_a_restart(scene)
    assert [(c.fence, c.token, c.deadline) for c in holders(r)] == [
        (scene[name].fence, scene[name].token, scene[name].deadline) for name in "ab"
    ]
    assert all((c.session, c.kept, c.book) == (RESIDENT, True, None) for c in holders(r))


def test_a_claim_of_the_session_that_is_never_over_stays_in_it() -> None:
    scene = Scene()
    scene.sessions["a"] = RESIDENT
    scene.ask("a")
    (c,) = holders(after_a_restart(scene))
    assert (c.session, c.ticket, c.kept) == (RESIDENT, b"a", False)


def test_waiters_are_gone_whoever_they_were() -> None:
    scene = Scene()
    scene.sessions["c"] = RESIDENT
    scene.ask("a")
    scene.ask("b")
    scene.ask("c")
    r = after_a_restart(scene)
    assert r.waiting is None
    assert len(holders(r)) == 1


def test_who_converted_holds_the_old_mode() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR)
    scene.convert("a", EX, patience=5)
    r = after_a_restart(scene)
    assert r.converting is None
    assert [(c.state, c.mode, c.want) for c in holders(r)] == [(HELD, PR, PR)] * 2


def test_a_key_for_which_no_fence_could_be_had_is_free() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b")
    scene.mint.dry = True
    scene.end("a")
    assert scene.key.stuck
    r = after_a_restart(scene)
    assert is_idle(r)
    assert not r.stuck


def test_a_second_restart_finds_what_the_first_has_left() -> None:
    scene = Scene()
    scene.ask("a", NL, lease=30)
    scene.ask("b", EX)
    scene.ask("c", EX)
    r = after_a_restart(scene)
    again = decode(KEY, encode(r))
    survive(again, RESIDENT)
    assert encode(again) == encode(r)
    assert r.soonest <= scene.now + span(30)
