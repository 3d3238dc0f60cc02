"""A store of transactions, judged: what is told before it is kept is found, and what is kept outlives the server.

The histories are made by hand; that the checkers agree with the real store is shown by running the simulator.
"""

import json

import pytest

from sim.checkers.book import Book, Claim, Key
from sim.checkers.exclusion import check_exclusion
from sim.checkers.fences import check_fences
from sim.checkers.leases import check_leases
from sim.checkers.ledger import check_ledger
from sim.checkers.patience import check_patience
from sim.checkers.promises import check_promises
from sim.checkers.turns import Turns
from sim.history import History, Minted, Rules
from tests.sim.script import Script, token

ONE, TWO = token(1), token(2)
REQUEST = "request"
BEFORE = "before the transaction was over"


def on_file() -> Script:
    return Script(store="sqlite")


def asked(script: Script, peer: int, command: str, key: str, arg: str) -> Script:
    """Let a request get as far as its transaction."""
    return script.ask(peer, command, key, arg).hand(peer).perform((peer, REQUEST)).apply(peer)


def held(lease: int = 10) -> Script:
    """Let 1 hold the key."""
    script = asked(on_file(), 1, "l", "job", f"0 {lease}").mint(0, 1).commit()
    return script.outcome().tell(1, f"ok {ONE} {lease}")


def restarted(script: Script, peer: int = 8) -> Script:
    return script.stop().start().connect(peer)


# --- promises ---


def test_a_grant_that_is_told_when_it_is_kept_is_right() -> None:
    assert held().judged_by(check_promises) == []


def test_a_grant_that_is_told_before_it_is_kept_is_found() -> None:
    script = asked(on_file(), 1, "l", "job", "0 10").mint(0, 1).tell(1, f"ok {ONE} 10").commit().outcome()
    assert [BEFORE in text for text in script.judged_by(check_promises)] == [True]


def test_a_grant_that_is_never_kept_is_found() -> None:
    script = asked(on_file(), 1, "l", "job", "0 10").mint(0, 1).outcome().tell(1, f"ok {ONE} 10")
    assert [text.endswith("and nothing was committed") for text in script.judged_by(check_promises)] == [True]


def test_a_refusal_need_not_be_kept() -> None:
    script = asked(held(), 2, "l", "job", "0 10").outcome().tell(2, "timeout")
    assert script.judged_by(check_promises) == []


def test_a_command_that_the_store_forgets_is_found() -> None:
    script = on_file().ask(1, "l", "job", "0 10").hand(1)
    assert script.judged_by(check_promises) == ["the store never turned to [(1, 'request')]"]


def test_a_command_that_overtakes_another_is_found() -> None:
    script = on_file().ask(1, "l", "job", "0 10").hand(1).ask(2, "l", "job", "0 10").hand(2)
    assert script.perform((2, REQUEST), (1, REQUEST)).judged_by(check_promises) != []


def test_the_end_of_a_connection_is_told_again_to_a_store_that_failed() -> None:
    once = held().leave(1).hand(1, "hangup").perform((1, "hangup")).apply(1, "hangup").refuse_commit().outcome()
    assert once.judged_by(check_promises) == ["the store never turned to [(1, 'hangup')]"]
    twice = held().leave(1).hand(1, "hangup").perform((1, "hangup")).refuse_commit().outcome()
    twice.perform((1, "hangup")).apply(1, "hangup").commit().outcome()
    assert twice.judged_by(check_promises) == []


# --- what has happened, and what has not ---


def test_what_failed_has_not_happened() -> None:
    script = asked(on_file(), 1, "l", "job", "0 10").mint(0, 1).refuse_commit().outcome().tell(1, "error")
    asked(script, 2, "l", "job", "0 10").mint(0, 1).commit().outcome().tell(2, f"ok {ONE} 10")
    assert script.judged_by(check_ledger) == []


def test_what_failed_must_be_answered_so() -> None:
    script = asked(on_file(), 1, "l", "job", "0 10").mint(0, 1).refuse_commit().outcome().tell(1, f"ok {ONE} 10")
    assert "instead of b'error'" in "".join(script.judged_by(check_ledger))


@pytest.mark.parametrize("fails", [True, False])
def test_an_idle_key_that_may_have_been_forgotten_may_find_its_place_taken(fails: bool) -> None:
    script = asked(Script(store="sqlite", keys_max=2), 1, "l", "old", "0 1").mint(0, 1).commit()
    script.outcome().tell(1, f"ok {ONE} 1")
    asked(script, 1, "r", "old", ONE).commit().outcome().tell(1, "ok")
    if fails:
        asked(script, 1, "l", "old", "0 1").mint(1, 2).refuse_commit().outcome().tell(1, "error")
    for peer, key in ((1, "job"), (2, "new"))[: 2 if fails else 1]:
        asked(script, peer, "l", key, "0 9").mint(0, 1).commit().outcome().tell(peer, f"ok {ONE} 9")
    asked(script, 3, "l", "old", "0 1").outcome().tell(3, "error_max_locks")
    assert (script.judged_by(check_ledger) == []) is fails


