"""`holdfast watch`: events as lines for people, for scripts and for programs, as they happen."""

import csv
import json
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

import pytest

from holdfast.cli.watch import MISSED, lines_of
from holdfast.errors import SPELLINGS, TimedOut
from holdfast.sync import connect
from tests.cli.look_stage import holdfast, shown
from tests.cli.run_user import environment

NOW = "2026-02-03T04:05:06.789+00:00"
GRANTED = {"event": "changed", "key": "job", "kind": "lock", "what": "granted"}
ENDED = {"event": "changed", "key": "seats\n", "kind": "semaphore", "what": "ended", "reason": "expired"}
CYCLE = {
    "event": "deadlock",
    "cycle": [
        {"key": "b", "kind": "lock", "pid": 1, "host": "x", "behind": {"pid": 2, "host": "y"}},
        {"key": "a", "kind": "lock", "pid": 2, "host": "y", "behind": {"pid": 1, "host": "x"}},
    ],
}


@contextmanager
def busy(url, key):
    """Keep something going on with a key for as long as the block lasts."""
    over = threading.Event()

    def come_and_go():
        with connect(url, name="busy") as client:
            while not over.wait(0.001):
                client.lock(key).acquire().release()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        (GRANTED, ["04:05:06.789  granted    job"]),
        (ENDED, ["04:05:06.789  ended      seats\\n  (expired, semaphore)"]),
        ({"event": "missed"}, [f"04:05:06.789  {MISSED}"]),
        (
            CYCLE,
            [
                "04:05:06.789  deadlock of 2:",
                "  x pid 1 waits for lock b: y pid 2 holds it",
                "  y pid 2 waits for lock a: x pid 1 holds it",
            ],
        ),
    ],
)
def test_people_get_a_line_that_says_what_happened(event, lines):
    assert lines_of(event, 1, NOW, None) == lines


def test_programs_get_an_object_in_each_line():
    (line,) = lines_of(CYCLE, 1, NOW, "json")
    assert json.loads(line) == {"time": NOW} | CYCLE
    assert "\n" not in lines_of(ENDED, 1, NOW, "json")[0]


def test_scripts_get_a_row_for_each_change_and_for_each_part_of_a_deadlock():
    assert lines_of(ENDED, 1, NOW, "simple") == [f"{NOW},changed,ended,semaphore,seats\\n,expired"]
    assert lines_of(CYCLE, 3, NOW, "simple") == [f"{NOW},3,1,x,b,lock,2,y", f"{NOW},3,2,y,a,lock,1,x"]


def test_what_happens_to_keys_is_printed_as_it_happens(urls):
    with busy(urls.native, "watch/job"):
        lines = shown("watch", "watch/", "--count", "4", server=urls.native).splitlines()
    assert len(lines) == 4
    for line in lines:
        assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}  (granted    watch/job|ended      watch/job  \(released\))", line)
    assert len({line[12:] for line in lines[:2]}) == 2


def test_one_key_can_be_watched_and_others_are_not_told_of(urls):
    with busy(urls.native, "watch/one"), busy(urls.native, "watch/one/more"):
        told = shown("watch", "--key", "watch/one", "--count", "5", "--json", server=urls.native)
    assert {json.loads(line)["key"] for line in told.splitlines()} == {"watch/one"}


def test_a_script_gets_headings_once(urls):
    with busy(urls.native, "watch/csv"):
        told = shown("watch", "watch/csv", "--count", "3", "--simple", server=urls.native)
    rows = list(csv.DictReader(told.splitlines()))
    assert len(rows) == 3
    assert {row["what"] for row in rows} == {"granted", "ended"}
    assert {row["key"] for row in rows} == {"watch/csv"}


def test_kinds_can_be_told_apart(urls):
    with busy(urls.native, "watch/kind"), connect(urls.native) as client:
        over = threading.Event()

        def sit_down_and_get_up():
            while not over.wait(0.001):
                client.semaphore("watch/kind", 2).acquire().release()

        thread = threading.Thread(target=sit_down_and_get_up)
        thread.start()
        told = shown("watch", "watch/kind", "--kind", "semaphore", "--count", "4", server=urls.native)
        over.set()
        thread.join()
    assert all(line.endswith("semaphore)") for line in told.splitlines())


def test_a_deadlock_is_told_when_it_arises(urls):
    here, there = threading.Barrier(2), threading.Event()

    def embrace(mine, other):
        with connect(urls.native) as client, client.lock(mine):
            here.wait()
            while not there.is_set():
                with suppress(TimedOut), client.lock(other, patience=0.3):
                    pass

    threads = [threading.Thread(target=embrace, args=pair) for pair in (("dl/1", "dl/2"), ("dl/2", "dl/1"))]
    for thread in threads:
        thread.start()
    lines = shown("watch", "--deadlocks", "--count", "1", server=urls.native).splitlines()
    there.set()
    for thread in threads:
        thread.join()
    assert lines[0].endswith("  deadlock of 2:")
    assert {line.split(" waits for ")[1].split(":")[0] for line in lines[1:]} == {"lock dl/1", "lock dl/2"}


def test_an_interruption_is_the_end_and_no_trouble(urls):
    watch = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "watch", "watch/int"],
        env=environment(urls.native),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with busy(urls.native, "watch/int"):
        assert "watch/int" in watch.stdout.readline()
    watch.send_signal(signal.SIGINT)
    assert watch.communicate()[1] == ""
    assert watch.returncode == 0


def test_a_prefix_and_a_key_are_too_much(urls):
    result = holdfast("watch", "some/", "--key", "one", server=urls.native)
    assert (result.exit_code, "not both" in result.stderr) == (2, True)


@pytest.mark.parametrize("scheme", ["dflock", "http"])
def test_only_our_own_protocol_can_tell(scheme, urls):
    result = holdfast("watch", server=getattr(urls, scheme))
    assert result.exit_code == SPELLINGS["bad_request"].exit_code
    assert "watch needs the native protocol" in result.stderr
