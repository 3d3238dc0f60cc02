"""The table as stores see it: what has changed, what is taken in and dropped, and tickets that are shown again.

What a store does with it is tested with the store.
"""

import pytest

from holdfast.engine.document import decode, encode
from holdfast.engine.foreign import usurp
from holdfast.engine.invariants import check_table
from holdfast.engine.resource import Resource
from holdfast.words import (
    EX,
    FOREVER,
    PR,
    RESIDENT,
    UNLIMITED,
    WAITING,
    Answer,
    Claim,
    Effect,
    Ended,
    Granted,
    Hangup,
    Reason,
)
from tests.engine.kit import KEY, Scene, span

OTHER = b"orders/18"


@pytest.fixture
def scene() -> Scene:
    """A scene whose table is watched by a store."""
    scene = Scene()
    scene.table.changed = {}
    return scene


def changed(scene: Scene) -> set[bytes]:
    """Take the keys that have changed since the last time."""
    assert scene.table.changed is not None
    keys = set(scene.table.changed)
    assert all(scene.table.resources.get(key, r) is r for key, r in scene.table.changed.items())
    scene.table.changed = {}
    return keys


def asked(session: int, ticket: bytes, key: bytes = KEY) -> Claim:
    c = Claim(key, EX, 1, UNLIMITED, span(30), FOREVER)
    c.session, c.ticket = session, ticket
    return c


# --- what has changed ---


def test_grants_waits_renewals_and_ends_are_changes(scene: Scene) -> None:
    for act in (
        lambda: scene.ask("a"),
        lambda: scene.ask("b"),
        lambda: scene.renew("a", 30),
        lambda: scene.wait("b", 5),
        lambda: scene.convert("a", PR),
        lambda: scene.cancel("b"),
        lambda: scene.end("a"),
    ):
        act()
        assert changed(scene) == {KEY}


def test_refusals_are_none(scene: Scene) -> None:
    scene.ask("a")
    changed(scene)
    scene.ask("b", queue=False)
    scene.ask("b", patience=0)
    scene.ask("b", limit=3)
    scene.table.hangup(Hangup(999), scene.now, [])
    assert changed(scene) == set()


def test_a_refusal_that_finds_a_lease_run_out_is_one(scene: Scene) -> None:
    scene.ask("a", lease=5)
    scene.ask("c", lease=5, key=OTHER)
    scene.ask("d", lease=5, key=b"third")
    changed(scene)
    scene.sleep(5)
    assert scene.ask("b", limit=3) is Answer.LIMIT_MISMATCH
    assert changed(scene) == {KEY}
    assert scene.renew("c", 5) is Answer.NOT_HELD
    assert changed(scene) == {OTHER}
    assert scene.end("d") is Answer.NOT_HELD
    assert changed(scene) == {b"third"}
    scene.end("d")
    scene.renew("c", 5)
    assert changed(scene) == set()


def test_a_tick_changes_the_keys_on_which_something_was_due(scene: Scene) -> None:
    scene.ask("a", lease=5)
    scene.ask("b", lease=9, key=OTHER)
    changed(scene)
    scene.after(5)
    assert changed(scene) == {KEY}


@pytest.mark.parametrize("keep_held", [True, False])
def test_a_hangup_changes_every_key_of_the_session(scene: Scene, keep_held: bool) -> None:
    scene.ask("a")
    scene.ask("a2", key=OTHER, by="a")
    scene.ask("b", key=b"third")
    scene.ask("a3", key=b"third", by="a")
    changed(scene)
    scene.hangup("a", keep_held=keep_held)
    assert changed(scene) == {KEY, OTHER, b"third"}


def test_a_key_that_is_swept_away_has_changed_and_is_gone(scene: Scene) -> None:
    scene.ask("a")
    scene.end("a")
    changed(scene)
    assert scene.table.sweep(scene.now + span(61)) == 1
    assert changed(scene) == {KEY}
    assert scene.table.resources == {}


def test_nobody_keeps_book_where_nobody_writes_anything_down() -> None:
    scene = Scene()
    scene.ask("a", lease=5)
    scene.sleep(6)
    scene.ask("b", limit=7)
    scene.renew("a", 5)
    scene.end("a")
    scene.hangup("a", keep_held=True)
    scene.table.sweep(scene.now + span(61))
    assert scene.table.changed is None


# --- tickets that are shown again ---


