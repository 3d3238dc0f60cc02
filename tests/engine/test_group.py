"""What callers do with groups: all of it at once or all of it in line, found again by its ticket, gone in one go.

How a group is granted when something comes free is tested in test_bond.py.
"""

import random

import pytest

from holdfast.engine.resource import holders
from holdfast.words import (
    CR,
    EX,
    GROUP_KEYS_MAX,
    NL,
    PR,
    RESIDENT,
    Answer,
    Mode,
    Reason,
)
from tests.engine.kit import Scene
from tests.engine.naive import NaiveKeys

A, B, C = b"a", b"b", b"c"


@pytest.fixture
def scene() -> Scene:
    return Scene()


def held(scene: Scene, key: bytes) -> list[str]:
    return [scene.name_of(c) for c in holders(scene.table.resources[key])] if key in scene.table.resources else []


def queue(scene: Scene, key: bytes) -> list[str]:
    r = scene.table.resources.get(key)
    return [scene.name_of(c) for c in r.waiting.values()] if r is not None and r.waiting is not None else []


# --- asking ---


def test_a_group_is_granted_in_the_order_in_which_its_keys_were_asked_for(scene: Scene) -> None:
    assert scene.ask_all("g", B, A, C, lease=30) is Answer.GRANTED
    assert [c.key for c in scene.group.claims] == [B, A, C]
    assert [held(scene, key) for key in (A, B, C)] == [["g#1"], ["g#0"], ["g#2"]]
    assert len({c.fence for c in scene.group.claims}) == 3
    assert scene.news == []


def test_a_group_waits_for_all_where_one_is_taken(scene: Scene) -> None:
    scene.ask("x", key=B)
    assert scene.ask_all("g", A, B) is Answer.QUEUED
    assert [queue(scene, key) for key in (A, B)] == [["g#0"], ["g#1"]]
    assert held(scene, A) == []
    assert scene.ask("late", key=A, queue=False) is Answer.BUSY  # it does not overtake the group


def test_a_group_may_be_as_large_as_is_allowed(scene: Scene) -> None:
    keys = [b"%d" % number for number in range(GROUP_KEYS_MAX)]
    assert scene.ask_all("g", *keys) is Answer.GRANTED
    assert scene.cancel_all("g", held=True) is Answer.ENDED
    assert not any(held(scene, key) for key in keys)


def test_a_try_for_a_group_takes_nothing_and_tells_who_is_in_the_way(scene: Scene) -> None:
    scene.ask("x", key=B)
    assert scene.ask_all("g", A, B, queue=False) is Answer.BUSY
    assert scene.hindered is not None
    assert (scene.hindered.key, scene.hindered.rival) == (B, scene["x"])
    assert scene.ask_all("h", A, B, patience=0) is Answer.TIMED_OUT
    assert scene.hindered.rival is scene["x"]
    assert held(scene, A) == queue(scene, A) == queue(scene, B) == []
    assert scene.ask("next", key=A) is Answer.GRANTED


def test_a_group_asks_for_modes_and_seats(scene: Scene) -> None:
    assert scene.ask_all("g", A, B, wants={A: PR, B: CR}, limits={B: 2}) is Answer.GRANTED
    assert scene.ask_all("h", A, B, wants={A: PR, B: CR}, limits={B: 2}) is Answer.GRANTED
    assert scene.ask_all("i", A, B, wants={A: PR, B: CR}, limits={B: 2}, queue=False) is Answer.BUSY
    assert scene.ask_all("j", A, B, limits={B: 3}) is Answer.LIMIT_MISMATCH
    assert scene.ask_all("k", B, C, limits={B: 2, C: 2}, units=3) is Answer.LIMIT_MISMATCH
    assert held(scene, C) == []


def test_there_is_room_for_all_keys_of_a_group_or_for_none() -> None:
    scene = Scene(keys_max=3)
    scene.ask("x", key=A)
    scene.ask("y", key=b"other")
    assert scene.ask_all("g", A, B, C) is Answer.TOO_MANY_KEYS
    assert set(scene.table.resources) == {A, b"other"}
    assert scene.ask_all("h", A, B) is Answer.QUEUED


