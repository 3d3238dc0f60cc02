"""The stage of the native dialect shows what its clients would hear from a real server, and plays stories on it.

What the door does is tested in tests/doors, what stories must come to in tests/stories; here the stage itself is tried.
"""

import pytest

from holdfast.testing.line_stage import token
from holdfast.testing.native_stage import NativeStage, NativeStoryStage, PaperDice, is_spoken, ticket
from holdfast.testing.story import Do, Happening, parse


@pytest.fixture
def stage() -> NativeStage:
    return NativeStage()


def test_clients_and_callers_of_the_line_protocol_share_one_table(stage: NativeStage) -> None:
    client, caller = stage.client(), stage.caller()
    assert client.call("acquire", key="job", ticket=ticket("a"))["token"] == token(1)
    assert caller.ask("l", "job", "5 30") == ""
    assert client.call("end", ticket=ticket("a")) == {"answer": "ended"}
    assert caller.heard() == f"ok {token(2)} 30"


def test_settings_of_both_doors_can_be_changed() -> None:
    stage = NativeStage(keys_max=1, native={"lease_default_ns": 10**9})
    client = stage.client()
    assert client.call("acquire", key="job", ticket=ticket("a"))["lease_ms"] == 1000
    assert client.call("acquire", key="two", ticket=ticket("b"))["error"] == "too_many"


def test_time_passes_for_sessions_too(stage: NativeStage) -> None:
    client = stage.client()
    client.vanish()
    stage.after(29.9)
    assert len(stage.native.sessions) == 1
    stage.after(0.1)
    assert stage.native.sessions == {}


def test_a_client_may_come_back_and_its_words_in_hello_are_passed_on(stage: NativeStage) -> None:
    client = stage.client(client="billing")
    assert len(client.session) == 48
    assert stage.client(join=client.session).session == client.session
    assert stage.client().session != client.session


def test_a_call_notices_what_else_was_heard_and_an_answer_that_is_missing(stage: NativeStage) -> None:
    a, b = stage.client(), stage.client()
    a.call("acquire", key="job", ticket=ticket("a"), nudge=True)
    with pytest.raises(ValueError, match="not enough"):
        b.call("acquire", key="job", ticket=ticket("b"))
    with pytest.raises(ValueError, match="too many"):
        a.call("ping")


def test_a_refused_hello_is_noticed(stage: NativeStage) -> None:
    with pytest.raises(AssertionError, match="version: 2"):
        stage.client(version=2)


def test_a_ticket_is_long_enough_and_names_differ() -> None:
    assert (ticket("a"), len(ticket("a")), ticket("a" * 20)) == ("a-00000000000000", 16, "a" * 20 + "-")


def test_paper_dice_never_fall_the_same_way_twice() -> None:
    dice = PaperDice()
    assert dice.roll(24) != dice.roll(24)
    assert len(dice.roll(24)) == 24


# --- stories ---


def do(line: str, number: int = 1) -> Do:
    """Read what a caller does, in a line with this number: it stands in the ticket."""
    (action,) = [action for action in parse("\n" * (number - 1) + line) if isinstance(action, Do)]
    return action


def play(stage: NativeStoryStage, *lines: str) -> list[list[Happening]]:
    """Play a story; tell what happened after each of its lines."""
    return [stage.play(do(line, number)) for number, line in enumerate(lines, 1)]


@pytest.mark.parametrize(
    ("line", "spoken"),
    [
        ("a: acquire job exclusive lease=5 patience=5", True),
        ("a: acquire job exclusive patience=0", False),  # which is a try here
        ("a: try job exclusive", True),
        ("a: wait job patience=0", True),
        ("a: cancel job", False),
    ],
)
def test_what_the_protocol_has_words_for(line: str, spoken: bool) -> None:
    assert is_spoken(do(line)) is spoken


def test_a_story_is_told_in_words_with_fences_counted_from_the_first() -> None:
    (granted,), (waiting,), (ended, handed_over) = play(
        NativeStoryStage(), "a: acquire job exclusive lease=5", "b: acquire job shared", "a: release job"
    )
    assert (granted.who, granted.words) == ("a", ("granted",))
    assert granted.facts == {"key": "job", "fence": "1", "mode": "EX", "units": "1", "lease": "5"}
    assert waiting == Happening("b", ("waiting",))
    assert (ended, handed_over.who, handed_over.facts["fence"]) == (Happening("a", ("ended",)), "b", "2")


def test_seats_values_and_conversions_are_told_too() -> None:
    (granted,), (busy,), _, (converted,) = play(
        NativeStoryStage(),
        "a: acquire pool CW limit=3 units=2",
        "b: try pool CW limit=3 units=2",
        "a: acquire job PW",
        "a: convert job PR value=page",
    )
    assert (granted.facts["units"], granted.facts["lease"]) == ("2", "forever")
    assert busy == Happening("b", ("busy",))
    assert (converted.words, converted.facts["mode"], converted.facts["value"]) == (("granted",), "PR", "page")


def test_whoever_hangs_up_hears_nothing_more_and_what_it_leaves_is_as_the_story_says() -> None:
    told = play(
        NativeStoryStage(),
        "a: acquire job exclusive lease=5",
        "b: acquire job exclusive",
        "b: hangup",
        "a: hangup keep=yes",
        "c: try job exclusive",
    )
    assert told[1:] == [[Happening("b", ("waiting",))], [], [], [Happening("c", ("busy",))]]
