"""Make the blocking face of the client from the asyncio face: `sync/` has what `aio/` has, without await.

Only words are exchanged here. What the two faces do differently is written by hand, in both, and listed below.
"""

import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path("src/holdfast/aio")
TARGET = Path("src/holdfast/sync")
# The twins that are written by hand: how each face waits and talks.
BY_HAND = {"__init__.py", "connection.py", "lock_tools.py", "waiting.py"}

HEAD = "# Made from aio/{name} by tools/faces.py: change that one, and run `python -m tools.faces`.\n\n"

# What is said of one face, and what is said of the other instead.
WORDS = [
    (r"\bholdfast\.aio\b", "holdfast.sync"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait \(", "("),
    (r"\bawait ", ""),
    (r"\bAwaitable\[((?:[^\[\]]|\[[^\[\]]*\])*)\]", r"\1"),
    (r"\bCoroutine\[Any, Any, ((?:[^\[\]]|\[[^\[\]]*\])*)\]", r"\1"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
]


def translate(text: str, name: str) -> str:
    """Exchange the words, and bring what comes of it into shape."""
    for pattern, instead in WORDS:
        text = re.sub(pattern, instead, text)
    target = str(TARGET / name)
    fixed = _ruff(
        [
            "check",
            "--fix-only",
            "--unsafe-fixes",
            "--quiet",
            "--select",
            "I,F401,UP028",
            "--stdin-filename",
            target,
            "-",
        ],
        text,
    )
    return HEAD.format(name=name) + _ruff(["format", "--stdin-filename", target, "-"], fixed)


def _ruff(arguments: list[str], text: str) -> str:
    ruff = Path(sys.executable).with_name("ruff")
    return subprocess.run([ruff, *arguments], input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


def faces(source: Path, target: Path) -> dict[Path, str]:
    """Say which files there have to be, and what is in each."""
    paths = sorted(path for path in source.glob("*.py") if path.name not in BY_HAND)
    return {target / path.name: translate(path.read_text(encoding="utf-8"), path.name) for path in paths}


def is_made(path: Path) -> bool:
    """Tell whether a file is made from another one."""
    return path.read_text(encoding="utf-8").startswith(HEAD.partition("{")[0])


def main(arguments: list[str], source: Path = SOURCE, target: Path = TARGET) -> int:
    """Write what has changed; with --check, only say what would have to be written, and fail if there is something."""
    wanted = faces(source, target)
    stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    left_over = [path for path in target.glob("*.py") if path not in wanted and is_made(path)]
    if arguments == ["--check"]:
        for path in [*stale, *left_over]:
            print(f"{path} is not what its source says; run python -m tools.faces")
        return 1 if stale or left_over else 0
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")
    for path in left_over:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
