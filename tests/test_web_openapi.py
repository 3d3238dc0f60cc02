"""Our own description of the HTTP interface, held against a running server by a tool that believes every word of it.

The tool makes requests from the description, good and bad, and judges the answers by it.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import Start

EXAMPLES = "15"  # for each operation; more of them find nothing else, and this is part of every test run
RUN_S_MAX = 120
SEED = "20261119"


def test_every_answer_is_one_that_the_description_tells_of(start: Start, tmp_path: Path) -> None:
    server = start("serve", "--store", "memory:", "--http-wait-max", "0")
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"http://127.0.0.1:{server.http_port}/openapi.json"]
    done = subprocess.run(
        [*command, "--max-examples", EXAMPLES, "--seed", SEED, "--generation-database", "none", "--no-color"],
        cwd=tmp_path,
        env=os.environ | {"SCHEMATHESIS_HOOKS": "tests.schemathesis_hooks", "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout
