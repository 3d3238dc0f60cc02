"""How a group is granted when something comes free: all in one step, in its turn on every key, and gone in one step.

What its caller may do with it is tested in test_group.py.
"""

import pytest

from holdfast.engine.document import decode, encode, reload
from holdfast.engine.resource import holders
from holdfast.words import CR, EX, NL, PR, Answer, Reason
from tests.engine.kit import Scene

A, B, C = b"a", b"b", b"c"


@pytest.fixture
def scene() -> Scene:
    return Scene()


def granted(*names: str) -> list[tuple[str, str]]:
    return [("granted", name) for name in names]


def ended(reason: Reason, *names: str) -> list[tuple[str, str, Reason]]:
    return [("ended", name, reason) for name in names]


def holder_of(scene: Scene, key: bytes) -> list[str]:
    return [scene.name_of(c) for c in holders(scene.table.resources[key])]


# --- granted together ---


def test_a_group_is_granted_when_the_last_of_its_keys_comes_free(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask("y", key=C)
    scene.ask_all("g", A, B, C, lease=30)
    scene.end("x")
    assert scene.news == []
    assert holder_of(scene, A) == holder_of(scene, B) == []
    scene.end("y")
    assert scene.news == granted("g#0", "g#1", "g#2")
    assert {c.deadline for c in scene.group.claims} == {scene.now + 30 * 10**9}


def test_whoever_came_after_a_group_does_not_overtake_it_on_any_key(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask_all("g", A, B)
    assert scene.ask("late", key=B) is Answer.QUEUED
    scene.end("x")
    assert scene.news == granted("g#0", "g#1")
    scene.end("g#1")
    assert scene.news == granted("late")


def test_a_group_does_not_overtake_whoever_came_before_it_on_any_key(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask("y", key=B)
    scene.ask("before", key=B)
    scene.ask_all("g", A, B, wants={B: NL})  # which would live beside anybody
    scene.end("x")
    assert scene.news == []
    scene.end("y")
    assert scene.news == granted("before", "g#0", "g#1")


def test_whoever_stands_behind_a_group_is_served_with_it_on_keys_far_away(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask_all("g", A, B, wants={A: EX, B: PR})
    scene.ask("reader", PR, key=B)
    scene.end("x")
    assert scene.news == granted("g#0", "g#1", "reader")


def test_groups_that_overlap_go_one_after_the_other(scene: Scene) -> None:
    scene.ask("x", key=B)
    scene.ask_all("g", A, B)
    scene.ask_all("h", B, C)
    scene.ask_all("i", C, A)
    scene.end("x")
    assert scene.news == granted("g#0", "g#1")
    scene.end("g#0")
    assert scene.news == []
    scene.end("g#1")
    assert scene.news == granted("h#0", "h#1")
    scene.end("h#0")
    assert scene.news == []
    scene.end("h#1")
    assert scene.news == granted("i#0", "i#1")


def test_while_a_conversion_waits_on_one_of_its_keys_a_group_is_not_granted(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask("one", CR, key=B)
    scene.ask("two", PR, key=B)
    scene.ask_all("g", A, B, wants={B: CR})
    scene.convert("one", EX)
    scene.end("x")
    assert scene.news == []
    scene.cancel("one")
    assert scene.news == [("stayed", "one", Reason.CANCELLED), *granted("g#0", "g#1")]


def test_a_group_hears_of_a_key_that_comes_free_when_a_lease_runs_out(scene: Scene) -> None:
    scene.ask("x", key=A, lease=5)
    scene.ask("y", key=B, lease=7)
    scene.ask_all("g", A, B)
    assert scene.after(6) == ended(Reason.EXPIRED, "x")
    assert scene.after(6) == [*ended(Reason.EXPIRED, "y"), *granted("g#0", "g#1")]


def test_a_grant_from_far_away_counts_what_is_due_on_the_key(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask_all("g", A, B, lease=5)
    scene.ask("next", key=B, patience=8)
    scene.end("x")
    assert scene.after(5) == [*ended(Reason.EXPIRED, "g#0", "g#1"), *granted("next")]


# --- gone together ---


def test_a_group_that_runs_out_of_patience_leaves_every_queue_at_once(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask_all("g", A, B, C, patience=5)
    scene.ask("y", key=B)
    scene.ask("z", key=C)
    assert scene.after(5) == [*ended(Reason.TIMED_OUT, "g#0", "g#1", "g#2"), *granted("y", "z")]
    assert scene["g#0"].rival is scene["x"]


def test_whoever_looks_at_one_key_late_ends_the_group_on_all(scene: Scene) -> None:
    scene.ask("x", key=B)
    scene.ask_all("g", A, B, patience=5)
    scene.ask("y", key=A)
    scene.sleep(5)
    assert scene.ask("z", key=A) is Answer.QUEUED
    assert scene.news == [*ended(Reason.TIMED_OUT, "g#0", "g#1"), *granted("y")]
    assert scene["g#0"].rival is scene["x"]


def test_two_groups_whose_patience_ends_at_the_same_instant_end_both(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask_all("g", A, B, patience=5)
    scene.ask_all("h", B, A, patience=5)
    scene.ask("y", key=B)
    assert sorted(scene.after(5)) == sorted(
        [*ended(Reason.TIMED_OUT, "g#0", "g#1", "h#0", "h#1"), *granted("y")],
    )


def test_a_patience_that_ends_when_a_lease_does_gets_what_that_leaves(scene: Scene) -> None:
    scene.ask("x", key=A, lease=5)
    scene.ask_all("g", A, B, patience=5)
    assert scene.after(5) == [*ended(Reason.EXPIRED, "x"), *granted("g#0", "g#1")]


# --- no fence ---


def test_without_fences_a_group_waits_and_every_key_of_it_tries_again(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask_all("g", A, B)
    scene.mint.dry = True
    assert scene.end("x") is Answer.ENDED
    assert scene.news == []
    assert all(scene.table.resources[key].stuck for key in (A, B))
    assert scene.after(1) == []
    scene.mint.dry = False
    assert sorted(scene.after(1)) == granted("g#0", "g#1")


class RunsDry:
    """A mint that has so many fences left."""

    def __init__(self, scene: Scene, left: int) -> None:
        self.mint = scene.mint
        self.left = left

    def __call__(self, last: int) -> tuple[int, bytes]:
        self.mint.dry = self.left == 0
        self.left -= not self.mint.dry
        return self.mint(last)


def test_a_fence_that_fails_in_the_middle_of_a_group_leaves_it_waiting_whole(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask_all("g", A, B, C)
    scene.ask("late", key=C)
    scene.table.mint = RunsDry(scene, 2)
    scene.end("x")
    assert scene.news == []
    assert [holder_of(scene, key) for key in (A, B, C)] == [[], [], []]
    scene.table.mint = scene.mint
    scene.mint.dry = False
    assert scene.ask("later", key=B) is Answer.QUEUED  # whoever comes next lets those go first who are older
    assert sorted(scene.news) == granted("g#0", "g#1", "g#2")


def test_a_conversion_that_waits_comes_before_a_group_without_fences(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask("one", NL, key=B)
    scene.ask("two", CR, key=B)
    scene.ask_all("g", A, B, wants={B: CR})
    scene.mint.dry = True
    scene.end("x")
    assert scene.table.resources[B].stuck
    assert scene.convert("one", EX) is Answer.CONVERTING
    assert not scene.table.resources[B].stuck
    scene.mint.dry = False
    assert scene.after(1) == []
    scene.end("two")
    assert scene.news == granted("one")
    scene.end("one")
    assert scene.news == granted("g#0", "g#1")


# --- documents ---


def test_a_bond_comes_back_with_the_document_of_its_key(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask_all("g", A, B)
    for key in (A, B):
        r = scene.table.resources[key]
        assert encode(decode(key, encode(r))) == encode(r)
        reload(scene.table, key)
    book = scene.table.sessions[scene.session("g")]
    scene.claims.update({"g#0": book[b"g#0"], "g#1": book[b"g#1"]})
    scene.claims["x"] = scene.table.sessions[scene.session("x")][b"x"]
    bond = scene["g#1"].bond
    assert bond is not None
    assert (bond.ticket, bond.index, bond.count, bond.number) == (b"g", 1, 2, 1)
    scene.end("x")
    assert scene.news == granted("g#0", "g#1")
    reload(scene.table, B)
    assert scene.ask_all("g", A, B) is Answer.GRANTED
