"""The table: keys, sessions, timed work and hygiene.

What one key decides is tested beside the file that decides it.
"""

import pytest

from holdfast.engine.table import SWEEP_MAX, Table
from holdfast.testing.mint import CountingMint
from holdfast.words import (
    CONVERTING,
    CR,
    EX,
    FOREVER,
    HELD,
    PR,
    UNLIMITED,
    Answer,
    Cancel,
    Claim,
    Convert,
    Effect,
    End,
    Ended,
    Hangup,
    Reason,
    Renew,
    Wait,
)
from tests.engine.kit import KEY, Scene, span

NOBODY = 999


def test_keys_do_not_know_each_other() -> None:
    scene = Scene()
    assert scene.ask("a", key=b"one") is Answer.GRANTED
    assert scene.ask("b", key=b"two") is Answer.GRANTED
    assert scene.ask("c", key=b"one") is Answer.QUEUED
    scene.end("b")
    assert scene.news == []


def test_fences_rise_over_all_keys() -> None:
    scene = Scene()
    for number, key in enumerate([b"one", b"two", b"one"]):
        scene.ask(str(number), CR, key=key)
    assert [scene[name].fence for name in "012"] == [1, 2, 3]


def test_a_table_that_is_full_takes_in_no_new_key_but_still_serves_those_it_has() -> None:
    scene = Scene(keys_max=2)
    scene.ask("a", key=b"one")
    scene.ask("b", key=b"two")
    assert scene.ask("c", key=b"three") is Answer.TOO_MANY_KEYS
    assert scene.ask("d", key=b"one") is Answer.QUEUED


def test_a_ticket_names_one_claim_at_a_time() -> None:
    scene = Scene()
    scene.ask("a")
    with pytest.raises(AssertionError):
        scene.ask("a")


def test_what_nobody_knows_is_not_held() -> None:
    scene = Scene()
    scene.ask("a", key=b"one")
    table, now = scene.table, scene.now
    assert table.wait(Wait(NOBODY, 1, 0), now, []) == (Answer.NOT_ENQUEUED, None)
    assert table.wait(Wait(1, b"other", 0), now, []) == (Answer.NOT_ENQUEUED, None)
    assert table.renew(Renew(b"nowhere", b"", 1), now, []) is Answer.NOT_HELD
    assert table.end(End(b"nowhere", b""), now, []) is Answer.NOT_HELD
    assert table.convert(Convert(NOBODY, 1, EX), now, []) == (Answer.NOT_HELD, None)
    assert table.cancel(Cancel(NOBODY, 1), now, []) == (Answer.NOT_HELD, None)
    table.hangup(Hangup(NOBODY), now, [])
    assert list(table.resources) == [b"one"]


def test_whoever_shows_the_token_may_release_and_renew() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    token = scene["a"].token
    assert scene.table.renew(Renew(KEY, token, span(60)), scene.now, []) is Answer.RENEWED
    assert scene.table.end(End(KEY, token), scene.now, []) is Answer.ENDED


def test_waiting_for_a_claim_whose_lease_ran_out_says_so() -> None:
    scene = Scene()
    scene.ask("a", lease=30, tracked=True)
    scene.sleep(30)
    assert scene.wait("a") is Answer.LEASE_EXPIRED
    assert scene.wait("a") is Answer.NOT_ENQUEUED


def test_waiting_for_a_claim_that_ran_out_of_patience_finds_nothing() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b", patience=10, tracked=True)
    scene.sleep(10)
    assert scene.wait("b") is Answer.NOT_ENQUEUED


def test_a_claim_whose_lease_ran_out_cannot_be_converted_released_or_cancelled() -> None:
    scene = Scene()
    for name in "abc":
        scene.ask(name, PR, lease=30, key=name.encode())
    scene.sleep(30)
    assert scene.convert("a", EX) is Answer.NOT_HELD
    assert scene.end("b") is Answer.NOT_HELD
    assert scene.cancel("c") is Answer.NOT_HELD


# --- sessions that hang up ---


def test_no_claim_outlives_its_session() -> None:
    scene = Scene()
    scene.ask("held", key=b"one", by="a")
    scene.ask("other", key=b"two")
    scene.ask("waits", key=b"two", by="a")
    scene.hangup("a")
    assert scene.news == [("ended", "waits", Reason.LAPSED), ("ended", "held", Reason.LAPSED)]
    assert scene.session("a") not in scene.table.sessions
    assert scene["held"].book is None


def test_what_a_session_held_goes_to_those_who_wait_for_it() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b")
    scene.hangup("a")
    assert scene.news == [("ended", "a", Reason.LAPSED), ("granted", "b")]


