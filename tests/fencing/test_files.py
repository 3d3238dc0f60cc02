"""Fence files and fenced files: what they refuse, what survives, and a process killed between any two steps.

A power cut is not played here; the order of what is put on the disk is looked at instead.
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from holdfast.errors import BadRequest, FenceFileError, TimedOut, TooMany
from holdfast.fencing import FencedFile, FenceFile, FileGuard, StaleToken
from tests.docs.pages import ROOT

# Writes b"new" with token 2 in a process that kills itself before the n-th step, and prints the steps that it took.
KILLED = """
import builtins, io, os, signal, sys
from holdfast.fencing import FencedFile
path, fatal = sys.argv[1], int(sys.argv[2])
steps = 0

def step():
    global steps
    steps += 1
    if steps == fatal:
        os.kill(os.getpid(), signal.SIGKILL)

def noting(function):
    def noted(*arguments, **named):
        step()
        return function(*arguments, **named)
    return noted

for name in ("open", "pwrite", "fsync", "link", "unlink", "replace", "fchmod", "close"):
    setattr(os, name, noting(getattr(os, name)))
builtins.open = noting(open)
FencedFile(path).write(b"new" * 10000, 2)
print(steps)
"""


def write_and_die(path, fatal):
    """Run the writer; give the number of its steps, or None if it died."""
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), str(fatal)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        check=False,
    )
    if ran.returncode == -signal.SIGKILL:
        return None
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


# --- a fence file ---


def test_a_mark_survives_its_guard(tmp_path):
    path = tmp_path / "job.fence"
    assert FenceFile(path).highest() == 0
    assert FenceFile(path).check(33) == 33
    assert FenceFile(path).check(33) == 33
    assert FenceFile(path).check(34) == 34
    with pytest.raises(StaleToken) as refused:
        FenceFile(path).check(33)
    assert (refused.value.token, refused.value.highest) == (33, 34)
    assert FenceFile(path).highest() == 34


def test_a_fence_file_can_be_read_by_people(tmp_path):
    FenceFile(tmp_path / "f").check(2**64 - 1)
    content = (tmp_path / "f").read_text()
    assert content.count("\n") == 2
    assert "holdfast fence 18446744073709551615 " in content
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("slot", [0, 64])
def test_a_torn_write_costs_only_the_number_that_was_being_written(tmp_path, slot):
    path = tmp_path / "f"
    for token in (5, 6):
        FenceFile(path).check(token)
    data = bytearray(path.read_bytes())
    torn = int(data[slot + 15 : slot + 35])
    data[slot + 30 : slot + 64] = bytes(34)
    path.write_bytes(data)
    assert FenceFile(path).highest() == {5: 6, 6: 5}[torn]
    assert FenceFile(path).check(7) == 7
    assert FenceFile(path).check(8) == 8
    assert FenceFile(path).highest() == 8


@pytest.mark.parametrize("content", [b"", b"x", bytes(128), b"holdfast fence 00000000000000000005 0"])
def test_a_file_that_is_no_fence_file_is_left_alone(tmp_path, content):
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(FenceFileError, match="no fence file"):
        FenceFile(path).check(1)
    assert path.read_bytes() == content


def test_a_digit_that_changed_on_the_disk_is_noticed(tmp_path):
    path = tmp_path / "f"
    FenceFile(path).check(5)
    path.write_bytes(path.read_bytes().replace(b"00005", b"00009"))
    assert FenceFile(path).highest() == 0


def test_nobody_else_gets_in_while_somebody_writes_and_patience_has_an_end(tmp_path):
    path = tmp_path / "f"
    with FenceFile(path).admit(1), pytest.raises(TimedOut, match=r"for 0\.01 s"):
        FenceFile(path, patience=0.01).check(2)
    assert FenceFile(path).check(2) == 2


def test_whoever_waits_gets_in_when_the_other_leaves(tmp_path):
    path, inside, order = tmp_path / "f", threading.Event(), []

    def newer():
        inside.set()
        with FenceFile(path).admit(2):
            order.append(2)

    thread = threading.Thread(target=newer)
    with FenceFile(path).admit(1):
        thread.start()
        assert inside.wait(10)
        order.append(1)
    thread.join(10)
    assert order == [1, 2]


def test_many_make_the_same_file_at_once_and_no_mark_is_lost(tmp_path):
    path, start = tmp_path / "f", threading.Barrier(8)

    def caller(token):
        start.wait(10)
        with suppress(StaleToken):
            FenceFile(path).check(token)

    threads = [threading.Thread(target=caller, args=(token,)) for token in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert FenceFile(path).highest() == 8
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]


# --- a guard of many keys ---


def test_a_guard_in_a_folder_remembers_each_key(tmp_path):
    folder = tmp_path / "fences"
    FileGuard(folder).check(9, "a/../b\0")
    again = FileGuard(folder)
    assert (again.highest("a/../b\0"), again.highest("other")) == (9, 0)
    with pytest.raises(StaleToken) as refused:
        again.check(8, "a/../b\0")
    assert (refused.value.highest, refused.value.key) == (9, "a/../b\0")
    with again.admit(9, "a/../b\0") as token:
        assert token == 9


def test_a_guard_in_a_folder_has_a_limit_and_forgets_when_told(tmp_path):
    guard = FileGuard(tmp_path / "fences", keys_max=1)
    guard.check(1, "a")
    with pytest.raises(TooMany, match="keys_max is 1"):
        guard.check(1, "b")
    guard.forget("a")
    assert guard.check(1, "b") == 1
    with pytest.raises(BadRequest, match="keys_max is at least 1"):
        FileGuard(tmp_path, keys_max=0)


# --- a fenced file ---


def test_a_paused_holder_cannot_replace_what_the_next_one_wrote(tmp_path):
    """A has token 33 and is paused; B gets 34 and writes; A wakes up, believes that it still holds the lock, writes."""
    report = tmp_path / "report.csv"
    FencedFile(report).write("A, in time", 33)
    FencedFile(report).write("B", 34)
    with pytest.raises(StaleToken):
        FencedFile(report).write("A, too late", 33)
    assert FencedFile(report).read() == b"B"
    FencedFile(report).write("B again", 34)
    assert report.read_text() == "B again"


def test_the_permissions_of_the_file_stay(tmp_path):
    path = tmp_path / "f"
    path.write_text("old")
    path.chmod(0o640)
    FencedFile(path).write("new", 1)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)


def test_a_link_left_in_the_place_of_the_draft_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / ".f.draft").symlink_to(precious)
    FencedFile(tmp_path / "f").write("new", 1)
    assert (precious.read_text(), (tmp_path / "f").read_text()) == ("precious", "new")


def test_things_are_on_the_disk_in_the_order_that_a_power_cut_asks_for(tmp_path, monkeypatch):
    seen = []

    def noting(name, function):
        def noted(*arguments, **named):
            if name == "fsync":
                place = os.readlink(f"/proc/self/fd/{arguments[0]}")
                seen.append(("fsync", os.path.relpath(place, tmp_path)))
            elif name == "pwrite":
                seen.append((name, ""))
            else:
                seen.append((name, os.path.relpath(arguments[1], tmp_path)))
            return function(*arguments, **named)

        return noted

    FencedFile(tmp_path / "f").write("old", 1)
    for name in ("fsync", "pwrite", "replace"):
        monkeypatch.setattr(os, name, noting(name, getattr(os, name)))
    FencedFile(tmp_path / "f").write("new", 2)
    assert seen == [("pwrite", ""), ("fsync", "f.fence"), ("fsync", ".f.draft"), ("replace", "f"), ("fsync", ".")]


@pytest.mark.parametrize("first", [True, False])
def test_a_process_killed_between_any_two_steps_leaves_the_old_or_the_new_and_a_mark_that_rises(tmp_path, first):
    fatal, outcomes = 1, set()
    while True:
        folder = tmp_path / str(fatal)
        folder.mkdir()
        path = folder / "f"
        if not first:
            FencedFile(path).write(b"old", 1)
        done = write_and_die(path, fatal)
        content, mark = path.read_bytes() if path.exists() else None, FencedFile(path).fence.highest()
        assert content in {None if first else b"old", b"new" * 10000}
        assert mark in {0 if first else 1, 2}
        # Never a content without the mark that keeps older ones from replacing it.
        assert content != b"new" * 10000 or mark == 2
        outcomes.add((content is not None and content[:3], mark))
        if mark == 2:
            with pytest.raises(StaleToken):
                FencedFile(path).write(b"late", 1)
        FencedFile(path).write(b"next", 3)
        assert (path.read_bytes(), FencedFile(path).fence.highest()) == (b"next", 3)
        assert {entry.name for entry in folder.iterdir() if not entry.name.endswith(".new")} == {"f", "f.fence"}
        if done is not None:
            break
        fatal += 1
    assert fatal > 10
    before = (False, 0) if first else (b"old", 1)
    assert outcomes == {before, (before[0], 2), (b"new", 2)}
