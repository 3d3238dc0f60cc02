"""A resource goes to its document and comes back with all that its transitions depend on; anything else is refused.

That random commands cannot tell the two apart is tested in test_differential.py.
"""

import ast
import base64
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.engine.document import VERSION, decode, encode, reload
from holdfast.engine.invariants import check, check_table
from holdfast.engine.resource import MODES, Resource, holders
from holdfast.errors import DocumentError
from holdfast.words import CR, CW, EX, FOREVER, NL, PR, UNLIMITED, Answer, Claim, Reason, State
from tests.engine.kit import KEY, Scene

OF_RESOURCES = [
    "fence",
    "key",
    "limit",
    "listeners",
    "mask",
    "orders",
    "soonest",
    "stuck",
    "tally",
    "touched",
    "used",
    "value",
    "value_seq",
    "value_valid",
    "version",
]
OF_CLAIMS = [
    "about",
    "awaited",
    "deadline",
    "fence",
    "key",
    "lease_ns",
    "kept",
    "limit",
    "listens",
    "mode",
    "order",
    "owner",
    "patience_ns",
    "queue",
    "reason",
    "refuses",
    "secret",
    "session",
    "since",
    "state",
    "tail",
    "ticket",
    "token",
    "tracked",
    "units",
    "want",
]
OF_MORE = ["asked", "convert_deadline", "nudged", "seen"]

# What the first version wrote down of `full_scene`, with an owner.
FIRST_DOCUMENT = zlib.decompress(
    base64.b64decode(
        "eNqby3hegAECWFnOA8m3NXtuMIAYL64sFWBgO3SEjaEsMac0lfHwlDsMQkxHGBOZmJkZQQrY/iivYTjfANV96DBY1/sLJ/YgBJmO"
        "GKABIwMCQOUIU27qIaBVzEcYk2BW8f5wj0CYevgQ2KpvZ95kIASZMawyJmQVwxEGkEUsRxiTmRmZGOFGIfx0iAnEBocEyMZPKlcW"
        "MLBgWGRCpEWsRxhTmBmwW8SIYtGXigctDKwYFpkSY9EkoE1sRxhTGRlYkWwCYpYV4ieA0cSMiGWYLFAb1InsRxjTGBmYsTjx8CEW"
        "hBPRNAIAU3KOGg=="
    )
)


def full_scene() -> Scene:
    """Set a scene in which everything that a document has a place for is used."""
    scene = Scene()
    scene.ask("w", EX)
    scene.end("w", value=b"\x00value")
    scene.ask("a", PR, lease=30, listens=True)
    scene.ask("b", PR, lease=60, tracked=True)
    scene.ask("c", CR)
    scene.ask("d", NL)
    scene.convert("d", CW, patience=50)
    scene.convert("c", CW, patience=40)
    scene.ask("e", EX, patience=20, listens=True)
    scene.ask("f", PR, tracked=True)
    scene.wait("f", 60)
    scene["a"].owner, scene["b"].about, scene["e"].refuses = b"me", b"{}", True
    return scene


def facts(r: Resource) -> dict[str, object]:
    """Spread out all that is known of a resource, except whom the table wakes and what is only a matter of speed."""
    facts: dict[str, object] = {name: getattr(r, name) for name in OF_RESOURCES}
    facts["tally"] = r.tally or [0] * MODES
    facts["held"] = [claim_facts(c) for c in holders(r)]
    facts["waiting"] = None if r.waiting is None else [claim_facts(c) for c in r.waiting.values()]
    facts["converting"] = None if r.converting is None else [claim_facts(c) for c in r.converting.values()]
    return facts


def claim_facts(c: Claim) -> dict[str, object]:
    return {name: getattr(c, name) for name in OF_CLAIMS + OF_MORE}


def test_nothing_is_forgotten_here_that_a_resource_or_a_claim_knows() -> None:
    everything = {"agenda", "converting", "listed", "many", "sole", "sought", "waiting", "wake", *OF_RESOURCES}
    assert everything == slots_of("engine/resource.py", "Resource")
    assert {"book", "more", *OF_CLAIMS} == slots_of("words.py", "Claim") | {"secret"}
    # A rival is only of use while a refusal is being answered; test_bond.py has the bonds.
    assert {"rival", "bond", *OF_MORE} == slots_of("words.py", "More")