def test_a_ticket_that_is_shown_again_finds_its_claim(scene: Scene) -> None:
    scene.ask("a")
    scene.ask("b")
    for name, answer in (("a", Answer.GRANTED), ("b", Answer.QUEUED)):
        again = asked(scene.session(name), name.encode())
        assert scene.table.again(again, scene.now, []) == (answer, scene[name])


def test_a_conversion_that_waits_holds_all_the_same(scene: Scene) -> None:
    scene.ask("a", PR)
    scene.ask("b", PR)
    scene.convert("a", EX)
    again = asked(scene.session("a"), b"a")
    assert scene.table.again(again, scene.now, []) == (Answer.GRANTED, scene["a"])


def test_a_ticket_of_nothing_finds_nothing(scene: Scene) -> None:
    scene.ask("a")
    assert scene.table.again(asked(999, b"a"), scene.now, []) is None
    assert scene.table.again(asked(scene.session("a"), b"b"), scene.now, []) is None


def test_a_ticket_of_another_key_is_refused(scene: Scene) -> None:
    scene.ask("a")
    again = asked(scene.session("a"), b"a", OTHER)
    assert scene.table.again(again, scene.now, []) == (Answer.ALREADY_ENQUEUED, None)
    assert OTHER not in scene.table.resources


# --- tickets of sessions that are over ---


@pytest.fixture
def left_behind(scene: Scene) -> Scene:
    """Let `a` hold the key although its session is over."""
    scene.ask("a", lease=30)
    scene["a"].owner = b"before"
    scene.hangup("a", keep_held=True)
    changed(scene)
    return scene


def test_whoever_shows_the_ticket_of_what_outlived_its_session_has_it_again(left_behind: Scene) -> None:
    scene = left_behind
    again = asked(999, b"a")
    again.owner, again.about = b"after", b"{}"
    assert scene.table.again(again, scene.now, []) == (Answer.GRANTED, scene["a"])
    check_table(scene.table, scene.now)
    assert changed(scene) == {KEY}
    c = scene.table.find(999, b"a")
    assert c is scene["a"]
    assert (c.session, c.kept, c.owner, c.about) == (999, False, b"after", b"{}")
    assert scene.table.orphans == {}
    scene.sessions["a"] = 999
    scene.hangup("a")
    assert scene.holders == []


def test_only_its_ticket_on_its_key_counts_and_not_in_the_session_of_everybody(left_behind: Scene) -> None:
    scene = left_behind
    for other in (asked(999, b"b"), asked(999, b"a", OTHER), asked(RESIDENT, b"a")):
        assert scene.table.again(other, scene.now, []) is None
    assert scene["a"].kept


def test_what_is_held_in_a_session_that_lives_is_nobody_elses(scene: Scene) -> None:
    scene.ask("a")
    assert scene.table.again(asked(999, b"a"), scene.now, []) is None


def test_when_its_lease_is_over_there_is_nothing_to_come_back_for(left_behind: Scene) -> None:
    scene = left_behind
    scene.sleep(31)
    out: list[Effect] = []
    assert scene.table.again(asked(999, b"a"), scene.now, out) is None
    assert [type(effect) for effect in out] == [Ended]
    assert scene.table.orphans == {}


def test_of_two_that_are_named_alike_the_first_can_be_had_again(scene: Scene) -> None:
    """Tickets are chosen by callers; a bad choice must harm only them."""
    for session in (1, 2):
        c = asked(session, b"same", KEY if session == 1 else OTHER)
        assert scene.table.enqueue(c, scene.now, []) is Answer.GRANTED
    scene.table.hangup(Hangup(1, keep_held=True), scene.now, [])
    scene.table.hangup(Hangup(2, keep_held=True), scene.now, [])
    check_table(scene.table, scene.now)
    assert scene.table.again(asked(3, b"same", OTHER), scene.now, []) is None
    answer = scene.table.again(asked(3, b"same"), scene.now, [])
    assert answer is not None
    assert answer[0] is Answer.GRANTED


def test_numbers_are_no_secrets_so_nothing_is_had_again_with_them(scene: Scene) -> None:
    c = asked(1, b"")
    c.ticket = 7
    scene.table.enqueue(c, scene.now, [])
    scene.table.hangup(Hangup(1, keep_held=True), scene.now, [])
    assert c.book is None
    assert scene.table.orphans == {}