def test_there_is_a_place_in_every_queue_or_in_none() -> None:
    scene = Scene(waiters_max=1)
    scene.ask("x", key=B)
    scene.ask("y", key=B)
    assert scene.ask_all("g", A, B) is Answer.TOO_MANY_WAITERS
    assert queue(scene, A) == []
    assert queue(scene, B) == ["y"]


def test_without_a_fence_for_one_of_them_none_is_granted(scene: Scene) -> None:
    scene.mint.dry = True
    assert scene.ask_all("g", A, B) is Answer.NO_FENCE
    assert held(scene, A) == held(scene, B) == []
    scene.mint.dry = False
    assert scene.ask_all("g", A, B) is Answer.GRANTED


def test_whoever_could_not_be_given_a_fence_is_older_than_a_group(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask("w", key=A)
    scene.mint.dry = True
    scene.end("x")
    scene.mint.dry = False
    assert scene.ask_all("g", A, B) is Answer.QUEUED
    assert scene.news == [("granted", "w")]


def test_what_has_run_out_unseen_is_not_in_the_way_of_a_group(scene: Scene) -> None:
    scene.ask("x", key=A, lease=5)
    scene.ask("y", key=B, lease=5)
    scene.sleep(5)
    assert scene.ask_all("g", A, B) is Answer.GRANTED
    assert scene.news == [("ended", "x", Reason.EXPIRED), ("ended", "y", Reason.EXPIRED)]


def test_a_group_that_would_close_a_circle_is_refused_where_that_is_wished(scene: Scene) -> None:
    scene.ask("a", key=A, by="one")
    scene.ask("b", key=B, by="two")
    assert scene.ask_all("g", B, C, by="one") is Answer.QUEUED
    assert scene.ask_all("h", C, A, by="two", refuses=True) is Answer.WOULD_DEADLOCK
    assert queue(scene, C) == ["g#1"]
    assert queue(scene, A) == []
    assert scene.ask_all("h", C, A, by="three", refuses=True) is Answer.QUEUED


# --- the ticket ---


def test_a_ticket_that_is_shown_again_finds_the_group_it_was_shown_for(scene: Scene) -> None:
    scene.ask("x", key=A)
    assert scene.ask_all("g", A, B) is Answer.QUEUED
    waiting = scene.group.claims
    assert scene.ask_all("g", A, B) is Answer.QUEUED
    assert scene.group.claims == waiting
    scene.end("x")
    assert scene.ask_all("g", A, B) is Answer.GRANTED
    assert scene.group.claims == waiting


def test_a_part_of_a_group_is_not_taken_for_all_of_it(scene: Scene) -> None:
    scene.ask_all("g", A, B)
    scene.end("g#0")
    assert scene.ask_all("g", A, B) is Answer.LEASE_EXPIRED
    assert scene.wait_all("g") is Answer.LEASE_EXPIRED
    assert held(scene, B) == ["g#1"]
    scene.end("g#1")
    assert scene.ask_all("g", A, B) is Answer.GRANTED


@pytest.mark.parametrize("keys", [(B, A), (A, C), (A, B, C)])
def test_a_ticket_of_other_keys_is_refused(scene: Scene, keys: tuple[bytes, ...]) -> None:
    scene.ask_all("g", A, B)
    assert scene.ask_all("g", *keys) is Answer.ALREADY_ENQUEUED


def test_a_ticket_of_more_keys_is_refused_also_when_only_the_last_of_them_is_left(scene: Scene) -> None:
    scene.ask_all("g", A, B, C)
    scene.end("g#0")
    scene.end("g#1")
    assert scene.ask_all("g", A, B) is Answer.ALREADY_ENQUEUED
    assert scene.wait_all("g") is Answer.LEASE_EXPIRED


@pytest.mark.parametrize("ticket", ["g", "g#1"])
def test_a_ticket_of_a_single_claim_is_refused(scene: Scene, ticket: str) -> None:
    scene.ask(ticket, key=B, by="g")
    assert scene.ask_all("g", A, B) is Answer.ALREADY_ENQUEUED
    assert held(scene, A) == []


def test_what_outlived_its_session_goes_to_whoever_shows_the_ticket(scene: Scene) -> None:
    scene.ask_all("g", A, B, by="before")
    scene.hangup("before", keep_held=True)
    assert scene.ask_all("g", A, B, by="after") is Answer.GRANTED
    assert {c.session for c in scene.group.claims} == {scene.session("after")}
    scene.hangup("after")
    assert scene.news == [("ended", "g#0", Reason.LAPSED), ("ended", "g#1", Reason.LAPSED)]


def test_what_has_run_out_unseen_is_not_found_again(scene: Scene) -> None:
    scene.ask_all("g", A, B, lease=5)
    scene.sleep(5)
    assert scene.ask_all("g", A, B) is Answer.GRANTED
    assert scene.news == [("ended", "g#0", Reason.EXPIRED), ("ended", "g#1", Reason.EXPIRED)]


# --- waiting ---


def test_a_group_that_is_held_has_its_full_lease_from_the_wait_on(scene: Scene) -> None:
    scene.ask_all("g", A, B, lease=30, tracked=True)
    scene.sleep(10)
    assert scene.wait_all("g") is Answer.GRANTED
    assert scene.waited.claims == scene.group.claims
    assert {c.deadline for c in scene.group.claims} == {scene.now + 30 * 10**9}


def test_a_group_that_waits_has_one_patience_from_the_wait_on(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask_all("g", A, B, tracked=True)
    assert not scene["g#0"].blocks_caller
    assert scene.wait_all("g", 5) is Answer.QUEUED
    assert scene["g#1"].blocks_caller
    assert scene.after(5) == [("ended", "g#0", Reason.TIMED_OUT), ("ended", "g#1", Reason.TIMED_OUT)]


def test_a_wait_for_one_is_a_wait_for_all(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask_all("g", A, B, tracked=True)
    assert scene.wait("g#1", 5) is Answer.QUEUED
    assert len({c.deadline for c in scene.group.claims}) == 1
    assert scene.wait("g#1", 0) is Answer.TIMED_OUT
    assert scene.news == [("ended", "g#0", Reason.TIMED_OUT)]
    assert scene["g#1"].rival is scene["x"]


def test_a_wait_without_patience_tells_of_every_end_before_what_comes_of_it(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask_all("g", A, B, tracked=True)
    scene.ask("next", key=B)
    assert scene.wait_all("g", 0) is Answer.TIMED_OUT
    ended = [("ended", name, Reason.TIMED_OUT) for name in ("g#0", "g#1")]
    assert scene.news == [*ended, ("granted", "next")]


def test_a_wait_finds_a_group_that_could_not_be_given_fences_before(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask_all("g", A, B, lease=30, tracked=True)
    scene.mint.dry = True
    scene.end("x")
    scene.mint.dry = False
    assert scene.wait_all("g", 5) is Answer.GRANTED
    assert scene.news == [("granted", "g#0"), ("granted", "g#1")]


def test_a_wait_for_nothing_is_refused(scene: Scene) -> None:
    scene.ask("x", key=A)
    assert scene.wait_all("g") is Answer.NOT_ENQUEUED
    scene.ask_all("g", A, B, patience=5)
    scene.sleep(5)
    assert scene.wait_all("g") is Answer.NOT_ENQUEUED
    scene.ask_all("h", B, C, lease=5)
    scene.sleep(5)
    assert scene.wait_all("h") is Answer.LEASE_EXPIRED


# --- ending ---


def test_a_group_that_waits_is_withdrawn_as_one(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask_all("g", A, B, C)
    assert scene.cancel_all("g") is Answer.CANCELLED
    assert scene.news == [("ended", "g#1", Reason.CANCELLED), ("ended", "g#2", Reason.CANCELLED)]
    assert [queue(scene, key) for key in (A, B, C)] == [[], [], []]
    assert scene.cancel_all("g") is Answer.NOT_HELD


def test_whoever_waits_for_one_of_them_withdraws_all(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask_all("g", A, B)
    scene.ask("next", key=B)
    assert scene.cancel("g#0") is Answer.CANCELLED
    assert scene.news == [("ended", "g#1", Reason.CANCELLED), ("granted", "next")]


def test_what_is_held_stays_unless_it_is_meant(scene: Scene) -> None:
    scene.ask_all("g", A, B, C)
    scene.end("g#1")
    assert scene.cancel_all("g") is Answer.BUSY
    assert held(scene, A) == ["g#0"]
    assert scene.cancel_all("g", held=True) is Answer.ENDED
    assert held(scene, A) == held(scene, C) == []


def test_a_conversion_of_one_of_them_stops_and_the_others_stay(scene: Scene) -> None:
    scene.ask("x", PR, key=A)
    scene.ask_all("g", A, B, want=PR)
    scene.convert("g#0", EX)
    assert scene.cancel_all("g") is Answer.CANCELLED
    assert scene.news == [("stayed", "g#0", Reason.CANCELLED)]
    assert held(scene, B) == ["g#1"]


def test_each_that_is_held_is_a_claim_of_its_own(scene: Scene) -> None:
    scene.ask_all("g", A, B, lease=10)
    scene.renew("g#1", 30)
    assert scene.after(10) == [("ended", "g#0", Reason.EXPIRED)]
    assert scene.convert("g#1", PR) is Answer.GRANTED
    assert scene.end("g#1") is Answer.ENDED


def test_a_session_that_hangs_up_takes_its_group_out_of_every_queue(scene: Scene) -> None:
    scene.ask("x", key=A)
    scene.ask_all("g", A, B, C)
    scene.ask("y", key=B)
    scene.ask("z", key=C)
    scene.hangup("g", keep_held=True)
    lapsed = [("ended", f"g#{index}", Reason.LAPSED) for index in range(3)]
    assert scene.news == [*lapsed, ("granted", "y"), ("granted", "z")]


def test_the_resident_has_no_groups_of_others(scene: Scene) -> None:
    scene.ask_all("g", A, B)
    scene.hangup("g", keep_held=True)
    scene.sessions["resident"] = RESIDENT
    assert scene.ask_all("g", A, B, by="resident") is Answer.QUEUED


# --- against the naive model ---

KEYS = (A, B, C)
WANTS = (EX, EX, PR, PR, CR, NL)


class Rivals:
    """The engine and the naive model, which are asked the same."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.scene = Scene()
        self.naive = NaiveKeys()
        self.names = 0
        self.waiting: dict[str, list[str]] = {}  # the names of the members of each wish that waits
        self.held: list[tuple[str, str]] = []  # each that is held, and the wish that it was part of

    def step(self) -> None:
        if self.held and self.dice.random() < 0.4:
            member, name = self.held.pop(self.dice.randrange(len(self.held)))
            self.scene.end(member)
            self.see(self.naive.give_back(name, self.scene[member].key.decode()))
        elif self.waiting and self.dice.random() < 0.2:
            name = self.dice.choice(list(self.waiting))
            self.scene.cancel(self.dice.choice(self.waiting.pop(name)))
            self.see(self.naive.withdraw(name))
        else:
            self.ask()
        for key in KEYS:
            assert [wish_of(name) for name in queue(self.scene, key)] == self.naive.queue(key.decode())
            modes = sorted((wish_of(name), Mode(self.scene[name].mode).name) for name in held(self.scene, key))
            assert modes == sorted((lock.name, lock.mode) for lock in self.naive.holders(key.decode()))

    def ask(self) -> None:
        self.names += 1
        name = f"n{self.names}"
        wants = {key: self.dice.choice(WANTS) for key in self.dice.sample(KEYS, self.dice.randint(1, len(KEYS)))}
        waits = self.dice.random() < 0.9
        if len(wants) == 1:
            members = [name]
            ((key, want),) = wants.items()
            answer = self.scene.ask(name, want, key=key, queue=waits)
        else:
            members = [f"{name}#{index}" for index in range(len(wants))]
            answer = self.scene.ask_all(name, *wants, wants=wants, queue=waits)
        expected, _ = self.naive.ask(name, {key.decode(): Mode(want).name for key, want in wants.items()}, waits)
        assert answer.name.lower() == expected
        if answer is Answer.GRANTED:
            self.held += [(member, name) for member in members]
        elif answer is Answer.QUEUED:
            self.waiting[name] = members

    def see(self, expected: set[str]) -> None:
        granted = [news[1] for news in self.scene.news if news[0] == "granted"]
        assert {wish_of(name) for name in granted} == expected
        assert sorted(granted) == sorted(member for name in expected for member in self.waiting[name])
        for name in expected:
            self.held += [(member, name) for member in self.waiting.pop(name)]


def wish_of(name: str) -> str:
    return name.partition("#")[0]


@pytest.mark.parametrize("seed", range(25))
def test_groups_are_granted_as_the_naive_model_grants_them(seed: int) -> None:
    rivals = Rivals(seed)
    for _ in range(60):
        rivals.step()