def test_nothing_is_handed_to_the_dead() -> None:
    scene = Scene()
    scene.ask("first", by="a")
    scene.ask("second", by="a")
    scene.ask("third", by="b")
    fences = scene.mint.next
    scene.hangup("a")
    assert scene.news == [
        ("ended", "second", Reason.LAPSED),
        ("ended", "first", Reason.LAPSED),
        ("granted", "third"),
    ]
    assert scene.mint.next == fences + 1


def test_nothing_is_handed_to_the_dead_by_a_lease_that_ran_out_unseen() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    scene.ask("b")
    scene.ask("c")
    scene.sleep(40)
    scene.hangup("b")
    assert scene.news == [("ended", "b", Reason.LAPSED), ("ended", "a", Reason.EXPIRED), ("granted", "c")]


def test_a_hangup_does_not_grant_to_a_waiter_whose_patience_ran_out_unseen() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b", patience=30)
    scene.sleep(40)
    scene.hangup("a")
    assert scene.news == [("ended", "b", Reason.TIMED_OUT), ("ended", "a", Reason.LAPSED)]


def test_a_lease_that_ran_out_before_the_hangup_ended_by_itself() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    scene.sleep(40)
    scene.hangup("a")
    assert scene.news == [("ended", "a", Reason.EXPIRED)]


def test_a_conversion_ends_with_its_session_and_then_its_claim() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR)
    scene.convert("a", EX)
    scene.ask("c", PR)
    scene.hangup("a")
    assert scene.news == [("stayed", "a", Reason.LAPSED), ("ended", "a", Reason.LAPSED), ("granted", "c")]


def test_held_claims_stay_where_the_door_says_so_until_their_leases_end() -> None:
    scene = Scene()
    scene.ask("held", lease=30, by="a")
    scene.hangup("a", keep_held=True)
    assert scene.news == []
    assert scene.holders == ["held"]
    assert scene["held"].kept
    assert scene.table.find(scene.session("a"), b"held") is None
    assert scene.after(30) == [("ended", "held", Reason.EXPIRED)]


def test_waiters_go_with_their_session_even_where_held_claims_stay() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b")
    scene.ask("c")
    scene.hangup("b", keep_held=True)
    assert scene.news == [("ended", "b", Reason.LAPSED)]
    assert scene.waiters == ["c"]


def test_a_conversion_stops_with_its_session_even_where_held_claims_stay() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR)
    scene.convert("a", EX)
    scene.hangup("a", keep_held=True)
    assert scene.news == [("stayed", "a", Reason.LAPSED)]
    assert (scene["a"].state, scene["a"].mode) == (HELD, PR)


def test_what_stayed_can_be_released_by_whoever_shows_the_token() -> None:
    scene = Scene()
    scene.ask("a")
    scene.hangup("a", keep_held=True)
    assert scene.end("a") is Answer.ENDED


def test_a_session_that_only_ever_was_refused_may_hang_up() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b", queue=False)
    scene.hangup("b")
    assert scene.news == []


# --- time ---


def test_the_table_says_when_it_has_to_be_ticked() -> None:
    scene = Scene()
    assert scene.table.next_deadline() == FOREVER
    scene.ask("a", key=b"one", lease=30)
    scene.ask("b", key=b"two", lease=20)
    assert scene.table.next_deadline() == scene.table.soonest == scene.now + span(20)
    scene.after(20)
    assert scene.table.next_deadline() == scene.table.soonest == scene.now + span(10)
    scene.after(10)
    assert scene.table.next_deadline() == scene.table.soonest == FOREVER


def test_a_tick_that_comes_too_early_does_nothing() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    scene.end("a")
    scene.ask("b", lease=60)
    assert scene.after(30) == []
    assert scene.table.next_deadline() == scene.now + span(30)


def test_one_tick_does_the_work_of_many_keys() -> None:
    scene = Scene()
    for number in range(50):
        scene.ask(str(number), key=b"%d" % number, lease=50 - number)
    ended = [news[1] for news in scene.after(60, late=True)]
    assert ended == [str(number) for number in reversed(range(50))]


def test_a_deadline_that_moves_nearer_is_kept() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    scene.renew("a", 5)
    assert scene.after(5) == [("ended", "a", Reason.EXPIRED)]
    assert scene.after(30) == []


def test_stale_wakes_are_thrown_away_before_they_fill_the_memory() -> None:
    scene = Scene()
    scene.ask("a", lease=10**6)
    for lease in range(3000, 0, -1):
        scene.table.renew(Renew(KEY, scene["a"].token, span(lease)), scene.now, [])
    assert len(scene.table._wakes) <= 2 * 1 + 1000
    assert scene.after(1) == [("ended", "a", Reason.EXPIRED)]


