"""The pages about the command line keep their word: what is typed there is answered by a real server as shown.

What a page shows of events that somebody else has to cause is compared here one by one.
"""

import re
import socket
import subprocess
import threading
from contextlib import suppress

import pytest

from holdfast.errors import TimedOut
from holdfast.sync import connect
from tests.cli.look_stage import holdfast
from tests.docs.pages import blocks, read
from tests.docs.terminals import HERE, Desk, like

CRON_JOBS, COMMAND_LINE = "docs/guide/cron-jobs.md", "docs/operate/command-line.md"
PAGES = [CRON_JOBS, COMMAND_LINE]
NAMED = re.compile(r"\A(?:#!.*\n)?# (\S+)\n")


@pytest.fixture
def server(start):
    """A server for each page: what is held at its end is held for as long as the leases last."""
    return start("serve", "--store", "memory:")


@pytest.fixture
def url(server):
    return f"holdfast://127.0.0.1:{server.port}"


@pytest.fixture
def folder(tmp_path):
    """Where the programs of the pages lie, and those that are somebody's own work."""
    for page in PAGES:
        for block in blocks(read(page)):
            if name := NAMED.match(block.text):
                (tmp_path / name[1]).write_text(block.text)
    for name in ("report", "import"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} under $HOLDFAST_FENCE >> work\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("shown", "came", "same"),
    [
        (f"1  {HERE} pid 4211  1.3 s, …", f"1  {socket.gethostname()}   pid 7  12 s, we are next\n", True),
        ("at 12:34:56.903 in all", "at 01:02:03.004 in all", True),
        ("1 waiting", "2 waiting", False),
        ("75", "0", False),
        ("web-2", "web-1", False),
    ],
)
def test_only_what_differs_from_day_to_day_may_differ(shown, came, same):
    assert like(shown, came) == same


@pytest.mark.parametrize("page", PAGES)
def test_what_is_typed_is_answered_as_shown(page, server, url, folder):
    with Desk(folder, url) as desk:
        for block in blocks(read(page)):
            if block.language == "console":
                desk.plays(block.at_port(server.port))


def test_every_example_of_these_pages_is_known_to_a_test_here():
    for page in PAGES:
        for block in blocks(read(page)):
            shown_by_others = block.text.startswith(("$ holdfast watch ", "$ holdfast deadlocks\n"))
            assert block.language in ("console", "crontab") or NAMED.match(block.text) or shown_by_others


def jobs():
    """List the commands of the crontabs, without their times, and without the variables on top."""
    lines = [
        line for block in blocks(read(CRON_JOBS)) if block.language == "crontab" for line in block.text.splitlines()
    ]
    return [line.split(maxsplit=5)[5] for line in lines if not re.match(r"\w+=", line)]


@pytest.mark.parametrize("job", jobs())
def test_a_job_of_a_crontab_does_its_work_under_the_lock(job, url, folder):
    quick = job.replace("--min-hold 60", "--min-hold 0.1")
    with Desk(folder, url) as desk:
        desk.plays(f"cron$ {quick}; echo $?\n0")
    assert re.fullmatch(r"(report|import) under \d+\n", (folder / "work").read_text())


def shown_for(command):
    """Find the block that shows what a command prints."""
    (block,) = [block for block in blocks(read(COMMAND_LINE)) if block.text.startswith(f"$ {command}\n")]
    return block.text.splitlines()[1:]


def test_what_is_watched_looks_as_shown(url):
    over = threading.Event()

    def work():
        with connect(url) as client:
            while not over.wait(0.001):
                client.lock("nightly-report").acquire().release()

    worker = threading.Thread(target=work)
    worker.start()
    came = holdfast("watch", "nightly-", "--count", "2", server=url).stdout.splitlines()
    over.set()
    worker.join()
    # Which of the two happens first after somebody begins to watch is open.
    for shown in shown_for("holdfast watch nightly- --count 2"):
        assert any(like(shown, line) for line in came)


def test_a_deadlock_looks_as_shown(url):
    both, over = threading.Barrier(3), threading.Event()

    def embrace(mine, other):
        with connect(url) as client, client.lock(mine):
            both.wait()
            while not over.is_set():
                with suppress(TimedOut), client.lock(other, patience=0.3):
                    pass

    pairs = (("debit", "credit"), ("credit", "debit"))
    threads = [threading.Thread(target=embrace, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    both.wait()
    found = holdfast("deadlocks", server=url)
    while found.exit_code == 0:
        found = holdfast("deadlocks", server=url)
    over.set()
    for thread in threads:
        thread.join()
    first, *shown = shown_for("holdfast deadlocks")
    heading, *came = found.stdout.splitlines()
    assert (found.exit_code, like(first, heading)) == (1, True)
    for line in shown:
        assert any(like(line, one) for one in came)


def test_the_script_of_the_page_is_a_script(folder):
    subprocess.run(["sh", "-n", "careful-report"], cwd=folder, check=True)
