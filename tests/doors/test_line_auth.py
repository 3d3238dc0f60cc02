"""The token of the line door: it comes first, it is compared in constant time, and failure costs a moment.

What a connection may do afterwards is tested in the files beside this one.
"""

import pytest

from holdfast.testing.line_stage import LineCaller, LineStage, token
from holdfast.words import SECOND

PING = b"ping\n_\n_\n"
AUTH = b"auth\n_\nopen sesame\n"


def guarded(**settings: object) -> LineStage:
    return LineStage(**({"auth_token": b"open sesame", "read_timeout_ns": 10 * SECOND} | settings))


@pytest.fixture
def stage() -> LineStage:
    return guarded()


@pytest.fixture
def caller(stage: LineStage) -> LineCaller:
    return stage.caller()


def is_refused(stage: LineStage, caller: LineCaller) -> None:
    """Check that the answer is there at once, and the connection closes a tenth of a second later."""
    assert (caller.heard(), caller.closed) == ("error_auth", False)
    stage.after(0.099)
    assert (caller.heard(), caller.closed) == ("", False)
    stage.after(0.001)
    assert (caller.heard(), caller.closed, caller.lefts) == ("", True, 1)


def test_the_right_token_opens_the_door_once_for_the_whole_connection(caller: LineCaller) -> None:
    assert caller.ask("auth", "_", "open sesame") == "ok"
    assert caller.ask("l", "job", "0 30") == f"ok {token(1)} 30"
    assert caller.ask("ping") == "ok"


@pytest.mark.parametrize("key", [b"_", b"", b"any key at all", b"\xff"])
@pytest.mark.parametrize(
    "arg", [b"open sesame", b"  open sesame\t", b"\xc2\xa0open sesame\xe3\x80\x80", b"open sesame\r"]
)
def test_the_key_does_not_matter_and_the_token_is_trimmed(caller: LineCaller, key: bytes, arg: bytes) -> None:
    caller.send(b"auth\n" + key + b"\n" + arg + b"\n")
    assert caller.heard() == "ok"


@pytest.mark.parametrize(
    "frame",
    [
        b"auth\n_\nwrong\n",
        b"auth\n_\n\n",
        b"auth\n_\nopen sesam\n",
        b"auth\n_\nopen sesame!\n",
        b"auth\n_\nopen  sesame\n",
        b"auth\n_\nOPEN SESAME\n",
        b"Auth\n_\nopen sesame\n",
        b"auth \n_\nopen sesame\n",
        PING,
        b"stats\n_\n_\n",
        b"l\njob\n0 30\n",
        b"nonsense\n_\nopen sesame\n",
        b"\n\n\n",
    ],
)
def test_anything_else_is_refused_after_a_moment(stage: LineStage, caller: LineCaller, frame: bytes) -> None:
    caller.send(frame)
    is_refused(stage, caller)
    assert stage.memory.table.resources == {}


@pytest.mark.parametrize(
    "frame",
    [
        b"x" * 257 + b"\n",
        b"auth\n" + b"k" * 257 + b"\n",
        b"auth\n_\n" + b"t" * 65_537 + b"\n",
        b"ping\n_\n" + b"t" * 257 + b"\n",
        b"x" * 257 + b"\n_\nopen sesame\n",
    ],
)
@pytest.mark.parametrize("cut", [False, True])
def test_a_line_that_is_too_long_is_refused_in_the_same_way(
    stage: LineStage, caller: LineCaller, frame: bytes, cut: bool
) -> None:
    if cut:
        caller.send(frame[: frame.index(b"\n", 200)])
        assert (caller.heard(), caller.closed) == ("", False)
        caller.send(b"\n")
    else:
        caller.send(frame)
    is_refused(stage, caller)


def test_a_token_may_be_long() -> None:
    secret = b"t" * 65_536
    caller = guarded(auth_token=secret).caller()
    for part in (b"auth\n_\n", secret[:40_000], secret[40_000:], b"\n"):
        caller.send(part)
    assert caller.heard() == "ok"


@pytest.mark.parametrize("start", [b"", b"au", b"auth\n", b"auth\n_\nopen ses"])
def test_whoever_says_nothing_is_refused_when_the_time_is_up(
    stage: LineStage, caller: LineCaller, start: bytes
) -> None:
    # Here the read timeout runs from the start, also where it does not run between requests.
    if start:
        caller.send(start)
    stage.after(9.999)
    assert (caller.heard(), caller.closed) == ("", False)
    stage.after(0.001)
    is_refused(stage, caller)


def test_once_authenticated_a_connection_may_idle_where_connections_may(stage: LineStage, caller: LineCaller) -> None:
    caller.send(AUTH)
    stage.after(1000)
    assert caller.heard() == "ok"
    assert caller.ask("ping") == "ok"


def test_requests_may_come_with_the_token(caller: LineCaller) -> None:
    caller.send(AUTH + b"l\njob\n0 30\n" + PING)
    assert caller.heard() == f"ok\nok {token(1)} 30\nok"
    assert caller.transport.writes == 1


def test_requests_that_come_with_a_wrong_token_are_not_served(stage: LineStage, caller: LineCaller) -> None:
    caller.send(b"auth\n_\nwrong\nl\njob\n0 30\n" + PING)
    is_refused(stage, caller)
    assert stage.memory.table.resources == {}


def test_a_second_try_is_not_heard(stage: LineStage, caller: LineCaller) -> None:
    caller.send(PING)
    caller.send(AUTH + PING)
    is_refused(stage, caller)


def test_what_comes_after_a_refusal_prolongs_nothing(stage: LineStage, caller: LineCaller) -> None:
    # Each newline behind a line that was too long was answered again, and gained another tenth of a second.
    caller.send(b"x" * 300)
    caller.send(b"\n")
    assert caller.heard() == "error_auth"
    for _ in range(10):
        stage.after(0.01)
        caller.send(b"\n" * 1000)
    assert (caller.heard(), caller.closed) == ("", True)


def test_a_refused_peer_that_leaves_first_is_let_go(stage: LineStage, caller: LineCaller) -> None:
    caller.send(PING)
    caller.hang_up()
    assert (caller.heard(), caller.lefts) == ("error_auth", 1)
    stage.after(1)
    assert caller.lefts == 1


def test_a_refused_peer_that_does_not_read_is_cut_in_the_end(stage: LineStage, caller: LineCaller) -> None:
    caller.transport.room = 0
    caller.send(PING)
    stage.after(0.1)
    assert (caller.closed, caller.lefts) == (True, 0)
    stage.after(4.9)
    assert caller.lefts == 1


def test_the_cool_down_is_not_cut_short_by_an_earlier_deadline(stage: LineStage, caller: LineCaller) -> None:
    stage.after(9.95)
    caller.send(PING)
    is_refused(stage, caller)


@pytest.mark.parametrize("first", ["open sesame", "wrong"])
def test_a_second_auth_is_a_mistake_and_the_connection_stays(caller: LineCaller, first: str) -> None:
    caller.send(AUTH)
    assert caller.heard() == "ok"
    assert caller.ask("auth", "_", first) == "error"
    assert caller.ask("ping") == "ok"


def test_auth_is_a_mistake_where_no_token_is_set() -> None:
    caller = LineStage().caller()
    assert caller.ask("auth", "_", "open sesame") == "error"
    assert caller.ask("ping") == "ok"


def test_a_door_does_not_open_to_an_empty_token() -> None:
    with pytest.raises(AssertionError):
        guarded(auth_token=b"")
