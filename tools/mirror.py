"""The mirror rule: every source file has a test file of its name, in the folder of its name.

Only the names are compared here; what a test file proves is the business of coverage and of its reader.
"""

import sys
from pathlib import Path

EXEMPT = {"__init__.py", "__main__.py"}


def mirror_of(source: Path) -> Path:
    """Name the test file of a source file: `a/b.py` is tested by `a/test_b.py`."""
    return source.with_name(f"test_{source.name}")


def unmirrored(package: Path, tests: Path) -> list[tuple[Path, Path]]:
    """List each source file under `package` that has no test file, with the place where it should be."""
    found = []
    for source in sorted(package.rglob("*.py")):
        test = tests / mirror_of(source.relative_to(package))
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
