"""The guide to the first lock keeps its word: its dialogues are held with a real server, line by line.

The words around them are for a reader to judge.
"""

import re
from contextlib import ExitStack

import pytest

from bench.servers import holdfast, running
from tests.docs.pages import blocks, read
from tests.docs.wire import calling

NAME = "docs/guide/first-lock.md"
DIALOGUES = [block.text for block in blocks(read(NAME)) if block.language == "text"]


@pytest.fixture(scope="module")
def server():
    with running("guide", holdfast) as server:
        yield server


def filled(text, tokens):
    """Put the tokens seen so far in the place of their names."""
    return re.sub(r"<(\w+)>", lambda name: tokens[name[1]], text)


def learn(expected, answer, tokens):
    """Compare an answer with the page, and remember the token in it; fences rise, so that tokens do too."""
    pattern = re.sub(r"<(\w+)>", r"(?P<\1>[0-9a-f]{32})", expected)
    found = re.fullmatch(pattern, answer)
    assert found, f"{answer!r} is not {expected!r}"
    for name, token in found.groupdict().items():
        assert token > max(tokens.values(), default="")
        tokens[name] = token


@pytest.mark.parametrize("dialogue", DIALOGUES, ids=lambda text: text.split()[3])
def test_a_dialogue_goes_as_shown(dialogue, server):
    callers, tokens = {}, {}
    with ExitStack() as connections:
        for line in dialogue.splitlines():
            who, how, rest = line[0], line[1:3], line[3:]
            if who not in callers:
                callers[who] = connections.enter_context(calling(server.port))
            if how == "> ":
                callers[who].send(*(part.strip() for part in filled(rest, tokens).split("|")))
            elif how == "< ":
                learn(rest, callers[who].answer(), tokens)
            else:
                assert line[1:] == " hangs up"
                callers[who].close()


def test_there_is_a_dialogue_for_each_command():
    used = {line[3:].split()[0] for dialogue in DIALOGUES for line in dialogue.splitlines() if line[1] == ">"}
    assert {"l", "r", "n", "e", "w", "sl", "sr", "ping"} <= used
