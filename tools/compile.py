"""Compile the path of a request with mypyc into build/fast, beside a copy of the rest of the package.

The sources stay as they are and run uncompiled too; without a C compiler the copy is simply left plain.
"""

import hashlib
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "holdfast"
TARGET = ROOT / "build" / "fast"
STAMP = "compiled-from"

# What a request passes through. Everything else runs rarely, or waits for something slower than Python.
HOT = (
    "words.py",
    "ports.py",
    "system.py",
    "desk.py",
    "engine/*.py",
    "secret.py",
    "wire/line.py",
    "stores/fence.py",
    "stores/apply.py",
    "stores/memory.py",
    "stores/records.py",
    "doors/line.py",
)
COLD = ("engine/invariants.py", "engine/document.py")

BUILD = """
import sys
from mypyc.build import mypycify
from setuptools import setup
setup(
    name="holdfast-fast",
    packages=[],
    ext_modules=mypycify(["--strict", *sys.argv[1:]], opt_level="3", debug_level="0"),
    script_args=["-q", "build_ext", "--inplace", "--parallel", "2"],
)
"""


def hot_files(package: Path) -> list[str]:
    """List what to compile, as paths below the folder that holds the package."""
    cold = {package / name for name in COLD}
    found = [path for pattern in HOT for path in sorted(package.glob(pattern)) if path not in cold]
    return [str(path.relative_to(package.parent)) for path in found]


def fingerprint(package: Path) -> str:
    """Hash everything that the result depends on."""
    digest = hashlib.sha256(f"{sys.version} {HOT} {COLD} {BUILD}".encode())
    for path in sorted(package.rglob("*.py")):
        digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def why_not() -> str | None:
    """Say what is missing for compiling, or None."""
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        return "no C compiler is installed (Debian: apt-get install gcc libc6-dev)"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "the headers of this Python are not installed (Debian: apt-get install python3-dev)"
    return None


def main(source: Path = SOURCE, target: Path = TARGET) -> int:
    """Bring build/fast up to date; answer the exit code."""
    wanted = fingerprint(source)
    stamp = target / STAMP
    if stamp.exists() and stamp.read_text() == wanted:
        return 0
    fresh = target.with_name(target.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(source, fresh / "holdfast", ignore=shutil.ignore_patterns("__pycache__"))
    missing = why_not()
    if missing is None:
        print("compiling the path of a request (once; about half a minute)", file=sys.stderr)
        command = [sys.executable, "-c", BUILD, *hot_files(fresh / "holdfast")]
        done = subprocess.run(command, cwd=fresh, capture_output=True, text=True, check=False)
        for leftover in ("build", ".mypy_cache"):
            shutil.rmtree(fresh / leftover, ignore_errors=True)
        if done.returncode != 0:
            print(done.stdout, done.stderr, "compiling failed", sep="\n", file=sys.stderr)
            return 1
    else:
        print(f"not compiling, so requests cost about twice the CPU: {missing}", file=sys.stderr)
    (fresh / STAMP).write_text(wanted)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
