"""How every outcome is spelled: statuses, fields and their order, as in the transcript of specs/lockserver.md.

What callers may ask is tested in test_lockserver.py.
"""

import json

import pytest

from holdfast.secret import lease_id_of
from holdfast.testing.mint import secret_of
from holdfast.wire import lockserver_answers as answers
from holdfast.wire.http import spell
from holdfast.wire.problems import Refusal
from holdfast.words import EX, SECOND, UNLIMITED, Answer, Claim, Holder, View

NOW = 1_700_000_000 * SECOND
MS = 1_000_000


def claim(*, owner: bytes = b"w1", left_ns: int = 3 * SECOND, fence: int = 7) -> Claim:
    made = Claim(b"lock:job", EX, 1, UNLIMITED, 3 * SECOND, 0, False)
    made.owner = owner
    made.deadline = NOW + left_ns
    made.fence, made.secret = fence, secret_of(fence)
    return made


def refused(answer: Answer, rival: Claim | None = None) -> Refusal:
    asked = claim(owner=b"w2")
    asked.rival = rival
    return answers.not_acquired(asked, answer, NOW)


def body_of(refusal: Refusal) -> str:
    assert refusal.fields is not None
    return spell(refusal.fields).decode().rstrip()


def view(*holders: Claim, name: bytes = b"job", waiters: int = 0) -> View:
    return View(b"lock:" + name, UNLIMITED, [Holder(c) for c in holders], waiters, NOW, 4)


# --- acquire ---


def test_a_lease_is_spelled_in_the_order_of_the_original() -> None:
    assert spell(answers.lease(claim())).decode().rstrip() == (
        f'{{"acquired":true,"lock_name":"job","owner_id":"w1","lease_id":"{lease_id_of(secret_of(7)).decode()}",'
        '"fencing_token":7,"lease_expiry_ms":1700000003000}'
    )


def test_milliseconds_are_rounded_down() -> None:
    assert answers.lease(claim(left_ns=2 * MS - 1)).lease_expiry_ms == 1_700_000_000_001


@pytest.mark.parametrize("answer", [Answer.BUSY, Answer.TIMED_OUT])
def test_a_held_lock_is_told_with_its_holder(answer: Answer) -> None:
    refusal = refused(answer, claim())
    assert (refusal.status, refusal.headers) == (409, (("Retry-After", "1"),))
    assert body_of(refusal) == (
        '{"acquired":false,"lock_name":"job","current_owner_id":"w1","current_expiry_ms":1700000003000,'
        '"recommended_retry_ms":750,"reason":"HELD"}'
    )


def test_a_holder_without_a_name_is_told_by_its_session() -> None:
    rival = claim(owner=b"")
    rival.session = 12
    assert '"current_owner_id":"session/12"' in body_of(refused(Answer.BUSY, rival))


@pytest.mark.parametrize(
    ("left_ms", "hint"), [(2950, 737), (60_000, 1000), (86, 25), (100, 25), (104, 26), (4000, 1000), (-5, 25)]
)
def test_the_hint_is_a_quarter_of_what_is_left(left_ms: int, hint: int) -> None:
    assert answers.retry_ms(NOW + left_ms * MS, NOW) == hint


@pytest.mark.parametrize("answer", [Answer.BUSY, Answer.STORE_BUSY, Answer.CANCELLED, Answer.LEASE_EXPIRED])
def test_what_could_not_be_tried_names_no_holder(answer: Answer) -> None:
    refusal = refused(answer)
    assert refusal.status == 409
    assert body_of(refusal) == ('{"acquired":false,"lock_name":"job","recommended_retry_ms":50,"reason":"BUSY_RETRY"}')


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Answer.STORE_FAILED, 500),
        (Answer.NO_FENCE, 500),
        (Answer.LIMIT_MISMATCH, 500),
        (Answer.TOO_MANY_KEYS, 503),
        (Answer.TOO_MANY_WAITERS, 503),
        (Answer.DRAINING, 503),
        (Answer.CLOSED, 503),
    ],
)
def test_what_the_service_cannot_do_is_an_error(answer: Answer, status: int) -> None:
    for refusal in (refused(answer), answers.not_renewed(answer), answers.not_released(answer)):
        assert isinstance(refusal, Refusal)
        assert (refusal.status, refusal.fields) == (status, None)
        assert refusal.headers == ((("Retry-After", "1"),) if status == 503 else ())