def test_what_is_dropped_and_taken_in_again_can_still_be_had(left_behind: Scene) -> None:
    scene = left_behind
    document = encode(scene.key)
    scene.table.drop(KEY)
    assert scene.table.orphans == {}
    scene.table.adopt(decode(KEY, document))
    check_table(scene.table, scene.now)
    answer = scene.table.again(asked(999, b"a"), scene.now, [])
    assert answer is not None
    assert answer[1] is scene.table.find(999, b"a")


def test_a_ticket_whose_claim_has_just_run_out_finds_nothing_and_others_hear_of_it(scene: Scene) -> None:
    scene.ask("a", lease=5)
    scene.ask("b")
    scene.sleep(5)
    out: list[Effect] = []
    assert scene.table.again(asked(scene.session("a"), b"a"), scene.now, out) is None
    assert [type(effect) for effect in out] == [Ended, Granted]
    check_table(scene.table, scene.now)


# --- what comes and goes with a store ---


def test_a_key_that_is_taken_in_is_in_the_books_and_kept_in_time(scene: Scene) -> None:
    scene.ask("a", lease=20)
    scene.ask("b", patience=5)
    document = encode(scene.key)
    scene.table.drop(KEY)
    assert scene.table.find(scene.session("a"), b"a") is None
    check_table(scene.table, scene.now)
    scene.table.adopt(decode(KEY, document))
    check_table(scene.table, scene.now)
    assert scene.table.next_deadline() == scene.now + span(5)
    c = scene.table.find(scene.session("a"), b"a")
    assert c is not None
    assert c.token == scene["a"].token
    out: list[Effect] = []
    scene.table.tick(scene.now + span(20), out)
    assert [(effect.claim.ticket, effect.reason) for effect in out if isinstance(effect, Ended)] == [
        (b"b", Reason.TIMED_OUT),
        (b"a", Reason.EXPIRED),
    ]


def test_a_key_takes_the_place_of_the_one_that_stands_there(scene: Scene) -> None:
    scene.ask("a")
    scene.ask("b")
    document = encode(scene.key)
    scene.end("a")
    scene.table.adopt(decode(KEY, document))
    check_table(scene.table, scene.now)
    assert scene.table.find(scene.session("a"), b"a") is not None
    assert scene.table.resources[KEY].waiting is not None


def test_a_claim_that_outlived_its_session_is_in_nobodys_book(scene: Scene) -> None:
    scene.ask("a", lease=20)
    scene.hangup("a", keep_held=True)
    document = encode(scene.key)
    scene.table.drop(KEY)
    scene.table.adopt(decode(KEY, document))
    assert scene.table.find(scene.session("a"), b"a") is None
    assert scene.table.resources[KEY].sole is not None


def test_a_free_key_that_is_taken_in_is_swept_away_in_its_time(scene: Scene) -> None:
    r = Resource(KEY, UNLIMITED, 9)
    r.touched = scene.now
    scene.table.adopt(r)
    assert scene.table.sweep(scene.now + span(60)) == 0
    assert scene.table.sweep(scene.now + span(61)) == 1


def test_dropping_what_is_not_there_is_nothing(scene: Scene) -> None:
    scene.table.drop(KEY)
    assert changed(scene) == set()


def test_who_waited_for_a_key_that_others_changed_waits_on_with_the_patience_that_is_left(scene: Scene) -> None:
    scene.ask("a")
    scene.ask("b", patience=9)
    scene.ask("c")
    scene.sleep(2)
    old, out = scene.key, list[Effect]()
    new = Resource(KEY, UNLIMITED, old.fence)
    waiting = usurp(old, new, out)
    scene.table.adopt(new)
    for c in waiting:
        scene.table.rejoin(new, c)
    assert [c.state for c in waiting] == [WAITING, WAITING]
    assert scene.table.find(scene.session("b"), b"b") is scene["b"]
    assert scene["b"].deadline == scene.now + span(7)
    scene.table.serve(new, scene.now, out)
    check_table(scene.table, scene.now)
    assert [type(effect) for effect in out] == [Ended, Granted]
    assert new.sole is scene["b"]
    assert KEY in changed(scene)


def test_a_sweep_passes_over_a_key_whose_place_another_has_taken() -> None:
    scene = Scene(idle_max=60)
    scene.ask("a")
    scene.end("a")
    (key,) = scene.table.resources
    scene.table.drop(key)
    scene.ask("b")
    scene.sleep(100)
    assert scene.table.sweep(scene.now) == 0
    assert list(scene.table.resources) == [key]