def slots_of(file: str, name: str) -> set[str]:
    """Read the slots of a class from its source, for a compiled class does not tell."""
    tree = ast.parse((Path(holdfast.__file__).parent / file).read_text())
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    for node in found.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__":
            return set(ast.literal_eval(node.value))
    raise AssertionError(f"{name} has no slots")


def test_a_resource_comes_back_as_it_was() -> None:
    scene = full_scene()
    assert (scene.converters, scene.waiters) == (["d", "c"], ["e", "f"])
    back = decode(KEY, encode(scene.key))
    check(back, scene.now)
    assert facts(back) == facts(scene.key)


def test_modes_and_states_come_back_as_what_they_were() -> None:
    """The engine compares them by identity, so that a plain number would be a wrong one."""
    back = decode(KEY, encode(full_scene().key))
    for c in [*holders(back), *(back.waiting or {}).values()]:
        assert type(c.mode) is type(c.want) is int
        assert type(c.state) is State


def test_an_idle_resource_comes_back_as_it_was() -> None:
    scene = Scene()
    scene.ask("a", CW, limit=5)
    scene.end("a")
    back = decode(KEY, encode(scene.key))
    assert facts(back) == facts(scene.key)
    assert (back.limit, back.fence, back.waiting, back.converting) == (5, 1, None, None)


def test_a_resource_that_is_stuck_comes_back_stuck() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b")
    scene.mint.dry = True
    scene.end("a")
    back = decode(KEY, encode(scene.key))
    assert back.stuck
    assert back.soonest == scene.key.soonest


def test_holders_come_back_in_the_order_of_their_grants_and_not_of_their_fences() -> None:
    scene = Scene()
    for name in "abc":
        scene.ask(name, CR)
    scene.convert("a", NL)
    assert scene.holders == ["b", "c", "a"]
    reload(scene.table, KEY)
    assert [c.ticket for c in holders(scene.key)] == [b"b", b"c", b"a"]


def test_tickets_may_be_numbers_or_bytes() -> None:
    scene = Scene()
    for ticket in (0, 2**63, b"", b"\xff"):
        c = Claim(KEY, CR, 1, UNLIMITED, FOREVER, FOREVER)
        c.ticket = ticket
        assert scene.table.enqueue(c, scene.now, []) is Answer.GRANTED
    back = decode(KEY, encode(scene.key))
    assert [c.ticket for c in holders(back)] == [0, 2**63, b"", b"\xff"]


def test_a_document_is_small() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    assert len(encode(scene.key)) <= 200


def test_the_key_is_not_in_the_document() -> None:
    scene = full_scene()
    assert KEY not in encode(scene.key)
    assert decode(b"moved", encode(scene.key)).key == b"moved"


# --- what is no document ---


@pytest.mark.parametrize("document", [b"", b"\x90", b"\xc0", b"nonsense", b"\x91\x01", b"\x91\xa11"])
def test_bytes_that_are_no_document_are_refused(document: bytes) -> None:
    with pytest.raises(DocumentError, match="cannot be read"):
        decode(KEY, document)


def test_a_document_cut_short_anywhere_is_refused() -> None:
    document = encode(full_scene().key)
    for length in range(len(document)):
        with pytest.raises(DocumentError):
            decode(KEY, document[:length])


def test_a_document_of_the_first_version_is_read_and_what_it_does_not_tell_is_made_up() -> None:
    back = decode(KEY, FIRST_DOCUMENT)
    scene = full_scene()
    check(back, scene.now)
    scene["f"].awaited = scene["e"].refuses = False
    scene["f"].patience_ns = FOREVER
    scene["f"].deadline = scene.now + FOREVER
    scene["b"].about = b""
    for c in (scene["c"], scene["d"]):
        c.asked = 0
    for c in holders(scene.key):
        c.seen = None
    assert facts(back) == facts(scene.key)
    assert back.value == b"\x00value"


