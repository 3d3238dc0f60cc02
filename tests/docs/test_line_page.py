"""The page of the line protocol keeps its word: its examples are spoken to a real server, line by line.

The words around them are for a reader to judge, but what they name exists.
"""

import json
import re
import shlex
from contextlib import ExitStack

import pytest

from holdfast.config import SETTINGS
from holdfast.testing.line_peer import LinePeer
from holdfast.wire.line import AUTH_BYTES_MAX, LINE_BYTES_MAX, REPLIES, SECONDS_MAX, LineCodec
from holdfast.words import SECOND
from tests.conftest import Start
from tests.docs.pages import blocks, code, read

PAGE = read("docs/protocol/line.md")
EXAMPLES = [block.text for block in blocks(PAGE) if block.language == "line"]

TOKEN = "[0-9a-f]{32}"


class Conversation:
    """The connections of one example, and the tokens that were seen in it."""

    def __init__(self, port: int, connections: ExitStack) -> None:
        self._port = port
        self._connections = connections
        self._peers: dict[str, LinePeer] = {}
        self._tokens: dict[str, str] = {}

    def peer(self, who: str) -> LinePeer:
        if who not in self._peers:
            self._peers[who] = self._connections.enter_context(LinePeer(self._port))
        return self._peers[who]

    def go_on(self, line: str) -> None:
        """Say or hear what a line of the example tells."""
        spoken = re.fullmatch(r"([A-Z]?)([<>])(?: (.*))?", line)
        if spoken is None:
            who, deed = line.split(" ", 1)
            self._end(self.peer(who), deed)
        elif spoken[2] == ">":
            self.peer(spoken[1]).send(f"{self._filled(spoken[3] or '')}\n".encode())
        else:
            self._learn(spoken[3], self.peer(spoken[1]).hear())

    def _end(self, peer: LinePeer, deed: str) -> None:
        if deed == "hangs up":
            peer.close()
        else:
            assert deed == "is closed"
            assert peer.hear() == ""

    def _filled(self, text: str) -> str:
        return re.sub(r"<(\w+)>", lambda name: self._tokens[name[1]], text)

    def _learn(self, expected: str, answer: str) -> None:
        if expected == "ok <json>":
            assert json.loads(answer.removeprefix("ok ")).keys() == json.loads(json_example()).keys()
            return
        known = re.sub(r"<(\w+)>", lambda name: self._tokens.get(name[1], name[0]), re.escape(expected))
        found = re.fullmatch(re.sub(r"<(\w+)>", rf"(?P<\1>{TOKEN})", known), answer)
        assert found is not None, f"{answer!r} is not {expected!r}"
        self._tokens |= found.groupdict()


def json_example() -> str:
    (block,) = [block for block in blocks(PAGE) if block.language == "json"]
    return block.text


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.split("\n")[2].lstrip("AB> "))
def test_an_example_goes_as_shown(start: Start, example: str) -> None:
    lines = example.splitlines()
    arguments: list[str] = []
    if lines[0].startswith("# holdfast serve "):
        arguments = shlex.split(lines.pop(0))[3:]
    server = start("serve", *arguments)
    with ExitStack() as connections:
        conversation = Conversation(server.port, connections)
        for line in lines:
            conversation.go_on(line)


def test_every_command_has_an_example_and_a_row() -> None:
    said = {line.lstrip("AB> ") for example in EXAMPLES for line in example.splitlines()}
    commands = {"l", "r", *(name.decode() for name in LineCodec(SECOND)._decoders)}
    rows = {name for row in re.findall(r"^\| (`.+?`) \|", PAGE, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert commands <= rows
    # Semaphores have the same commands; one of them is shown.
    assert {"l", "r", "n", "e", "w", "sl", "ping", "stats", "auth"} <= said


def test_every_answer_has_a_row() -> None:
    named = set(code(PAGE))
    for reply in {*REPLIES.values(), b"error_auth\n"}:
        word = reply.decode().strip()
        assert word in named or f"{word} …" in named


def test_the_numbers_are_those_of_the_code() -> None:
    for number in (LINE_BYTES_MAX, AUTH_BYTES_MAX, SECONDS_MAX):
        assert re.search(rf"\b{number}\b", PAGE)


def test_every_flag_exists_and_its_default_is_the_one_told() -> None:
    flags = {setting.flag: setting for setting in SETTINGS.values()}
    for name in code(PAGE):
        if name.startswith("--"):
            assert name.replace("--no-", "--") in flags
    told = re.findall(r"`(--[a-z-]+)`,? \(?(\d+)(?: s)?\)", PAGE) + re.findall(r"`(--[a-z-]+)` \((\d+) s\)", PAGE)
    assert len(told) >= 3
    for flag, number in told:
        assert flags[flag].shown() == number