def test_stale_wakes_may_be_thrown_away_in_the_middle_of_a_tick() -> None:
    scene = Scene(keys_max=2000, idle_max=10)
    table = scene.table
    for number in range(1100):
        c = Claim(b"%d" % number, EX, 1, UNLIMITED, span(100), FOREVER)
        c.ticket = number
        table.enqueue(c, scene.now, [])
        table.end(End(c.key, c.token), scene.now, [])
    scene.ask("a", PR, lease=30)
    scene.ask("b", PR, lease=60)
    scene.ask("c", key=b"other", lease=30)
    scene.sleep(20)
    assert table.sweep(scene.now) == 1100
    assert len(table._wakes) > 1100
    assert scene.after(10) == [("ended", "a", Reason.EXPIRED), ("ended", "c", Reason.EXPIRED)]
    assert len(table._wakes) < 10
    assert scene.after(30) == [("ended", "b", Reason.EXPIRED)]


# --- hygiene ---


def test_a_key_is_forgotten_when_it_was_idle_for_strictly_longer_than_allowed() -> None:
    scene = Scene(idle_max=60)
    scene.ask("a")
    scene.end("a")
    scene.sleep(60)
    assert scene.table.sweep(scene.now) == 0
    scene.now += 1
    assert scene.table.sweep(scene.now) == 1
    assert scene.table.resources == {}


def test_a_key_that_is_held_or_waited_for_is_never_forgotten() -> None:
    scene = Scene(idle_max=60)
    scene.ask("a")
    scene.sleep(100)
    assert scene.table.sweep(scene.now) == 0
    scene.ask("b")
    scene.mint.dry = True
    scene.end("a")
    scene.sleep(100)
    assert (scene.holders, scene.waiters) == ([], ["b"])
    assert scene.table.sweep(scene.now) == 0
    assert scene.key is not None


def test_a_try_keeps_a_key_alive_and_a_release_with_a_wrong_token_does_not() -> None:
    scene = Scene(idle_max=60)
    scene.ask("a", key=b"tried")
    scene.ask("b", key=b"poked")
    scene.end("a")
    scene.end("b")
    scene.sleep(50)
    scene.ask("c", key=b"tried", limit=1)
    scene.table.end(End(b"poked", b"wrong"), scene.now, [])
    scene.sleep(50)
    assert scene.table.sweep(scene.now) == 1
    assert list(scene.table.resources) == [b"tried"]


def test_with_no_idle_time_allowed_a_key_goes_with_the_first_sweep_after_its_release() -> None:
    scene = Scene(idle_max=0)
    scene.ask("a", key=b"one")
    scene.ask("b", key=b"two")
    scene.end("b")
    scene.sleep(1)
    assert scene.table.sweep(scene.now) == 1
    assert list(scene.table.resources) == [b"one"]


def test_a_sweep_looks_at_so_many_keys_and_no_more() -> None:
    table = Table(CountingMint(), 2 * SWEEP_MAX, 0, 0)
    for number in range(SWEEP_MAX + 7):
        c = Claim(b"%d" % number, EX, 1, UNLIMITED, FOREVER, FOREVER)
        c.ticket = number
        table.enqueue(c, 1, [])
        table.end(End(c.key, c.token), 1, [])
    assert [table.sweep(2) for _ in range(3)] == [SWEEP_MAX, 7, 0]


def test_a_key_that_was_forgotten_with_a_wake_still_set_disturbs_nobody() -> None:
    scene = Scene(idle_max=10)
    scene.ask("a", lease=30)
    scene.end("a")
    scene.sleep(20)
    assert scene.table.sweep(scene.now) == 1
    scene.ask("b", lease=30)
    assert scene.after(20) == []
    assert scene.after(10) == [("ended", "b", Reason.EXPIRED)]


def test_a_forgotten_key_may_come_back_with_another_limit() -> None:
    scene = Scene(idle_max=10)
    scene.ask("a", limit=1)
    scene.end("a")
    scene.sleep(20)
    scene.table.sweep(scene.now)
    assert scene.ask("b", limit=2) is Answer.GRANTED


def test_an_ended_claim_says_what_it_was_doing() -> None:
    scene = Scene()
    scene.ask("a", PR, tracked=True)
    scene.ask("b", PR)
    scene.convert("a", EX)
    out: list[Effect] = []
    scene.table.end(End(KEY, scene["a"].token), scene.now, out)
    assert isinstance(out[0], Ended)
    assert out[0].was is CONVERTING
