"""What a failed try means for the next one: when it may begin, with which key, and from when its lease would count.

The clock is turned by hand.
"""

from itertools import count

import pytest

from holdfast.client.lock_api import NotAcquired, TooManyStatus
from holdfast.client.lock_tries import Tries
from holdfast.client.retry import SECOND, RetryPolicy
from holdfast.errors import BadRequest, Unavailable, Unknown

MS = SECOND // 1000


def tries_under(**policy):
    numbers = count(1)
    return Tries(RetryPolicy(jitter=0, **policy), 0, lambda: 0.5, lambda size: next(numbers).to_bytes(size, "big"))


def refusal(after=0.0):
    return NotAcquired("job", "HELD", retry_after=after)


def test_the_advice_of_the_server_is_followed_within_the_bounds_of_the_policy():
    tries = tries_under(min_delay=0.025, max_delay=1.0)
    assert tries.failed(refusal(0.5), 0) == 500 * MS
    assert tries.failed(refusal(9.0), 0) == SECOND
    assert tries.failed(refusal(0.001), 0) == 25 * MS
    assert tries.failed(TooManyStatus("POST", "/", 429, b"", 0.7), 0) == 700 * MS


def test_after_the_last_try_the_last_refusal_is_raised():
    tries = tries_under(max_retries=2)
    last = refusal()
    tries.failed(refusal(), 0)
    tries.failed(last, 0)
    with pytest.raises(NotAcquired) as raised:
        tries.failed(Unavailable("gone"), 0)
    assert raised.value is last


def test_without_a_refusal_the_trouble_itself_is_raised():
    with pytest.raises(Unavailable, match="gone"):
        tries_under(max_retries=0).failed(Unavailable("gone"), 0)


def test_what_will_never_be_answered_otherwise_is_not_tried_again():
    with pytest.raises(BadRequest):
        tries_under().failed(BadRequest("no"), 0)


def test_a_broken_connection_is_not_tried_again_where_the_policy_says_so():
    tries = tries_under(retry_transport=False)
    assert tries.failed(refusal(), 0) > 0
    with pytest.raises(Unknown):
        tries.failed(Unknown("lost"), 0)


def test_the_total_wait_is_a_bound_for_tries_and_their_answers():
    tries = tries_under(max_total_wait=2.0)
    assert tries.until(0, 10 * SECOND) == 2 * SECOND
    assert tries.until(0, SECOND) == SECOND
    # The last try begins a moment before the end, and nobody sleeps behind it.
    assert tries.failed(refusal(1.0), 1500 * MS) == 1750 * MS
    with pytest.raises(NotAcquired):
        tries.failed(refusal(1.0), 1750 * MS)


def test_without_a_bound_a_try_has_its_own_time():
    assert tries_under().until(5, 10) == 15


def test_all_tries_carry_the_same_key():
    tries = tries_under()
    key = tries.key
    tries.failed(refusal(), 0)
    tries.failed(Unknown("lost"), 0)
    assert tries.key == key
    assert len(key) == 32


def test_a_lease_counts_from_its_own_request_after_refusals():
    tries = tries_under()
    tries.begin(10)
    tries.failed(refusal(), 20)
    tries.begin(30)
    tries.failed(Unavailable("never got there"), 40)
    tries.begin(50)
    assert (tries.sent_at, tries.in_doubt) == (50, False)


def test_a_lease_counts_from_the_first_request_whose_answer_was_lost():
    tries = tries_under()
    tries.begin(10)
    tries.failed(Unknown("lost"), 20)
    tries.begin(30)
    tries.failed(Unknown("lost"), 40)
    tries.begin(50)
    # A lost request may still arrive, long after another one was refused.
    tries.failed(refusal(), 60)
    tries.begin(70)
    assert (tries.sent_at, tries.in_doubt) == (10, True)


def test_when_the_lease_of_a_lost_request_is_over_everything_begins_anew():
    tries = tries_under()
    key = tries.key
    tries.begin(10)
    tries.failed(Unknown("lost"), 20)
    tries.lapsed()
    tries.begin(30)
    assert (tries.sent_at, tries.in_doubt) == (30, False)
    assert tries.key != key