@pytest.mark.parametrize(("answer", "limit"), [("TOO_MANY_KEYS", "keys_max"), ("TOO_MANY_WAITERS", "waiters_max")])
def test_a_limit_is_named(answer: str, limit: str) -> None:
    assert limit in answers.failure(Answer[answer]).detail


# --- renew and release ---


def test_a_renewal() -> None:
    assert spell(answers.Renewed(True, 5)) == b'{"renewed":true,"lease_expiry_ms":5}\n'
    refusal = answers.not_renewed(Answer.NOT_HELD)
    assert (refusal.status, refusal.headers) == (409, ())  # it would be no use to ask again
    assert body_of(refusal) == '{"renewed":false,"reason":"NOT_OWNER_OR_EXPIRED"}'
    refusal = answers.not_renewed(Answer.STORE_BUSY)
    assert (refusal.status, refusal.headers) == (409, (("Retry-After", "1"),))
    assert body_of(refusal) == '{"renewed":false,"reason":"BUSY_RETRY"}'


def test_a_release() -> None:
    assert spell(answers.Released(True)) == b'{"released":true}\n'
    assert spell(answers.not_released(Answer.NOT_HELD)) == b'{"released":false,"reason":"NOT_OWNER"}\n'
    assert spell(answers.not_released(Answer.STORE_BUSY)) == b'{"released":false,"reason":"BUSY_RETRY"}\n'


# --- looking ---


def state(*views: View, lease_id: bytes = b"", open_to_all: bool = False) -> str:
    found = answers.state(b"job", list(views), NOW, lease_id=lease_id, open_to_all=open_to_all)
    return spell(found).decode().rstrip()


def test_a_lock_that_nobody_knows_is_free() -> None:
    assert state() == '{"lock_name":"job","held":false}'
    assert state(view()) == '{"lock_name":"job","held":false}'


def test_a_held_lock_hides_its_lease_id() -> None:
    assert state(view(claim())) == (
        '{"lock_name":"job","held":true,"owner_id":"w1","fencing_token":7,"lease_expiry_ms":1700000003000,"version":4}'
    )


def test_a_lease_id_is_shown_to_who_knows_it_or_to_all() -> None:
    lease_id = lease_id_of(secret_of(7))
    shown = f'"owner_id":"w1","lease_id":"{lease_id.decode()}","fencing_token":7'
    assert shown in state(view(claim()), lease_id=lease_id)
    assert shown in state(view(claim()), open_to_all=True)
    assert "lease_id" not in state(view(claim()), lease_id=lease_id[:-1] + b"1")


def test_a_lease_that_ends_now_is_over() -> None:
    assert state(view(claim(left_ns=0))) == '{"lock_name":"job","held":false}'
    assert '"held":true' in state(view(claim(left_ns=1)))


def test_a_name_that_is_no_utf_8_is_shown_as_far_as_it_is() -> None:
    assert answers.lock_name(b"lock:\xc3\xa9\xff") == "é\ufffd"


def test_a_list_tells_of_each_lock_and_where_it_goes_on() -> None:
    views = [view(claim(), name=b"a", waiters=2), view(name=b"b"), view(name=b"c")]
    found = json.loads(spell(answers.listing(views, NOW, count=2, held=None)))
    assert found == {
        "locks": [
            {
                "lock_name": "a",
                "held": True,
                "waiters": 2,
                "owner_id": "w1",
                "fencing_token": 7,
                "lease_expiry_ms": 1_700_000_003_000,
                "version": 4,
            },
            {"lock_name": "b", "held": False, "waiters": 0},
        ],
        "next_cursor": b"b".hex(),
    }


def test_the_last_list_has_no_cursor() -> None:
    assert spell(answers.listing([view()], NOW, count=1, held=None)) == (
        b'{"locks":[{"lock_name":"job","held":false,"waiters":0}]}\n'
    )


def test_a_list_of_what_is_held_leaves_out_what_has_just_ended() -> None:
    assert spell(answers.listing([view(claim(left_ns=0))], NOW, count=1, held=True)) == b'{"locks":[]}\n'