def test_two_idle_keys_of_one_name_are_told_apart_in_stats() -> None:
    """Of one of them it is not known whether the server has forgotten it."""
    script = on_file()
    for command, arg in (("l", "0 1"), ("sl", "0 1 1")):
        asked(script, 1, command, "job", arg).mint(0, 1).commit().outcome().tell(1, f"ok {ONE} 1")
        asked(script, 1, f"{command[:-1]}r", "job", ONE).commit().outcome().tell(1, "ok")
    asked(script, 1, "l", "job", "0 1").mint(1, 2).refuse_commit().outcome().tell(1, "error")
    asked(script, 1, "sl", "job", "0 2 1").outcome().tell(1, "error_limit_mismatch")
    idle = {"key": "job", "idle_s": 0.0}
    told = {"connections": 3, "locks": [], "semaphores": [], "idle_locks": [idle, idle], "idle_semaphores": []}
    asked(script, 2, "stats", "_", "_").outcome().tell(2, f"ok {json.dumps(told)}")
    assert script.judged_by(check_ledger) == []


def test_what_is_held_outlives_the_server_and_is_refused_to_others() -> None:
    script = restarted(held())
    asked(script, 8, "l", "job", "0 10").outcome().tell(8, "timeout")
    assert script.judged_by(check_ledger) == []
    assert script.judged_by(check_leases) == []


def test_a_second_holder_after_a_restart_is_found() -> None:
    script = restarted(held())
    asked(script, 8, "l", "job", "0 10").mint(1, 2).commit().outcome().tell(8, f"ok {TWO} 10")
    assert script.judged_by(check_ledger) == ["fence 2 was made, and nobody can have been granted anything"]
    assert script.judged_by(check_exclusion) == ["peers 1, 8 hold lock job at once"]


def test_a_token_is_good_after_a_restart_for_as_long_as_was_promised() -> None:
    early = restarted(held().wait(9))
    asked(early, 8, "n", "job", f"{ONE} 5").outcome().tell(8, "error")
    assert "its token was good" in "".join(early.judged_by(check_leases))
    late = restarted(held().wait(10))
    asked(late, 8, "n", "job", f"{ONE} 5").commit().outcome().tell(8, "ok 5")
    assert "its token was not good" in "".join(late.judged_by(check_leases))


def test_a_commit_that_nobody_was_told_of_has_happened() -> None:
    script = restarted(asked(on_file(), 1, "l", "job", "0 10").mint(0, 1).commit())
    asked(script, 8, "l", "job", "0 10").outcome().tell(8, "timeout")
    assert script.judged_by(check_ledger) == []


def test_a_transaction_that_was_not_committed_when_the_server_died_has_not_happened() -> None:
    script = restarted(asked(on_file(), 1, "l", "job", "0 10").mint(0, 1))
    asked(script, 8, "l", "job", "0 10").mint(0, 1).commit().outcome().tell(8, f"ok {ONE} 10")
    assert script.judged_by(check_ledger) == []


def test_who_waits_when_the_server_dies_need_not_be_answered() -> None:
    script = restarted(asked(held(60), 2, "l", "job", "2 10").commit().outcome().wait(1)).wait(30)
    assert script.judged_by(check_patience) == []
    assert script.judged_by(check_ledger) == []


def resurfaced(seconds: int = 0) -> Script:
    """Let a server die some time after it has told 1 that its lock could not be kept; but it has been."""
    script = asked(on_file(), 1, "l", "job", "0 10").mint(0, 1).refuse_commit(written=True).outcome().tell(1, "error")
    return script.wait(seconds).resurface().start().connect(8)


def test_what_failed_and_is_in_the_file_all_the_same_has_happened() -> None:
    script = asked(resurfaced(), 8, "l", "job", "0 10").outcome().tell(8, "timeout")
    assert script.judged_by(check_ledger) == []
    script = asked(resurfaced(), 8, "l", "job", "0 10").mint(1, 2).commit().outcome().tell(8, f"ok {TWO} 10")
    assert script.judged_by(check_ledger) == ["fence 2 was made, and nobody can have been granted anything"]


def test_no_server_slept_through_a_lease_that_none_has_known() -> None:
    script = asked(resurfaced(15), 8, "l", "job", "0 10").mint(1, 2).commit().outcome().tell(8, f"ok {TWO} 10")
    assert script.judged_by(check_ledger) == []
    assert "slept" in "".join(resurfaced(5).wait(7).judged_by(check_ledger))


def test_a_fence_that_begins_again_after_a_restart_is_found() -> None:
    script = restarted(held(lease=1).wait(2))
    asked(script, 8, "l", "job", "0 10").mint(0, 1).commit().outcome().tell(8, f"ok {token(1)[:-1]}f 10")
    assert "got the fence of another claim" in "".join(script.judged_by(check_fences))
    assert script.judged_by(check_ledger) != []


def test_a_second_phase_counts_although_its_caller_leaves_meanwhile() -> None:
    script = asked(Script(store="sqlite", release_on_disconnect=False), 1, "e", "job", "10").mint(0, 1).commit()
    script.outcome().tell(1, f"acquired {ONE} 10").wait(9).ask(1, "w", "job", "0").hand(1).give_up(1).hand(1, "hangup")
    script.perform((1, REQUEST), (1, "hangup")).apply(1).apply(1, "hangup").commit().outcome().wait(9)
    asked(script, 2, "l", "job", "0 10").outcome().tell(2, "timeout")
    assert script.judged_by(check_ledger) == []


# --- whose fence it is ---


def test_fences_of_several_keys_are_shared_out_key_by_key() -> None:
    book = Book(Rules(store="sqlite"))
    for name, count in (("one", 1), ("two", 2)):
        key = book.keys[name] = Key(name, 2, fence=3)
        key.unfenced = [Claim(1, False, 1, 1, 1, None) for _ in range(count)]
    history = History(0)
    for last in (3, 4, 3):
        history.add(Minted, last, last + 1)
    assert Turns(book, history.events, 0).next_key(3) is book.keys["two"]
