"""The invariants notice when they are broken: each is broken here once, by hand.

That the engine never breaks them is what all the other tests of the engine say with every step.
"""

from collections import OrderedDict
from collections.abc import Callable

import pytest

from holdfast.engine.bond import Ties
from holdfast.engine.invariants import check, check_table
from holdfast.engine.queue import Queue
from holdfast.engine.resource import Resource, everybody, join_waiting, leave_waiting, turn_of
from holdfast.words import BIT, CR, CW, EX, FOREVER, GONE, HELD, NL, PR, PW, WAITING, Reason
from tests.engine.kit import KEY, Scene

# What a test does to a healthy scene.
Break = Callable[[Scene], object]


def healthy() -> Scene:
    """Set a scene with two holders, one of which converts, and two waiters."""
    scene = Scene()
    scene.ask("a", PR, units=1, limit=9, lease=30, listens=True)
    scene.ask("b", CR, units=2, limit=9, lease=40)
    scene.convert("b", CW, patience=20)
    scene.ask("c", EX, units=1, limit=9, patience=50)
    scene.ask("d", PR, units=1, limit=9, patience=60)
    assert (scene.holders, scene.converters, scene.waiters) == (["a", "b"], ["b"], ["c", "d"])
    return scene


def test_a_healthy_resource_passes() -> None:
    scene = healthy()
    check(scene.key, scene.now)
    check_table(scene.table, scene.now)


def with_agenda(scene: Scene) -> Resource:
    r = scene.key
    r.agenda = sorted(turn_of(c) for c in everybody(r))
    return r


def test_an_agenda_with_stale_entries_passes() -> None:
    scene = healthy()
    r = with_agenda(scene)
    check(r, scene.now)
    assert r.agenda is not None
    r.agenda.insert(0, (0, False, 0, scene["d"]))
    check(r, scene.now)


def test_an_endless_deadline_needs_no_entry() -> None:
    scene = healthy()
    r = with_agenda(scene)
    assert r.agenda is not None
    assert r.agenda.pop()[3] is scene["d"]
    scene["d"].deadline = scene["d"].patience_ns = FOREVER
    check(r, scene.now)


def clash(scene: Scene) -> None:
    """Two holders that must not be together, with sums that say so."""
    scene["b"].mode = PW
    scene.key.tally = [0, 0, 0, 1, 1, 0]
    scene.key.mask = BIT[PR] | BIT[PW]


def too_many_units(scene: Scene) -> None:
    scene["a"].units, scene["b"].units = 5, 5
    scene.key.used = 10


def grantable_head(scene: Scene) -> None:
    scene.cancel("c")
    scene.cancel("b")
    scene.key.waiting = None
    scene.ask("e", EX, limit=9)
    scene["e"].want = CR


def grantable_conversion(scene: Scene) -> None:
    scene["a"].mode = scene["a"].want = CR
    scene.key.tally = [0, 2, 0, 0, 0, 0]
    scene.key.mask = BIT[CR]


def stuck_without_reason(scene: Scene) -> None:
    scene.key.waiting = scene.key.converting = None
    scene["b"].state, scene["b"].want, scene["b"].convert_deadline = HELD, CR, FOREVER
    scene.key.stuck = True


def stuck_for_good(scene: Scene) -> None:
    scene.mint.dry = True
    for name in "acd":
        scene.cancel(name)
    scene.end("a")
    assert scene.key.stuck
    scene["b"].deadline = scene["b"].lease_ns = scene["b"].convert_deadline = FOREVER
    scene.key.soonest = FOREVER


def agenda_without_entry(scene: Scene) -> None:
    agenda = with_agenda(scene).agenda
    assert agenda is not None
    agenda[:] = [(entry[0], entry[1], entry[2], scene["a"]) for entry in agenda]


def agenda_entry_too_late(scene: Scene) -> None:
    with_agenda(scene)
    scene["c"].deadline -= 1


def agenda_out_of_order(scene: Scene) -> None:
    agenda = with_agenda(scene).agenda
    assert agenda is not None
    agenda.reverse()


def set_of(name: str, **facts: object) -> Break:
    """Change facts of one claim."""

    def change(scene: Scene) -> None:
        for fact, value in facts.items():
            setattr(scene[name], fact, value)

    return change


def set_key(**facts: object) -> Break:
    """Change facts of the resource."""

    def change(scene: Scene) -> None:
        for fact, value in facts.items():
            setattr(scene.key, fact, value)

    return change


def empty_wait_queue(scene: Scene) -> None:
    scene.cancel("c")
    scene.cancel("d")
    scene.key.waiting = Queue()


