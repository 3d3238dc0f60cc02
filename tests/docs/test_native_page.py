"""The page of the native protocol keeps its word: its examples are spoken to a real server, line by line.

The words around them are for a reader to judge, but what they name exists.
"""

import re
import subprocess
from contextlib import ExitStack

import pytest

from holdfast.config import SETTINGS
from holdfast.doors.native_asked import CLAIMS_MAX
from holdfast.doors.native_sight import LOOKING_MAX
from holdfast.doors.native_watch import WATCHES_MAX
from holdfast.testing.line_peer import LinePeer
from holdfast.wire import native
from holdfast.wire.native_answers import REFUSALS, RETRIES
from holdfast.wire.native_meaning import ABOUT_BYTES_MAX
from holdfast.words import KEY_BYTES_MAX, VALUE_BYTES_MAX, Mode, Reason
from tests.conftest import Start
from tests.docs.pages import PORT, blocks, code, read

PAGE = read("docs/protocol/native.md")
EXAMPLES = [block.text for block in blocks(PAGE) if block.language == "line"]

# What stands between angle brackets is learned where it first appears, and the same wherever it appears again.
SOMETHING = r"[0-9A-Za-z.]+"


class Conversation:
    """The connections of one example, and what was seen in it."""

    def __init__(self, port: int, connections: ExitStack) -> None:
        self._port = port
        self._connections = connections
        self._peers: dict[str, LinePeer] = {}
        self._seen: dict[str, str] = {}

    def peer(self, who: str) -> LinePeer:
        if who not in self._peers:
            self._peers[who] = self._connections.enter_context(LinePeer(self._port))
        return self._peers[who]

    def go_on(self, line: str) -> None:
        """Say or hear what a line of the example tells."""
        spoken = re.fullmatch(r"([A-Z]?)([<>])(?: (.*))?", line)
        if spoken is None:
            self._end(line)
        elif spoken[2] == ">":
            self.peer(spoken[1]).send(f"{self._filled(spoken[3] or '')}\n".encode())
        else:
            self._learn(spoken[3], self.peer(spoken[1]).hear())

    def _end(self, line: str) -> None:
        told = re.fullmatch(r"(?:([A-Z]) )?(hangs up|is closed)", line)
        assert told is not None, line
        if told[2] == "hangs up":
            self.peer(told[1] or "").close()
        else:
            assert self.peer(told[1] or "").hear() == ""

    def _filled(self, text: str) -> str:
        return re.sub(r"<(\w+)>", lambda name: self._seen[name[1]], text)

    def _learn(self, expected: str, answer: str) -> None:
        known = re.sub(r"<(\w+)>", lambda name: self._seen.get(name[1], name[0]), re.escape(expected))
        found = re.fullmatch(re.sub(r"<(\w+)>", rf"(?P<\1>{SOMETHING})", known), answer)
        assert found is not None, f"{answer!r} is not {expected!r}"
        self._seen |= found.groupdict()


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_goes_as_shown(start: Start, number: int) -> None:
    server = start("serve", "--http", "off")
    with ExitStack() as connections:
        conversation = Conversation(server.port, connections)
        for line in EXAMPLES[number].splitlines():
            conversation.go_on(line)


def test_one_shell_command_is_a_client(start: Start) -> None:
    (command,) = [block for block in blocks(PAGE) if block.language == "sh"]
    assert PORT in command.text
    server = start("serve", "--http", "off")
    done = subprocess.run(
        ["sh", "-c", command.at_port(server.port)], capture_output=True, text=True, timeout=20, check=True
    )
    greeting, *answers = done.stdout.splitlines()
    assert greeting.startswith('ok {"version":1,')
    assert answers == ['{"id":1,"answer":"ok"}', '{"id":2,"answer":"ok"}']


def rows(column: int = 0) -> set[str]:
    """List what stands between backticks in one column of the tables."""
    lines = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    return {name for cells in lines for name in re.findall(r"`([^`]+)`", cells[column])}


def test_every_op_event_error_and_reason_is_told() -> None:
    assert set(native.OPS) <= rows()
    assert {"granted", "ended", "stayed", "nudged", "draining", "changed", "deadlock"} <= rows()
    named = set(code(PAGE))
    assert {code for code, _ in REFUSALS.values()} | {"bad_request"} <= rows()
    assert {reason.name.lower() for reason in Reason} <= named
    assert {mode.name for mode in Mode} <= named


def test_every_field_is_told() -> None:
    for kind in (native.Hello, native.Acquire, native.Convert, native.Renew, native.End, native.Look, native.Break):
        assert set(kind.__struct_fields__) <= set(code(PAGE)) | {"client", "host", "pid"}


def test_every_error_says_when_to_ask_again() -> None:
    told = {
        name: words[1]
        for line in PAGE.splitlines()
        if line.startswith("| `")
        and len(words := line.strip("| ").split(" | ")) == 3
        and words[1] in ("now", "later", "never")
        for name in re.findall(r"`(\w+)`", words[0])
    }
    assert told.items() >= RETRIES.items()


@pytest.mark.parametrize(
    "number",
    [
        native.HELLO_BYTES_MAX,
        native.LINE_BYTES_MAX,
        native.IN_FLIGHT_MAX,
        native.GROUP_MAX,
        native.RENEWALS_MAX,
        native.LOOK_MAX,
        ABOUT_BYTES_MAX,
        CLAIMS_MAX,
        LOOKING_MAX,
        WATCHES_MAX,
        KEY_BYTES_MAX,
        VALUE_BYTES_MAX,
    ],
)
def test_the_numbers_are_those_of_the_code(number: int) -> None:
    assert re.search(rf"\b{number}\b", PAGE)


def test_every_flag_exists_and_its_default_is_the_one_told() -> None:
    flags = {setting.flag: setting for setting in SETTINGS.values()}
    named = {name for name in code(PAGE) if name.startswith("--")}
    assert named <= flags.keys()
    told = re.findall(r"`(--[a-z-]+)` \((\d+) s\)", PAGE)
    assert len(told) == 3
    for flag, number in told:
        assert flags[flag].shown() == number
