"""The C programs of this folder: where they are built, how they are run, how their figures are read.

They are in C so that a load costs less than the server under it; what a figure means, the caller decides.
"""

import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent
BUILD = SOURCES.parent / "build" / "bench"
GRACE_S = 30  # how much longer than asked a program may run before it counts as stuck


class ProgramFailed(Exception):
    """A load ended with an error, or counted errors: its figures mean nothing."""


def built(name: str) -> str:
    """Build a program when its source is newer than the binary; answer the binary's path."""
    return _made(SOURCES / f"{name}.c", BUILD / name)


def built_library(name: str) -> str:
    """Build a library that can be loaded before all others; answer its path."""
    return _made(SOURCES / f"{name}.c", BUILD / f"{name}.so", "-shared", "-fPIC")


def _made(source: Path, binary: Path, *options: str) -> str:
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        BUILD.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-O2", *options, "-o", str(binary), str(source)], check=True)
    return str(binary)


def figures_of(name: str, *arguments: object, seconds: float) -> dict[str, float]:
    """Run a load program and read its figures."""
    command = [built(name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + GRACE_S, check=False)
    if done.returncode != 0:
        raise ProgramFailed(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()}")
    figures = read_figures(done.stdout)
    if figures["errors"]:
        trouble = f": {done.stderr.strip()}" if done.stderr.strip() else ""
        raise ProgramFailed(f"{' '.join(command)}: {figures['errors']:.0f} requests were refused{trouble}")
    return figures


def read_figures(line: str) -> dict[str, float]:
    """Read `name value name value …`."""
    words = line.split()
    return dict(zip(words[::2], map(float, words[1::2]), strict=True))