def empty_convert_queue(scene: Scene) -> None:
    scene.cancel("b")
    scene.key.converting = OrderedDict()


def late_soonest(scene: Scene) -> None:
    scene.key.soonest = scene["b"].convert_deadline + 1


def stranger_under_ticket(scene: Scene) -> None:
    book = scene["a"].book
    assert book is not None
    book[b"a"] = scene["b"]


# What is broken, how, and which check has to notice.
BREAKS: dict[str, tuple[Break, str]] = {
    "touched in the future": (set_key(touched=1 << 62), "check"),
    "an empty wait queue is kept": (empty_wait_queue, "_check_places"),
    "an empty convert queue is kept": (empty_convert_queue, "_check_places"),
    "a waiter among the holders": (set_of("a", state=WAITING), "_check_places"),
    "a holder among the waiters": (set_of("c", state=HELD), "_check_places"),
    "a claim that is gone among the waiters": (set_of("d", state=GONE), "_check_places"),
    "a converting claim outside of its queue": (set_key(converting=None), "_check_places"),
    "a claim under a wrong token": (set_of("a", token=b"other"), "_check_places"),
    "a waiter in the wrong place": (set_of("c", order=99), "_check_places"),
    "an order from the future": (set_key(orders=2), "_check_places"),
    "a secret of another length": (set_of("a", tail=b"other"), "_check_claim"),
    "a waiter with a mode": (set_of("c", mode=CR), "_check_claim"),
    "a waiter with a token": (set_of("c", token=b"t"), "_check_claim"),
    "a waiter with more patience than it had": (set_of("c", patience_ns=1), "_check_claim"),
    "a conversion to the same mode": (set_of("b", mode=CW), "_check_claim"),
    "a holder that wants something else": (set_of("a", want=EX), "_check_claim"),
    "a holder with the patience of a conversion": (set_of("a", convert_deadline=1), "_check_claim"),
    "a claim of another key": (set_of("a", key=b"other"), "_check_claim"),
    "a claim with another limit": (set_of("a", limit=8), "_check_claim"),
    "a claim with more units than there are": (set_of("c", units=10), "_check_claim"),
    "a live claim with a reason to be gone": (set_of("a", reason=Reason.EXPIRED), "_check_claim"),
    "a book with somebody else in it": (stranger_under_ticket, "_check_claim"),
    "two holders clash": (clash, "_check_exclusion"),
    "more units than there are": (too_many_units, "_check_exclusion"),
    "used units miscounted": (set_key(used=4), "_check_sums"),
    "the mask forgets a mode": (set_key(mask=BIT[PR]), "_check_sums"),
    "the tally miscounts": (set_key(tally=[0, 1, 0, 2, 0, 0]), "_check_sums"),
    "the listeners miscounted": (set_key(listeners=0), "_check_sums"),
    "a fence from the future": (set_key(fence=1), "_check_fences"),
    "two holders with one fence": (set_of("b", fence=1), "_check_fences"),
    "a waiter that could have been granted": (grantable_head, "_check_queues"),
    "a conversion that could have been granted": (grantable_conversion, "_check_queues"),
    "stuck without reason": (stuck_without_reason, "_check_queues"),
    "soonest is too late": (late_soonest, "_check_deadlines"),
    "stuck and nobody looks again": (stuck_for_good, "_check_deadlines"),
    "a claim without an entry on the agenda": (agenda_without_entry, "_check_deadlines"),
    "an entry that is too late": (agenda_entry_too_late, "_check_deadlines"),
    "an agenda that is no heap": (agenda_out_of_order, "_check_deadlines"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_resource_is_noticed_by_the_check_that_is_there_for_it(name: str) -> None:
    scene = healthy()
    break_it, checker = BREAKS[name]
    break_it(scene)
    with pytest.raises(AssertionError) as caught:
        check(scene.key, scene.now)
    assert checker in {entry.name for entry in caught.traceback[-2:]}  # the last may be a comprehension


def rename_key(scene: Scene) -> None:
    scene.table.resources[b"other"] = scene.table.resources.pop(KEY)


def stranger_in_book(scene: Scene) -> None:
    scene.table.sessions[77] = {b"a": scene["a"]}


def orphan_with_a_session(scene: Scene) -> None:
    scene.table.orphans[b"a"] = scene["a"]


def gone_in_book(scene: Scene) -> None:
    c = scene["d"]
    book = c.book
    scene.cancel("d")
    assert book is not None
    book[c.ticket] = c
    c.book = book


def late_wake(scene: Scene) -> None:
    scene.key.wake = scene.key.soonest + 1


def late_table(scene: Scene) -> None:
    scene.table.soonest = FOREVER


def later_than_said(scene: Scene) -> None:
    scene.table._wakes.insert(0, (0, 0, scene.key))


def not_sought(scene: Scene) -> None:
    scene.key.sought = False


def sought_by_word_only(scene: Scene) -> None:
    scene.table._sought.clear()


TABLE_BREAKS: dict[str, Break] = {
    "a resource under another key": rename_key,
    "a key that is woken too late": late_wake,
    "a table that is ticked too late": late_table,
    "a table that says later than it has to": later_than_said,
    "a claim in a stranger's book": stranger_in_book,
    "a claim of a session among those that outlived theirs": orphan_with_a_session,
    "a claim that is gone in a book": gone_in_book,
    "a key that somebody waits for and nobody knows": not_sought,
    "a key that is not among those that somebody waits for": sought_by_word_only,
}


@pytest.mark.parametrize("name", TABLE_BREAKS)
def test_a_broken_table_is_noticed(name: str) -> None:
    scene = healthy()
    TABLE_BREAKS[name](scene)
    with pytest.raises(AssertionError) as caught:
        check_table(scene.table, scene.now)
    assert caught.traceback[-1].name == "check_table"


# --- groups ---

OTHER = b"orders/18"


def tied() -> Scene:
    """Set a scene where two groups wait for the same two keys, one of which is taken."""
    scene = Scene()
    scene.ask("a")
    scene.ask_all("g", KEY, OTHER, patience=50)
    scene.ask_all("h", OTHER, KEY, patience=60)
    return scene


def of_bond(name: str, **facts: object) -> Break:
    """Change facts of what ties a claim to its group."""

    def change(scene: Scene) -> None:
        for fact, value in facts.items():
            setattr(scene[name].bond, fact, value)

    return change


def left_alone(scene: Scene) -> None:
    leave_waiting(scene.table.resources[OTHER], scene["g#1"])
    scene["g#1"].state = GONE


def forgotten_far_away(scene: Scene) -> None:
    scene.end("a")
    for r in scene.table.resources.values():
        r.many, r.sole, r.mask, r.used = None, None, 0, 0
    for name in ("g#0", "g#1"):
        c = scene[name]
        c.state, c.mode, c.token, c.tail, c.deadline = WAITING, NL, b"", b"", scene.now
        r = scene.table.resources[c.key]
        waiting, r.waiting = r.waiting, None
        join_waiting(r, c)
        assert waiting is not None
        for other in waiting.values():
            join_waiting(r, other)


def crosswise(scene: Scene) -> None:
    r = scene.table.resources[OTHER]
    r.waiting = None
    join_waiting(r, scene["h#0"])
    join_waiting(r, scene["g#1"])


def tied_elsewhere(scene: Scene) -> None:
    bond = scene["g#1"].bond
    assert bond is not None
    bond.ties = Ties(scene.table.resources)


def loose(scene: Scene) -> None:
    scene.table.ties.loose.append(scene.key)


# What is broken, how, and which check has to notice.
GROUP_BREAKS: dict[str, tuple[Break, str]] = {
    "a group that could have been granted": (forgotten_far_away, "_check_queues"),
    "a part of a group that waits alone": (left_alone, "check_table"),
    "two groups that wait for each other": (crosswise, "_check_groups"),
    "a key that something has happened to and nobody sees to": (loose, "_check_groups"),
    "a patience of its own": (set_of("g#1", deadline=FOREVER - 1, patience_ns=FOREVER), "_check_group"),
    "a wait for a part only": (set_of("g#1", tracked=True), "_check_group"),
    "a bond to another table": (tied_elsewhere, "_check_group"),
    "a bond of another group": (of_bond("g#1", number=7), "_check_group"),
    "a bond in another place": (of_bond("g#1", index=0), "_check_group"),
}


def test_healthy_groups_pass() -> None:
    scene = tied()
    check_table(scene.table, scene.now)
    scene.mint.dry = True
    scene.end("a")
    assert scene.key.stuck
    check_table(scene.table, scene.now)


@pytest.mark.parametrize("name", GROUP_BREAKS)
def test_a_broken_group_is_noticed_by_the_check_that_is_there_for_it(name: str) -> None:
    scene = tied()
    break_it, checker = GROUP_BREAKS[name]
    break_it(scene)
    with pytest.raises(AssertionError) as caught:
        check_table(scene.table, scene.now)
    assert checker in {entry.name for entry in caught.traceback[-3:]}  # below it may be a comprehension
