"""The page about the commands on leases keeps its word: what is typed there is answered by a real database as shown."""

import re
import sys
from contextlib import closing

import pytest

from holdfast.leases.opening import open_backend
from tests.cli.leases_stage import Database, coming_and_going, holdfast
from tests.cli.look_stage import until
from tests.docs.pages import blocks, read
from tests.docs.terminals import ANY, Terminal, like, parts

PAGE = "docs/operate/leases.md"
# Somebody's own program.
MAINTAINER = f"""\
#!{sys.executable}
import time

from holdfast.leases import ClusterLock

lock = ClusterLock("cluster", op="Cluster maintenance")

assert lock.acquire()
print("elected", flush=True)
time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path):
    """Where the program of the page lies."""
    program = tmp_path / "maintainer"
    program.write_text(MAINTAINER)
    program.chmod(0o755)
    return tmp_path


def unframed(line):
    """Be open about the width of a column: a process may have a longer number, or a shorter one."""
    return re.sub("-{4,}", ANY, line)


def test_what_is_typed_is_answered_as_shown(folder):
    terminal = Terminal(folder, "")
    try:
        terminal.types(f"export HOLDFAST_NODE=sf-7 HOLDFAST_BACKEND=sqlite:{folder}/leases.db")
        for block in blocks(read(PAGE)):
            if block.language == "console":
                for _, command, shown in parts(block.text):
                    terminal.types(command)
                    terminal.shows([unframed(line) for line in shown])
    finally:
        terminal.close()


def test_what_is_watched_looks_as_shown(tmp_path):
    (shown,) = [block.text.splitlines()[1:] for block in blocks(read(PAGE)) if block.language == "text"]
    lines = []

    def all_shown():
        command = ("leases", "watch", "clu", "--count", "2", "--interval", "0.05")
        lines.extend(holdfast(*command, backend=database.url).stdout.splitlines())
        return all(any(like(line.replace("fence 3", "fence …"), one) for one in lines) for line in shown)

    with closing(Database(f"sqlite:{tmp_path}/leases.db")) as database:
        database.prepare()
        # Which changes somebody sees who looks now and then is open.
        with coming_and_going(database, "cluster/"):
            until(all_shown)


def test_every_url_of_the_page_is_one_that_can_be_opened():
    urls = [line.split("`")[1] for line in read(PAGE).splitlines() if line.startswith("| `")]
    assert [url.partition(":")[0] for url in urls] == ["mariadb", "postgres", "sqlite", "grpc"]
    for url in urls:
        with closing(open_backend(url)) as backend:
            assert "password" not in backend.shown
