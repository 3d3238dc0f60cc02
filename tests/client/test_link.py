"""One connection by hand: who asked hears exactly once, and what may have been heard is told from what was not."""

import pytest

from holdfast.client.asks import News, Query, Refusal, Seen
from holdfast.client.dialects.codec import Codec
from holdfast.client.link import FOREVER, OPEN_NS_MAX, Call, Link
from holdfast.errors import BadPeer, BadRequest, Forbidden, Unavailable, Unknown
from tests.client.keeping import ADDRESS, SECOND, Hands


class Words(Codec):
    """A protocol of a word for a word. It can be told to greet first, and what it cannot say."""

    def __init__(self, *, greets=False, room=100):
        super().__init__()
        self.ready = not greets
        self.greets = greets
        self.room = room
        self.asked = []

    def greeting(self):
        return b"hello\n" if self.greets else b""

    def has_room(self):
        return len(self.asked) < self.room

    def _unanswered(self):
        return self.asked

    def write(self, ask, handle):
        if ask.op == "unspeakable":
            raise BadRequest("cannot be said")
        self.asked.append(handle)
        return ask.op.encode() + b"\n"

    def _take_in(self, data, answers):
        for word in data.split():
            if word == b"garbage":
                raise BadPeer("no word of ours")
            if word == b"forbidden":
                raise Forbidden("not you")
            if word == b"hello":
                self.ready = True
            elif word.startswith(b"news-"):
                self.news.append(News(word.decode(), {}))
            else:
                answers.append((self.asked.pop(0), Seen({"word": word.decode()})))

    def end(self):
        """A last word may be whole only because the other side has closed."""
        return [(self.asked.pop(0), Seen({"word": "the end"}))] if self.asked and self.room == 1 else []


class Wire:
    """A link of a clock in the hand, and the other end of it."""

    def __init__(self, **options):
        self.hands = Hands()
        self.calls = []
        self.events = []
        self.greetings = []
        self.link = Link(
            ADDRESS,
            Words(**options),
            self.hands._open,
            self.hands.now,
            greeted=lambda link, now: self.greetings.append(now),
            told=self._told,
            over=lambda link, why, now: self.events.append(f"over: {why}"),
        )
        (self.pipe,) = self.hands.pipes

    def _told(self, news, now):
        for item in news:
            if item.event == "news-nonsense":
                raise BadPeer("news that cannot be")
            self.events.append(item.event)

    def ask(self, word, within=5):
        call = Call(Query(word), self.hands.now + within * SECOND, self.calls.append)
        self.link.submit(call, self.hands.now)
        return call


@pytest.fixture
def wire():
    return Wire()


def test_what_is_asked_before_there_is_a_connection_is_sent_when_there_is_one(wire):
    call = wire.ask("one")
    assert wire.pipe.sent == b""
    wire.hands.sleep(2)
    wire.pipe.opens()
    assert wire.pipe.take() == b"one\n"
    assert call.sent_at == wire.hands.now  # a lease counts from here, and not from when somebody wished for it
    wire.pipe.says(b"yes\n")
    assert (call.answer, wire.calls, wire.link.idle) == (Seen({"word": "yes"}), [call], True)


def test_nothing_is_asked_before_the_greeting_is_answered():
    wire = Wire(greets=True)
    wire.ask("one")
    wire.pipe.opens()
    assert wire.pipe.take() == b"hello\n"
    assert not wire.link.ready
    wire.pipe.says(b"hello\n")
    assert (wire.pipe.take(), len(wire.greetings)) == (b"one\n", 1)


def test_no_more_is_under_way_than_the_codec_has_room_for():
    wire = Wire(room=2)
    wire.pipe.opens()
    for word in ("one", "two", "three"):
        wire.ask(word)
    assert wire.pipe.take() == b"one\ntwo\n"
    wire.pipe.says(b"yes\n")
    assert wire.pipe.take() == b"three\n"


def test_what_cannot_be_said_is_refused_and_the_rest_goes_on(wire):
    wire.pipe.opens()
    bad, good = wire.ask("unspeakable"), wire.ask("one")
    assert isinstance(bad.answer, Refusal)
    assert isinstance(bad.answer.error, BadRequest)
    assert (wire.pipe.take(), good.over) == (b"one\n", False)


def test_what_was_sent_may_have_been_heard_and_what_was_not_certainly_was_not():
    wire = Wire(room=1)
    wire.pipe.opens()
    sent, queued = wire.ask("one"), wire.ask("two")
    wire.link.codec.room = 100  # so that the end of the connection is no answer
    wire.pipe.breaks("reset by peer")
    assert isinstance(sent.error, Unknown)
    assert isinstance(queued.error, Unavailable)
    assert wire.events == ["over: reset by peer"]


def test_an_answer_may_be_whole_only_because_the_connection_ends():
    wire = Wire(room=1)
    wire.pipe.opens()
    call = wire.ask("one")
    wire.pipe.breaks("closed")
    assert call.answer == Seen({"word": "the end"})


