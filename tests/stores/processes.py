"""Other processes for tests that need one: a second owner of a file, or a victim of kill -9.

What they run is handed in; nothing is known here.
"""

import os
import subprocess
import sys
from pathlib import Path

import holdfast


def ours(*arguments: str) -> subprocess.Popen[str]:
    """Start another Python that finds the same package; the first argument is its script."""
    source = str(Path(holdfast.__file__).parent.parent)
    return subprocess.Popen(
        [sys.executable, "-c", *arguments],
        env=os.environ | {"PYTHONPATH": source},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