def test_since_when_somebody_of_the_first_version_holds_is_never_before_the_beginning() -> None:
    document = msgspec.msgpack.decode(FIRST_DOCUMENT)
    document[HELD][0][DEADLINE] = 5
    assert holders(decode(KEY, msgspec.msgpack.encode(document)))[0].since == 0


def test_a_document_of_another_version_is_refused_by_its_number() -> None:
    document = msgspec.msgpack.encode([VERSION + 1, "of a shape that nobody knows yet"])
    with pytest.raises(DocumentError, match=f"version {VERSION + 1}; this release reads {VERSION}"):
        decode(KEY, document)


# Where things stand in the list of a resource, and of a claim.
HELD, WAITING, STATE, WANT, DEADLINE = 11, 12, 2, 4, 11


def spoil_held_state(document: list[Any]) -> None:
    document[HELD][0][STATE] = State.WAITING


def spoil_waiting_state(document: list[Any]) -> None:
    document[WAITING][0][STATE] = State.HELD


def repeat_holder(document: list[Any]) -> None:
    document[HELD].append(document[HELD][0])


def repeat_waiter(document: list[Any]) -> None:
    document[WAITING].append(document[WAITING][0])


def spoil_mode(document: list[Any]) -> None:
    document[HELD][0][WANT] = 6


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (spoil_held_state, "lists a claim as held that is WAITING"),
        (spoil_waiting_state, "lists a claim as waiting that is HELD"),
        (repeat_holder, "lists a holder twice"),
        (repeat_waiter, "lists a waiter twice"),
        (spoil_mode, "cannot be read"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_document_that_contradicts_itself_is_refused(spoil: Callable[[list[Any]], None], why: str) -> None:
    document = msgspec.msgpack.decode(encode(full_scene().key))
    spoil(document)
    with pytest.raises(DocumentError, match=why):
        decode(KEY, msgspec.msgpack.encode(document))


# --- a live table whose resource is read again ---


def test_a_reload_changes_nothing_that_anybody_can_see() -> None:
    scene = full_scene()
    before, old = facts(scene.key), scene.key
    wakes = [(when, n) for when, n, _ in scene.table._wakes]
    reload(scene.table, KEY)
    assert scene.key is not old
    assert facts(scene.key) == before
    assert [(when, n) for when, n, _ in scene.table._wakes] == wakes
    check_table(scene.table, scene.now)


def test_what_outlived_its_session_without_a_name_is_in_nobodys_book_after_a_reload() -> None:
    scene = Scene()
    scene.ask("a")
    c = Claim(KEY, NL, 1, UNLIMITED, FOREVER, FOREVER)
    c.session, c.ticket = scene.session("b"), 1
    scene.table.enqueue(c, scene.now, [])
    scene.hangup("b", keep_held=True)
    reload(scene.table, KEY)
    assert [(c.kept, c.book is None) for c in holders(scene.key)] == [(False, False), (True, True)]


def test_after_a_reload_sessions_find_their_claims_and_deadlines_are_met() -> None:
    scene = Scene()
    scene.ask("a", PR, lease=30)
    scene.ask("b", PR, lease=60)
    reload(scene.table, KEY)
    for name in "ab":
        c = scene.table.find(scene.session(name), name.encode())
        assert c is not None
        assert c is not scene[name]
        scene.claims[name] = c
    assert scene.after(30) == [("ended", "a", Reason.EXPIRED)]
    scene.hangup("b")
    assert scene.news == [("ended", "b", Reason.LAPSED)]
    scene.sleep(100)
    assert scene.table.sweep(scene.now) == 1


def test_after_a_reload_what_is_nobodys_any_more_is_still_nobodys() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    scene.hangup("a", keep_held=True)
    reload(scene.table, KEY)
    c = holders(scene.key)[0]
    assert c.kept
    assert scene.table.find(c.session, c.ticket) is None
    assert scene.table.orphans == {b"a": c}
    assert (c.limit, c.convert_deadline) == (UNLIMITED, FOREVER)