def test_garbage_ends_the_connection_and_nobody_is_forgotten(wire):
    """Not even whoever was answered in the same breath: what came with nonsense is not believed."""
    wire.pipe.opens()
    before = wire.ask("nothing")
    wire.pipe.says(b"yes\n")
    first, second = wire.ask("one"), wire.ask("two")
    wire.pipe.says(b"yes garbage\n")
    assert isinstance(first.error, Unknown)
    assert isinstance(second.error, Unknown)
    assert (wire.link.is_over, wire.pipe.closed) == (True, True)
    assert wire.calls == [before, first, second]


def test_who_was_never_understood_speaks_something_else_and_need_not_be_asked_again(wire):
    wire.pipe.opens()
    call = wire.ask("one")
    wire.pipe.says(b"garbage\n")
    assert isinstance(call.error, BadPeer)
    assert (wire.link.is_over, wire.calls) == (True, [call])


def test_a_server_that_turns_us_away_says_why():
    wire = Wire(greets=True)
    call = wire.ask("one")
    wire.pipe.opens()
    wire.pipe.says(b"forbidden\n")
    assert isinstance(call.error, Forbidden)
    assert wire.link.is_over


def test_a_server_that_refuses_later_has_refused_what_was_on_its_way(wire):
    wire.pipe.opens()
    call = wire.ask("one")
    wire.pipe.says(b"forbidden\n")
    assert isinstance(call.error, Forbidden)


def test_news_is_passed_on_after_the_answers_that_came_with_it(wire):
    wire.pipe.opens()
    call = wire.ask("one")
    call.after(lambda call: wire.events.append("answered"))
    wire.pipe.says(b"news-1 yes news-2\n")
    assert wire.events == ["answered", "news-1", "news-2"]


def test_news_that_cannot_be_ends_the_connection(wire):
    wire.pipe.opens()
    call = wire.ask("one")
    wire.pipe.says(b"news-nonsense\n")
    assert isinstance(call.error, Unknown)
    assert wire.link.is_over


def test_nobody_hears_twice(wire):
    wire.pipe.opens()
    call = wire.ask("one")
    wire.pipe.says(b"yes\n")
    wire.pipe.breaks()
    call.failed("again")
    assert wire.calls == [call]
    assert call.error is None


def test_a_connection_that_is_over_hears_and_takes_nothing_more(wire):
    wire.pipe.opens()
    wire.link.close("no longer wanted", wire.hands.now)
    wire.link.close("and again", wire.hands.now)
    wire.pipe.says(b"news-1\n")
    wire.pipe.breaks()
    call = wire.ask("one")
    assert isinstance(call.error, Unavailable)
    assert wire.events == ["over: no longer wanted"]
    assert wire.link.tick(wire.hands.now) == FOREVER


# --- time ---


def test_a_connection_that_does_not_come_about_is_given_up(wire):
    call = wire.ask("one", within=60)
    assert wire.link.tick(wire.hands.now) == wire.hands.now + OPEN_NS_MAX
    wire.hands.sleep(5)
    assert wire.link.tick(wire.hands.now) == FOREVER
    assert isinstance(call.error, Unavailable)
    assert wire.pipe.closed


def test_a_server_that_takes_the_connection_and_does_not_greet_is_given_up_too():
    wire = Wire(greets=True)
    call = wire.ask("one", within=60)
    wire.pipe.opens()
    wire.hands.sleep(5)
    wire.link.tick(wire.hands.now)
    assert isinstance(call.error, Unavailable)


def test_an_overdue_answer_ends_the_connection_and_all_that_waits_on_it(wire):
    wire.pipe.opens()
    patient, hasty = wire.ask("one", within=60), wire.ask("two", within=3)
    assert wire.link.tick(wire.hands.now) == hasty.until
    wire.hands.sleep(3)
    wire.link.tick(wire.hands.now)
    assert isinstance(patient.error, Unknown)
    assert isinstance(hasty.error, Unknown)
    assert wire.events == ["over: the server did not answer in time"]


def test_an_idle_connection_has_nothing_to_be_late_with(wire):
    wire.pipe.opens()
    assert wire.link.tick(wire.hands.now) == FOREVER


def test_a_server_owes_the_answer_also_to_somebody_who_has_gone(wire):
    """Otherwise a dead connection would look like a busy one for ever."""
    wire.pipe.opens()
    call = wire.ask("one", within=3)
    call.over = True
    wire.hands.sleep(3)
    wire.link.tick(wire.hands.now)
    assert wire.link.is_over
    assert wire.calls == []


def test_what_nobody_waits_for_any_more_is_not_sent():
    wire = Wire(greets=True)
    call = wire.ask("one")
    call.over = True
    wire.ask("two")
    wire.pipe.opens()
    wire.pipe.says(b"hello\n")
    assert wire.pipe.take() == b"hello\ntwo\n"
