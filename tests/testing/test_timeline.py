"""Virtual time: everything happens at its instant, in its order, and nothing of it twice."""

from holdfast.testing.timeline import Timeline
from holdfast.words import FOREVER


def test_things_happen_at_their_instants_in_the_order_in_which_they_were_asked_for():
    timeline, heard = Timeline(100), []
    timeline.after(20, lambda: heard.append(("late", timeline.now)))
    timeline.at(110, lambda: heard.append(("first", timeline.now)))
    timeline.at(110, lambda: heard.append(("second", timeline.now)))
    timeline.at(5, lambda: heard.append(("past", timeline.now)))
    while timeline.next_at() < FOREVER:
        timeline.step()
    assert heard == [("past", 100), ("first", 110), ("second", 110), ("late", 120)]
    assert timeline.steps == 4


def test_what_is_called_off_does_not_happen():
    timeline, heard = Timeline(0), []
    event = timeline.after(1, lambda: heard.append("no"))
    timeline.after(2, lambda: heard.append("yes"))
    event.cancel()
    assert timeline.next_at() == 2
    timeline.step()
    event.cancel()
    assert heard == ["yes"]


def test_what_happens_soon_happens_behind_what_is_due_now():
    timeline, heard = Timeline(0), []
    timeline.soon(lambda: (heard.append("one"), timeline.soon(lambda: heard.append("three"))))
    timeline.soon(lambda: heard.append("two"))
    for _ in range(3):
        timeline.step()
    assert (heard, timeline.now) == (["one", "two", "three"], 0)


def test_watchers_look_after_everything_that_happens_and_whenever_time_goes_on():
    timeline, seen = Timeline(0), []
    timeline.watchers.append(lambda: seen.append(timeline()))
    timeline.after(5, lambda: None)
    timeline.advance_to(3)
    timeline.step()
    timeline.advance_to(5)
    assert seen == [3, 5]
