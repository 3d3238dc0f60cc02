"""Whoever asked is answered or goes on waiting, whatever the other side says; and every error has its code."""

import pytest

from holdfast import errors
from holdfast.client.asks import Ended, Query
from holdfast.client.dialects.codec import BY_CODE, Codec, error_of
from holdfast.errors import BadPeer, FenceUnavailable, HoldfastError, LeaseLost, NotHeld, Refused, Unavailable


class Words(Codec):
    """Answers each word with itself; `?` is nonsense."""

    ready = True

    def __init__(self):
        super().__init__()
        self.asked = []

    def greeting(self):
        return b""

    def write(self, ask, handle):
        self.asked.append(handle)
        return b"%b " % ask.op.encode()

    def _take_in(self, data, answers):
        for word in data.split():
            if word == b"?":
                raise BadPeer("nonsense")
            answers.append((self.asked[0], Ended(was_there=word == b"yes")))
            self.asked.pop(0)

    def has_room(self):
        return True

    def _unanswered(self):
        return list(self.asked)


def asked(*handles):
    codec = Words()
    for handle in handles:
        codec.write(Query("end"), handle)
    return codec


def test_answers_go_to_those_who_asked_in_their_order():
    codec = asked("a", "b", "c")
    assert codec.read(b"yes no") == [("a", Ended(was_there=True)), ("b", Ended(was_there=False))]
    assert codec.waiting == ["c"]


def test_an_answer_that_came_along_with_nonsense_is_not_believed_and_nobody_is_forgotten():
    codec = asked("a", "b", "c")
    with pytest.raises(BadPeer):
        codec.read(b"yes ? no")
    assert codec.waiting == ["a", "b", "c"]


def test_what_was_answered_before_the_nonsense_stays_answered():
    codec = asked("a", "b")
    codec.read(b"yes")
    with pytest.raises(BadPeer):
        codec.read(b"?")
    assert codec.waiting == ["b"]


def test_most_protocols_have_nothing_left_to_say_at_the_end():
    codec = asked("a")
    assert codec.end() == []
    assert codec.waiting == ["a"]


def test_every_error_of_ours_is_found_by_its_code():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HoldfastError)]
    assert len(kinds) == len(BY_CODE)
    for kind in kinds:
        error = error_of(kind.code, "why it was")
        assert type(error) is kind
        assert error.detail == "why it was"


def test_an_error_is_what_it_is_one_of():
    assert isinstance(error_of("lease_lost", ""), NotHeld)
    assert type(error_of("lease_lost", "")) is LeaseLost
    assert isinstance(error_of("fence_unavailable", ""), Unavailable)
    assert type(error_of("fence_unavailable", "")) is FenceUnavailable


def test_an_error_that_this_release_does_not_know_is_a_refusal_and_says_its_name():
    error = error_of("out_of_tea", "the kettle is cold")
    assert type(error) is Refused
    assert str(error) == "out_of_tea: the kettle is cold"
