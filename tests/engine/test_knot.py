"""Who can never go on, on views that are put together by hand; random ones are in test_graph.py.

Each test is one rule of the reduction.
"""

from holdfast.engine.knot import Actor, Knot, Line
from holdfast.engine.view import view_of
from holdfast.words import CW, EX, NL, PR
from tests.engine.kit import Scene

OTHER = b"orders/18"


def stuck(scene: Scene) -> set[str]:
    knot = Knot([view_of(r, True) for r in scene.table.resources.values()])
    sessions = {number: name for name, number in scene.sessions.items()}
    return {name_of(actor, sessions) for actor in knot.stuck}


def name_of(actor: Actor, sessions: dict[int, str]) -> str:
    return sessions[actor[0]]


def test_who_waits_for_nothing_gives_back_all_it_has() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b")
    scene.ask("c")
    assert stuck(scene) == set()


def test_who_waits_for_itself_never_goes_on() -> None:
    scene = Scene()
    scene.ask("a", by="A")
    scene.ask("a2", by="A")
    assert stuck(scene) == {"A"}


def test_one_of_two_wishes_is_enough_to_go_on() -> None:
    scene = Scene()
    scene.ask("a", by="A")
    scene.ask("b", key=OTHER, by="B")
    scene.ask("a2", by="A")
    scene.ask("a3", key=OTHER, by="A")
    assert stuck(scene) == set()


def test_nobody_passes_who_wants_something_stronger_and_never_goes_on() -> None:
    scene = Scene()
    scene.ask("a", PR, by="A")
    scene.ask("a2", EX, by="A")
    scene.ask("b", NL, by="B")
    assert stuck(scene) == {"A", "B"}


def test_while_a_conversion_waits_nobody_else_is_granted() -> None:
    scene = Scene()
    scene.ask("a", PR, by="A")
    scene.ask("b", PR, by="B")
    scene.convert("a", EX)
    scene.ask("c", NL, by="C")
    scene.ask("d", key=OTHER, by="C")
    assert stuck(scene) == set()
    scene.ask("b2", key=OTHER, by="B")
    assert stuck(scene) == {"A", "B", "C"}


def test_a_conversion_does_not_stand_in_its_own_way() -> None:
    scene = Scene()
    scene.ask("a", CW, by="A")
    scene.ask("b", CW, by="B")
    scene.convert("a", PR)
    line = Line.of(view_of(scene.key, True))
    assert [held.number for held in line.in_the_way(line.queue[0])] == [scene["b"].fence]
    assert stuck(scene) == set()


def test_seats_are_counted() -> None:
    scene = Scene()
    for name in ("a", "b"):
        scene.ask(name, CW, limit=2, by=name.upper())
    scene.ask("a2", CW, limit=2, by="A")
    assert stuck(scene) == set()
    scene.ask("b2", CW, limit=2, by="B")
    assert stuck(scene) == {"A", "B"}


def test_what_is_enqueued_and_awaited_by_nobody_blocks_only_others() -> None:
    scene = Scene()
    scene.ask("a", by="A")
    scene.ask("a2", tracked=True, by="A")
    scene.ask("b", by="B")
    assert stuck(scene) == set()
    scene.wait("a2")
    assert stuck(scene) == {"A", "B"}


def test_what_is_enqueued_is_given_to_whom_it_belongs_even_if_that_never_goes_on() -> None:
    scene = Scene()
    scene.ask("a", key=OTHER, by="A")
    scene.ask("x", PR, by="X")
    scene.ask("a2", EX, tracked=True, by="A")
    scene.ask("b", PR, by="B")
    scene.ask("a3", key=OTHER, by="A")
    assert stuck(scene) == {"A", "B"}


def test_what_outlived_its_session_is_given_back_when_its_lease_ends() -> None:
    scene = Scene()
    scene.ask("a", by="A")
    scene.hangup("A", keep_held=True)
    scene.ask("a2", by="A")
    assert stuck(scene) == set()
