"""The mirror rule: every source file has a test file of its name, in the folder of its name.

Only the names are compared here; what a test file proves is the business of coverage and of its reader. A file that was
made from another one (tools/faces.py) is tested by the test file of that one.
"""

import re
import sys
from pathlib import Path

MADE_FROM = re.compile(r"# Made from (\S+) by tools/faces\.py")

EXEMPT = {"__init__.py", "__main__.py"}


def mirror_of(source: Path) -> Path:
    """Name the test file of a source file: `a/b.py` is tested by `a/test_b.py`."""
    return source.with_name(f"test_{source.name}")


def origin_of(source: Path, package: Path) -> Path:
    """Name the file that a person wrote: this one, or the one that this one was made from."""
    with source.open(encoding="utf-8") as lines:
        made = MADE_FROM.match(lines.readline())
    return source if made is None else package / made[1]


def unmirrored(package: Path, tests: Path) -> list[tuple[Path, Path]]:
    """List each source file under `package` that has no test file, with the place where it should be."""
    found = []
    for source in sorted(package.rglob("*.py")):
        test = tests / mirror_of(origin_of(source, package).relative_to(package))
        if source.name not in EXEMPT and not test.is_file():
            found.append((source, test))
    return found


def main(package: Path = Path("src/holdfast"), tests: Path = Path("tests")) -> int:
    """Print what is missing; answer the exit code."""
    missing = unmirrored(package, tests)
    for source, test in missing:
        print(f"{source}: no test file; write {test}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
