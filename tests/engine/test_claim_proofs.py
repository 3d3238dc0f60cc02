"""Who holds, shown to who is refused; what has to be shown to renew and release; and how often a key has changed.

The transitions themselves are tested in test_claim.py.
"""

from holdfast.secret import lease_id_of
from holdfast.words import EX, PR, Answer, End, Proof, Renew
from tests.engine.kit import KEY, Scene, span


def test_who_is_refused_is_told_who_holds() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR)
    assert scene.ask("try", queue=False) is Answer.BUSY
    assert scene.ask("hurry", patience=0) is Answer.TIMED_OUT
    assert scene.ask("c", patience=5) is Answer.QUEUED
    assert scene.ask("d") is Answer.QUEUED
    assert scene.wait("d", 0) is Answer.TIMED_OUT
    scene.after(5)
    assert [scene[name].rival for name in ("try", "hurry", "c", "d")] == [scene["a"]] * 4
    assert scene["b"].rival is None


def test_a_proof_is_owner_and_lease_id_and_both_have_to_be_right() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    c = scene["a"]
    c.owner = b"me"
    lease_id = lease_id_of(c.secret)
    bad = [Proof(b"you", lease_id), Proof(b"me", b"another"), Proof(b"", b"")]
    for proof in bad:
        assert scene.table.renew(Renew(KEY, c.token, span(60), proof), scene.now, []) is Answer.NOT_HELD
        assert scene.table.end(End(KEY, c.token, proof=proof), scene.now, []) is Answer.NOT_HELD
    assert c.deadline == scene.now + span(30)
    good = Proof(b"me", lease_id)
    assert scene.table.renew(Renew(KEY, c.token, span(60), good), scene.now, []) is Answer.RENEWED
    assert scene.table.end(End(KEY, b"no token", proof=good), scene.now, []) is Answer.NOT_HELD
    assert scene.table.end(End(KEY, c.token, proof=good), scene.now, []) is Answer.ENDED


def test_a_renewal_that_must_not_shorten_keeps_the_later_end() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    c = scene["a"]
    assert scene.table.renew(Renew(KEY, c.token, span(1), shortens=False), scene.now, []) is Answer.RENEWED
    assert c.deadline == scene.now + span(30)
    assert scene.table.renew(Renew(KEY, c.token, span(31), shortens=False), scene.now, []) is Answer.RENEWED
    assert c.deadline == scene.now + span(31)
    assert scene.table.renew(Renew(KEY, c.token, span(1)), scene.now, []) is Answer.RENEWED
    assert c.deadline == scene.now + span(1)


def test_the_version_of_a_key_counts_all_that_changes_who_holds_it_and_for_how_long() -> None:
    scene = Scene()
    versions = []
    for act in (
        lambda: scene.ask("a", PR, lease=30),
        lambda: scene.ask("b", PR),
        lambda: scene.ask("c", EX),  # waiting changes nothing for those who hold
        lambda: scene.cancel("c"),
        lambda: scene.renew("a", 60),
        lambda: scene.end("b"),
        lambda: scene.end("b"),
        lambda: scene.convert("a", EX),
        lambda: scene.ask("d", lease=9),
        lambda: scene.after(60),
        lambda: scene.after(9),
    ):
        act()
        versions.append(scene.key.version)
    assert versions == [1, 2, 2, 2, 3, 4, 4, 5, 5, 7, 8]
