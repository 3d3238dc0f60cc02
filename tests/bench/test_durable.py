"""The loads on a durable server: their arithmetic on figures of our making, their programs against a server of paper.

The figures of a real server are not looked at: a test machine says nothing about speed.
"""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.durable import (
    BATCHES,
    COMMANDS,
    COUNT_BYTES,
    Durable,
    Missing,
    in_ms,
    insist_on_http,
    on_disk,
    read_metrics,
    sync_cost,
)
from bench.programs import ProgramFailed, built, built_library, figures_of
from bench.servers import Server, ServerFailed, free_port, holdfast_on_disk

ANSWERS = {
    "acquire": '{"acquired":true,"lease_id":"abc-def","fencing_token":7}',
    "renew": '{"renewed":true,"lease_expiry_ms":1}',
    "release": '{"released":true}',
    "healthz": '{"status":"ok"}',
    "metrics": f"# TYPE x counter\n{BATCHES} 2.0\n",
}


@contextmanager
def paper_server(answers: dict[str, str], status: int = 200) -> Iterator[int]:
    """Answer each request by the last word of its path, from another thread."""
    ready, facts = threading.Event(), []

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = head.lower().partition("content-length: ")[2].partition("\r\n")[0]
                await reader.readexactly(int(length or 0))
                body = answers[head.split(" ")[1].rpartition("/")[2]] + "\n"
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        except (EOFError, ConnectionError):
            writer.close()

    async def main() -> None:
        over = asyncio.Event()
        async with await asyncio.start_server(visit, "127.0.0.1", 0) as server:
            facts.append((server.sockets[0].getsockname()[1], asyncio.get_running_loop(), over))
            ready.set()
            await over.wait()
            server.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    ready.wait()
    port, loop, over = facts[0]
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()


def test_a_page_of_metrics_is_read_by_names_with_their_labels() -> None:
    page = '# HELP a x\n# TYPE a counter\na_total 3.0\nb{le="1",op="x y"} 4.5e+02\n\nc +Inf\n'
    assert read_metrics(page) == {"a_total": 3.0, 'b{le="1",op="x y"}': 450.0, "c": float("inf")}


def test_what_a_commit_served_and_cost_is_the_difference_of_two_pages() -> None:
    before = {BATCHES: 10.0, COMMANDS: 100.0}
    after = {BATCHES: 30.0, COMMANDS: 1100.0}
    assert on_disk(before, after, syncs=22, seconds=2.0) == {"batch": 50.0, "syncs/batch": 1.1, "batches/s": 10.0}


def test_a_server_that_does_not_count_its_commits_is_named() -> None:
    with pytest.raises(Missing, match=r"has no holdfast_commit_batch_size_count: .* does not count its commits"):
        on_disk({}, {}, syncs=0, seconds=1.0)


def test_a_server_that_committed_nothing_is_not_durable() -> None:
    same = {BATCHES: 10.0, COMMANDS: 100.0}
    with pytest.raises(Missing, match="did not wait for the disk"):
        on_disk(same, same, syncs=0, seconds=1.0)


def test_microseconds_become_milliseconds() -> None:
    assert in_ms({"p50": 1500.0, "p99": 20.0}, "p50", "p99") == [1.5, 0.02]


def test_syncs_are_counted_from_outside(tmp_path: Path) -> None:
    count = tmp_path / "count"
    count.write_bytes(bytes(COUNT_BYTES))
    code = "import os, sys; f = open(sys.argv[1], 'wb'); [os.fsync(f.fileno()) for _ in range(3)]; os.fdatasync(f)"
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "file")],
        env=os.environ | {"LD_PRELOAD": built_library("synccount"), "SYNCCOUNT_FILE": str(count)},
        check=True,
    )
    with subprocess.Popen(["true"]) as process:
        assert Durable(Server("x", 0, process), 0, count).syncs() == 4


def test_the_cost_of_a_sync_leaves_nothing_behind(tmp_path: Path) -> None:
    assert sync_cost(tmp_path) > 0
    assert list(tmp_path.iterdir()) == []


def test_the_server_on_disk_gets_both_doors_and_its_file() -> None:
    command = holdfast_on_disk(1, http_port=2, file=Path("/a b/50%"))
    assert command[-6:] == ["--store", "sqlite:/a%20b/50%25", "--line", "127.0.0.1:1", "--http", "127.0.0.1:2"]


def test_the_http_load_goes_round_acquire_renew_and_release() -> None:
    with paper_server(ANSWERS) as port:
        taken = figures_of("httpload", port, 3, 0.1, seconds=0.1)
    assert (taken["errors"], taken["busy"]) == (0, 0)
    assert taken["requests/s"] > taken["cycles/s"] > 0
    assert {"p50", "p99", "p99.9"} <= set(taken)


def test_the_http_load_counts_a_store_that_is_busy() -> None:
    busy = '{"acquired":false,"reason":"BUSY_RETRY","recommended_retry_ms":50}'
    with paper_server(ANSWERS | {"acquire": busy}, status=409) as port:
        taken = figures_of("httpload", port, 1, 0.05, seconds=0.1)
    assert taken["busy"] > 0
    assert taken["cycles/s"] == 0


def test_the_http_load_ends_with_the_answer_that_it_did_not_expect() -> None:
    with (
        paper_server(ANSWERS | {"renew": '{"renewed":false,"reason":"NOT_OWNER_OR_EXPIRED"}'}) as port,
        pytest.raises(ProgramFailed, match=r"requests were refused: renew was answered: .*NOT_OWNER_OR_EXPIRED"),
    ):
        figures_of("httpload", port, 1, 0.05, seconds=0.1)


@pytest.mark.parametrize("kind", ["health", "lock"])
def test_new_connections_come_at_their_rate_and_each_is_answered(kind: str) -> None:
    with paper_server(ANSWERS) as port:
        taken = figures_of("connections", port, 100, 0.1, kind, seconds=0.1)
    assert taken["errors"] == 0
    assert taken["inflight"] >= 1
    assert {"connections/s", "p50", "p99", "max"} <= set(taken)


@pytest.mark.parametrize(
    ("kind", "changes", "trouble"),
    [("lock", {"release": '{"released":false}'}, "not released"), ("lock", {"acquire": "{}"}, "lease")],
)
def test_a_connection_without_a_good_answer_ends_the_measurement(
    kind: str, changes: dict[str, str], trouble: str
) -> None:
    with paper_server(ANSWERS | changes) as port, pytest.raises(ProgramFailed, match="exit code 1"):
        figures_of("connections", port, 50, 0.1, kind, seconds=0.1)
    with paper_server(ANSWERS | changes) as port:
        done = subprocess.run(
            [built("connections"), str(port), "50", "0.1", kind], capture_output=True, text=True, check=False
        )
    assert f"first error: {trouble}" in done.stderr


def test_an_http_door_that_is_closed_is_said_so() -> None:
    with subprocess.Popen(["true"]) as process, pytest.raises(ServerFailed, match="nobody answers at the HTTP door"):
        insist_on_http(Durable(Server("x", 0, process), free_port(), Path()))


def test_a_door_without_a_page_of_metrics_is_said_so() -> None:
    with (
        paper_server(ANSWERS, status=404) as port,
        subprocess.Popen(["true"]) as process,
        pytest.raises(Missing, match="answered with 404: this server has no page of metrics"),
    ):
        insist_on_http(Durable(Server("x", 0, process), port, Path()))
