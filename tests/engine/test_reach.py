"""What is reached from a key, and which keys a deadlock could go over; test_graph.py says that nothing is missing.

Nothing is changed by asking.
"""

from holdfast.engine.reach import Waits, reach, tangle
from holdfast.words import PR
from tests.engine.kit import KEY, Scene

OTHER, THIRD, FOURTH = b"orders/18", b"orders/19", b"orders/20"


def keys(scene: Scene, *starts: bytes, asker: str | None = None) -> list[bytes]:
    found = [scene.table.resources[key] for key in starts]
    return [r.key for r in reach(scene.table, found, None if asker is None else scene[asker])]


def chain() -> Scene:
    """Each waits for what the next one holds."""
    scene = Scene()
    for name, key in zip("abcd", (KEY, OTHER, THIRD, FOURTH), strict=True):
        scene.ask(name, key=key, by=name.upper())
    scene.ask("a2", key=OTHER, by="A")
    scene.ask("b2", key=THIRD, by="B")
    return scene


def test_a_chain_is_followed_to_its_end() -> None:
    scene = chain()
    assert keys(scene, KEY) == [KEY, OTHER, THIRD]
    assert keys(scene, OTHER) == [OTHER, THIRD]
    assert keys(scene, FOURTH) == [FOURTH]


def test_what_somebody_waits_for_already_is_reached_too() -> None:
    scene = chain()
    assert keys(scene, FOURTH, asker="b2") == [FOURTH, THIRD]


def test_those_who_wait_are_followed_like_those_who_hold() -> None:
    scene = chain()
    scene.ask("d2", key=KEY, by="D")
    scene.ask("d3", key=THIRD, by="D")
    assert keys(scene, KEY) == [KEY, OTHER, THIRD]


def test_conversions_are_followed() -> None:
    scene = chain()
    scene.ask("c2", PR, key=b"more", by="C")
    scene.ask("e", PR, key=b"more", by="E")
    scene.convert("c2", 5)
    assert keys(scene, THIRD) == [THIRD, b"more"]


def test_owners_in_a_session_wait_for_themselves() -> None:
    scene = chain()
    scene["a2"].owner = b"thread 2"
    assert keys(scene, KEY) == [KEY]
    waits = Waits(scene.table)
    assert waits.keys_of(scene.session("A"), b"thread 2") == [OTHER]
    assert waits.holds(scene.session("A"), b"")
    assert not waits.holds(scene.session("A"), b"thread 2")
    assert waits.keys_of(999, b"") == []
    assert not waits.holds(998, b"")


def test_what_outlived_its_session_waits_for_nothing() -> None:
    scene = chain()
    scene.hangup("A", keep_held=True)
    scene.ask("again", key=FOURTH, by="A")
    assert keys(scene, KEY) == [KEY]


def test_a_deadlock_can_only_go_over_those_who_hold_something_while_they_wait() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b")
    scene.ask("c", key=OTHER, by="b")
    scene.end("c")
    assert tangle(scene.table) == []
    scene.ask("d", PR, key=OTHER, by="b")
    assert [r.key for r in tangle(scene.table)] == [KEY]


def test_whoever_converts_holds_something_while_it_waits() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR)
    scene.convert("a", 5)
    assert [r.key for r in tangle(scene.table)] == [KEY]


def test_what_is_enqueued_may_be_given_to_somebody_who_waits_for_something_else() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b", tracked=True, by="B")
    scene.ask("b2", by="B")
    assert [r.key for r in tangle(scene.table)] == [KEY]
