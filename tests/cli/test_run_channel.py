"""Messages between `holdfast run` and its guardian: whole, in order, and no waiting for one who does not listen.

What they mean is tested with the two.
"""

import pytest

from holdfast.cli.run_channel import pair


@pytest.fixture
def ends():
    one, other = pair()
    yield one, other
    one.close()
    other.close()


def test_messages_arrive_whole_and_in_order(ends):
    one, other = ends
    for number in range(50):
        one.send(number=number, text="ä\n")
    assert other.receive() == ([{"number": number, "text": "ä\n"} for number in range(50)], True)
    assert other.receive() == ([], True)


def test_the_end_of_the_other_is_told_with_its_last_words(ends):
    one, other = ends
    one.send(last=1)
    one.close()
    assert other.receive() == ([{"last": 1}], False)
    other.send(nobody="hears this")


def test_nobody_waits_for_one_who_does_not_listen(ends):
    one, other = ends
    for _ in range(2_000):
        one.send(text="x" * 1_000)
    messages, there = other.receive()
    assert there
    assert 0 < len(messages) < 2_000
    assert all(message == {"text": "x" * 1_000} for message in messages)
