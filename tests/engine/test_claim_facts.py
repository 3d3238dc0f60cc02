"""What a claim knows beside its mode: since when, what value it saw, who waits for it; and giving it back by ticket.

Who may hold what is tested in test_claim.py.
"""

import pytest

from holdfast.words import EX, PR, Answer, Cancel, Effect, Granted
from tests.engine.kit import Scene, span

# --- giving back by ticket ---


@pytest.mark.parametrize(("value", "block"), [(b"new", (b"new", True)), (None, (b"old", True))])
def test_what_is_given_back_by_its_ticket_may_leave_a_value(value: bytes | None, block: tuple[bytes, bool]) -> None:
    scene = Scene()
    scene.ask("w")
    scene.end("w", value=b"old")
    scene.ask("a")
    scene.ask("b")
    out: list[Effect] = []
    how = Cancel(scene.session("a"), b"a", held=True, value=value)
    assert scene.table.cancel(how, scene.now, out) == (Answer.ENDED, scene["a"])
    assert [type(effect) for effect in out] == [Granted]
    assert scene["b"].seen == block


def test_a_claim_has_seen_the_value_as_it_was_when_it_was_granted() -> None:
    scene = Scene()
    scene.ask("a")
    assert scene["a"].seen is None
    scene.end("a", value=b"1")
    scene.ask("b", lease=30)
    assert scene["b"].seen == (b"1", True)
    scene.after(30)
    scene.ask("c", PR)
    assert scene["c"].seen == (b"1", False)
    assert scene.convert("c", EX) is Answer.GRANTED
    assert scene.convert("c", PR, value=b"2") is Answer.GRANTED
    assert scene["c"].seen == (b"2", True)


def test_a_claim_knows_since_when_it_waits_and_holds() -> None:
    scene = Scene()
    scene.ask("a", PR, lease=90)
    start = scene.now
    scene.sleep(1)
    scene.ask("b")
    assert (scene["a"].since, scene["b"].since) == (start, start + span(1))
    scene.sleep(1)
    scene.renew("a", 90)
    assert scene["a"].since == start
    scene.end("a")
    assert scene["b"].since == start + span(2)


def test_a_first_phase_blocks_its_caller_when_somebody_waits_for_it() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b", tracked=True)
    scene.ask("c")
    assert [scene[name].blocks_caller for name in "bc"] == [False, True]
    scene.wait("b", 5)
    assert scene["b"].blocks_caller
