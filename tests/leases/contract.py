"""What every backend promises, in both faces. A test class provides `face`, prepared and empty, and `second` beside it.

What only one database does is tested beside that database.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from holdfast.leases.errors import BadKey
from holdfast.leases.words import Got, Hold, Taken
from tests.leases.asking import KEY, LEASE_US, SECOND_US, ask, gone, hold_of

BLINK_US = 2_000


class BackendContract:
    """The promises."""

    def test_a_free_lock_is_got_and_a_held_one_tells_by_whom(self, face: Any) -> None:
        first, second = ask(), ask()
        assert face.acquire(first) == Got(1)
        for again in (False, True):
            taken = face.acquire(ask(again=again))
            assert isinstance(taken, Taken)
            assert taken.holder == first.holder
            assert 0 < taken.left_us <= LEASE_US
        assert gone(face, second) is False
        assert face.refresh([hold_of(first)], LEASE_US) == [True]

    def test_one_that_was_given_back_goes_to_the_next_at_once(self, face: Any) -> None:
        first, second = ask(), ask()
        face.acquire(first)
        assert gone(face, first)
        assert face.acquire(second) == Got(2)

    def test_a_lapsed_lease_is_stolen_without_a_reaper_and_a_live_one_never(self, face: Any) -> None:
        dead, live, thief = ask(b"t/dead", lease_us=BLINK_US), ask(b"t/live"), ask(b"t/dead")
        face.acquire(dead)
        face.acquire(live)
        assert isinstance(face.acquire(ask(b"t/live")), Taken)
        assert acquired(face, thief) == Got(2)
        assert face.refresh([hold_of(dead), hold_of(live), hold_of(thief)], LEASE_US) == [False, True, True]
        assert gone(face, dead) is False
        assert gone(face, thief)

    def test_a_late_holder_does_not_revive_a_lease_that_nobody_stole(self, face: Any) -> None:
        late = ask(lease_us=BLINK_US)
        face.acquire(late)
        await_lapse(face, late.key)
        assert face.refresh([hold_of(late)], LEASE_US) == [False]
        assert face.acquire(ask()) == Got(2)

    def test_fences_rise_and_never_start_again(self, face: Any, second: Any) -> None:
        fences = []
        for turn in range(6):
            asked = ask(lease_us=LEASE_US if turn % 2 else BLINK_US)
            got = acquired((face, second)[turn % 2], asked)
            fences.append(got.fence)
            if turn % 2:
                gone(face, asked)
        assert fences == [1, 2, 3, 4, 5, 6]

    def test_a_lost_answer_is_asked_for_again_without_harm(self, face: Any) -> None:
        asked = ask()
        assert face.acquire(asked) == Got(1)
        assert face.acquire(asked) == Got(1)
        assert face.acquire(ask(lock_id=asked.lock_id, again=True)) == Got(1)
        assert gone(face, asked)
        assert gone(face, asked)

    def test_two_refreshes_in_one_instant_both_succeed(self, face: Any) -> None:
        asked = ask()
        face.acquire(asked)
        assert [face.refresh([hold_of(asked)], LEASE_US) for _ in range(5)] == [[True]] * 5

    def test_a_refresh_begins_the_lease_anew_at_the_server(self, face: Any) -> None:
        asked = ask(lease_us=SECOND_US)
        face.acquire(asked)
        assert face.refresh([hold_of(asked)], LEASE_US) == [True]
        (row,) = face.list()
        assert row.left_us > 50 * SECOND_US

    def test_keys_are_told_apart_byte_by_byte(self, face: Any) -> None:
        long = b"k" * 1000
        keys = [b"t/a", b"t/A", b"t/a ", b"t/\xc3\xa9", b"t/e", b"t/\xff\xfe'\"\\%s", long, long + b"1", long + b"2"]
        for key in keys:
            assert face.acquire(ask(key)) == Got(1)
        assert [row.key for row in face.list()] == sorted(keys)

    def test_the_list_tells_all_of_a_row_and_shows_what_has_lapsed(self, face: Any) -> None:
        held, dead, free = ask(b"b/held"), ask(b"a/dead", lease_us=BLINK_US), ask(b"c/free")
        for asked in (held, dead, free):
            face.acquire(asked)
        gone(face, free)
        await_lapse(face, dead.key)
        first, second = face.list()
        assert (first.key, first.lapsed) == (dead.key, True)
        assert (second.key, second.lapsed) == (held.key, False)
        assert (second.holder, second.node, second.pid) == (held.holder, held.node, held.pid)
        assert (second.process, second.lock_id, second.fence) == (held.process, held.lock_id, 1)
        assert 0 <= second.age_us < LEASE_US

    def test_clearing_frees_what_is_as_it_was_seen_and_nothing_else(self, face: Any) -> None:
        dead, other = ask(b"t/dead"), ask(b"t/other")
        face.acquire(dead)
        face.acquire(other)
        seen = [hold_of(dead), Hold(other.key, "somebody before"), Hold(b"t/never", "nobody")]
        assert face.clear(seen) == 1
        assert face.clear(seen) == 0
        assert face.acquire(ask(b"t/dead")) == Got(2)
        assert isinstance(face.acquire(ask(b"t/other")), Taken)

    def test_what_was_taken_away_is_not_its_holders_any_more(self, face: Any, second: Any) -> None:
        asked = ask()
        face.acquire(asked)
        assert second.clear([hold_of(asked)]) == 1
        assert face.refresh([hold_of(asked)], LEASE_US) == [False]
        assert gone(face, asked) is False
        assert second.acquire(ask()) == Got(2)

    def test_one_lock_is_looked_at_alone(self, face: Any) -> None:
        asked, other = ask(), ask(b"t/other")
        assert face.look(KEY) is None
        face.acquire(asked)
        face.acquire(other)
        seen = face.look(KEY)
        assert (seen.key, seen.lapsed, seen.holder["pid"]) == (KEY, False, asked.pid)
        assert (seen.node, seen.pid, seen.process) == (asked.node, asked.pid, asked.process)
        assert (seen.lock_id, seen.fence) == (asked.lock_id, 1)
        assert 0 <= seen.age_us < LEASE_US
        assert 0 < seen.left_us <= LEASE_US
        gone(face, asked)
        assert face.look(KEY) is None
        assert face.look(other.key).lock_id == other.lock_id

    def test_a_thousand_locks_are_refreshed_and_the_one_that_is_lost_is_told_apart(
        self, face: Any, second: Any
    ) -> None:
        asked = [ask(b"t/%d" % number) for number in range(1000)]
        with ThreadPoolExecutor(4) as callers:
            list(callers.map(face.acquire, asked))
        holds = [hold_of(one) for one in asked]
        assert face.refresh(holds, LEASE_US) == [True] * 1000
        second.clear([holds[500]])
        second.acquire(ask(b"t/500"))
        assert [number for number, ours in enumerate(face.refresh(holds, LEASE_US)) if not ours] == [500]
        assert face.release(holds).count(True) == 999

    def test_more_rows_than_one_statement_takes_are_refreshed_in_several(self, face: Any) -> None:
        asked = ask()
        face.acquire(asked)
        strangers = [Hold(b"t/%d" % number, "nobody") for number in range(1500)]
        assert face.refresh([*strangers, hold_of(asked)], LEASE_US) == [False] * 1500 + [True]
        assert face.refresh([], LEASE_US) == []
        assert face.release([]) == []

    def test_what_is_told_of_a_holder_has_a_limit(self, face: Any) -> None:
        asked = ask()
        huge = type(asked)(
            key=asked.key,
            lock_id=asked.lock_id,
            holder={"operation": "x" * 5000},
            node="n",
            pid=1,
            process="p",
            lease_us=LEASE_US,
        )
        with pytest.raises(BadKey, match="4096"):
            face.acquire(huge)
        assert face.acquire(asked) == Got(1)

    def test_the_time_is_that_of_the_day(self, face: Any) -> None:
        assert abs(face.now() - time.time_ns() // 1000) < 3600 * SECOND_US

    def test_waiting_ends_when_its_time_is_up_and_when_the_backend_closes(self, face: Any) -> None:
        face.acquire(ask())
        face.wait(KEY, 0.001)
        with ThreadPoolExecutor(1) as waiters:
            entered = threading.Event()

            def wait_long() -> None:
                entered.set()
                face.wait(b"t/other", 50)

            waiting = waiters.submit(wait_long)
            entered.wait(30)
            until = time.monotonic() + 30
            while not waiting.done() and time.monotonic() < until:
                face.close()
            assert waiting.result(1) is None
        assert isinstance(face.acquire(ask()), Taken)  # whoever asks again connects again

    def test_many_fight_for_one_key_and_never_two_have_it(self, face: Any, second: Any) -> None:
        fences: list[int] = []
        inside = threading.Lock()

        def fight(own: Any) -> None:
            turns = 0
            again = False
            while turns < 4:
                asked = ask(again=again)
                got = own.acquire(asked)
                again = isinstance(got, Taken)
                if isinstance(got, Got):
                    assert inside.acquire(blocking=False), "two holders"
                    fences.append(got.fence)
                    inside.release()
                    assert gone(own, asked)
                    turns += 1

        with ThreadPoolExecutor(16) as callers:
            for done in [callers.submit(fight, (face, second)[number % 2]) for number in range(16)]:
                done.result(120)
        assert len(fences) == 64
        assert all(earlier < later for earlier, later in pairwise(fences))

    def test_the_table_is_made_once_and_made_again_without_harm(self, face: Any, second: Any) -> None:
        face.acquire(ask())
        with ThreadPoolExecutor(4) as callers:
            assert list(callers.map(lambda own: own.prepare(), [face, second] * 2)) == [[]] * 4
        second.verify()
        assert isinstance(second.acquire(ask()), Taken)


def await_lapse(face: Any, key: bytes) -> None:
    """Wait until the server says that a lease is over."""
    until = time.monotonic() + 30
    while not all(row.lapsed for row in face.list() if row.key == key):
        assert time.monotonic() < until, "the lease does not lapse"


def acquired(face: Any, asked: Any) -> Got:
    """Ask until it is got."""
    until = time.monotonic() + 30
    while True:
        got = face.acquire(asked)
        if isinstance(got, Got):
            return got
        assert time.monotonic() < until, "the lock is not to be had"
