"""Our own description of the HTTP interface, held against a running server by a tool that believes every word of it.

The tool makes requests from the description, good and bad, and judges the answers by it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

from tests.conftest import Start

EXAMPLES = "15"  # for each operation; more of them find nothing else, and this is part of every test run
RUN_S_MAX = 120
SEED = "20261119"

# The tool makes up ids of sessions; that there is no such session is what it has to be told.
GONE_IS_FINE = """
warnings = false
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 401, 403, 404, 409, 410, 429, "5xx"]
"""


def judged(page: str, folder: Path, *options: str) -> None:
    """Let the tool read a description, and try what it says."""
    command = [sys.executable, "-m", "schemathesis.cli", "run", page, *options]
    done = subprocess.run(
        [*command, "--max-examples", EXAMPLES, "--seed", SEED, "--generation-database", "none", "--no-color"],
        cwd=folder,
        env=os.environ | {"SCHEMATHESIS_HOOKS": "tests.schemathesis_hooks", "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout


def test_every_answer_is_one_that_the_description_of_leases_tells_of(start: Start, tmp_path: Path) -> None:
    server = start("serve", "--store", "memory:", "--http-wait-max", "0")
    judged(f"http://127.0.0.1:{server.http_port}/openapi.json", tmp_path)


def test_every_answer_is_one_that_the_description_of_sessions_tells_of(start: Start, tmp_path: Path) -> None:
    server = start("serve", "--store", "memory:", "--http-api", "sessions")
    (tmp_path / "schemathesis.toml").write_text(GONE_IS_FINE)
    origin = f"http://127.0.0.1:{server.http_port}"
    with urlopen(Request(f"{origin}/v1/sessions", method="POST")) as reply:
        session = json.load(reply)["session_id"]
    judged(f"{origin}/v1/openapi.json", tmp_path, "--header", f"X-Dflockd-Session: {session}")
