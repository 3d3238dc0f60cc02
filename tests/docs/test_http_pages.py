"""The pages of the two HTTP interfaces keep their word: what they tell a reader to type is typed, in order, and
answered as shown.

The words around the examples are for a reader to judge, but the flags and files that they name exist.
"""

import re
import subprocess

import pytest

from holdfast.config import SETTINGS
from tests.conftest import Start
from tests.docs.pages import blocks, code, read

PAGES = ("docs/protocol/http.md", "docs/protocol/http-sessions.md")
WAIT_S_MAX = 20

# What the placeholders of the examples stand for; all others are numbers, or ids like these.
FORMS = {
    "lease": "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    "session": "[0-9a-f]{32}",
    "date": "[^<>]+",
    "id": "[0-9a-f-]+",
    "cursor": "[\\w=-]+",
}
PLACEHOLDER = re.compile(r"<(\w+)>")


class Terminal:
    """Types commands, and remembers what the placeholders came to stand for."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._known: dict[str, str] = {}

    def type(self, command: str, expected: str) -> None:
        filled = PLACEHOLDER.sub(lambda found: self._known[found[1]], command).replace(":8080", f":{self._port}")
        done = subprocess.run(
            filled,
            shell=True,
            capture_output=True,
            text=True,
            timeout=WAIT_S_MAX,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        heard = done.stdout.replace("\r\n", "\n")
        found = re.fullmatch(self._pattern(expected), heard)
        assert found is not None, f"{filled}\nanswered {heard!r}\ninstead of {expected!r}"
        self._known |= found.groupdict()

    def _pattern(self, expected: str) -> str:
        """Make a pattern of what is shown: a known placeholder has to be the same again."""
        pattern, seen = "", set(self._known)
        for number, piece in enumerate(PLACEHOLDER.split(expected)):
            if number % 2 == 0:
                pattern += re.escape(piece)
            elif piece in self._known:
                pattern += re.escape(self._known[piece])
            elif piece in seen:
                pattern += f"(?P={piece})"
            else:
                pattern += f"(?P<{piece}>{FORMS.get(piece, '[0-9a-f-]+')})"
                seen.add(piece)
        return pattern


def commands(page: str) -> list[tuple[str, str]]:
    """List what is typed, each with what is shown below it."""
    found: list[tuple[str, str]] = []
    for block in blocks(page):
        if block.language == "console":
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                found.append((command, shown))
    return found


@pytest.mark.parametrize("name", PAGES)
def test_the_examples_go_as_shown(start: Start, name: str) -> None:
    terminal = Terminal(start("serve").http_port)
    typed = commands(read(name))
    assert len(typed) > 10
    for command, shown in typed:
        terminal.type(command, shown)


@pytest.mark.parametrize("name", PAGES)
def test_every_flag_that_is_named_exists(name: str) -> None:
    flags = {setting.flag for setting in SETTINGS.values()}
    for text in code(read(name)):
        if text.startswith("--"):
            assert re.split("[= ]", text)[0].replace("--no-", "--") in flags
