"""What the tests of documentation read out of a page: its examples, its links, what it names in code.

Nothing is run here, and no page is known by name.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PORT = "6388"

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced example, with the language behind its fence."""

    language: str
    text: str

    def at_port(self, port: int) -> str:
        """Give the text, with the port of a running server in the place of the usual one."""
        return self.text.replace(PORT, str(port))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    return [Block(*found) for found in _BLOCK.findall(page)]


def links(page: str) -> list[str]:
    """List the targets of all links to files, without what stands behind a hash."""
    return _LINK.findall(_BLOCK.sub("", page))


def code(page: str) -> list[str]:
    """List what stands between backticks in the running text."""
    return _CODE.findall(_BLOCK.sub("", page))
