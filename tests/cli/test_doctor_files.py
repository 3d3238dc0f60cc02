"""The doctor on the place of a store: writes that are really tried, and file systems that can only be told of."""

import os
import sqlite3
from pathlib import Path

import pytest

from holdfast.cli import doctor_files
from holdfast.cli.doctor_files import (
    PREFIX,
    Space,
    commit,
    findings,
    flush,
    kind,
    pace,
    room,
    space_of,
    try_out,
    type_of,
)
from holdfast.cli.doctor_findings import State

MOUNTINFO = """\
22 1 254:1 / / rw,relatime - ext4 /dev/root rw
30 22 0:26 / /var/lib rw shared:5 - nfs4 host:/lib rw
31 30 0:27 / /var/lib/with\\040space rw - tmpfs none rw
32 30 0:28 / /var/lib rw - xfs /dev/sdb rw
33 22 0:29 / /var/library rw - overlay overlay rw
"""


@pytest.fixture
def mounts(tmp_path):
    file = tmp_path / "mountinfo"
    file.write_text(MOUNTINFO)
    return file


@pytest.mark.parametrize("store", ["sqlite:{}/holdfast.db", "memory:?fence={}/fence"])
def test_a_good_place_is_good_and_is_left_as_it_was(tmp_path, store):
    _, _, written = findings(store.format(tmp_path))
    assert written.found.startswith("a write that lasts (fsync) takes ")
    assert written.state is not State.BAD
    assert list(tmp_path.iterdir()) == []


def test_a_store_in_memory_needs_no_place():
    (finding,) = findings("memory:")
    assert (finding.state, finding.advice != "") == (State.NOTE, True)


def test_a_folder_that_is_not_there_is_to_be_made(tmp_path):
    (finding,) = findings(f"sqlite:{tmp_path}/gone/holdfast.db")
    assert (finding.state, finding.advice) == (State.BAD, f"Make it: mkdir -p {tmp_path}/gone")


def refuse(monkeypatch, *paths):
    """Let these be out of bounds, also for root, whom a mode of a file stops nowhere."""
    real = os.access
    monkeypatch.setattr(
        doctor_files.os, "access", lambda path, mode: str(path) not in map(str, paths) and real(path, mode)
    )


def test_a_folder_in_which_we_may_not_write_is_bad(tmp_path, monkeypatch):
    refuse(monkeypatch, tmp_path)
    (finding,) = findings(f"sqlite:{tmp_path}/holdfast.db")
    assert (finding.state, finding.found) == (State.BAD, f"we may not write in {tmp_path}")


def test_a_store_that_belongs_to_somebody_else_is_bad(tmp_path, monkeypatch):
    file = tmp_path / "holdfast.db"
    file.touch()
    refuse(monkeypatch, file)
    (finding,) = findings(f"sqlite:{file}")
    assert (finding.state, finding.found) == (State.BAD, f"we may not write to {file}")
    assert "chown" in finding.advice


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("/srv", "ext4"),
        ("/var/lib", "xfs"),
        ("/var/lib/holdfast", "xfs"),
        ("/var/lib/with space/x", "tmpfs"),
        ("/var/library", "overlay"),
        ("/var/libraries", "ext4"),
    ],
)
def test_what_was_mounted_last_and_deepest_is_what_a_folder_is_on(mounts, folder, name):
    assert type_of(Path(folder), mounts) == name


def test_where_the_system_does_not_tell_it_is_not_guessed(tmp_path):
    assert type_of(tmp_path, tmp_path / "nothing") is None
    assert kind(tmp_path, None).state is State.NOTE


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("ext4", State.OK),
        ("xfs", State.OK),
        ("nfs4", State.BAD),
        ("cifs", State.BAD),
        ("fuse.sshfs", State.BAD),
        ("9p", State.BAD),
        ("tmpfs", State.WARNING),
        ("overlay", State.WARNING),
    ],
)
def test_a_type_of_file_system_is_judged(tmp_path, name, state):
    finding = kind(tmp_path, name)
    assert (finding.state, name in finding.found) == (state, True)
    assert bool(finding.advice) == (state is not State.OK)


@pytest.mark.parametrize(
    ("space", "state"),
    [
        (Space(2_000_000_000, None), State.OK),
        (Space(999_999_999, 1_000), State.WARNING),
        (Space(63_999_999, None), State.BAD),
        (Space(2_000_000_000, 15), State.BAD),
    ],
)
def test_room_is_judged(space, state):
    assert room(space).state is state
    assert bool(room(space).advice) == (state is not State.OK)


def test_room_is_what_this_system_says(tmp_path):
    assert space_of(tmp_path).free > 0


def test_a_slow_disk_is_told():
    assert [pace(took).state for took in (0.1, 49.9, 50.0)] == [State.OK, State.OK, State.WARNING]


@pytest.mark.parametrize("attempt", [commit, flush])
def test_a_trial_leaves_nothing_and_can_be_repeated(tmp_path, attempt):
    for _ in range(2):
        assert try_out(tmp_path, attempt).state in (State.OK, State.WARNING)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), sqlite3.OperationalError("disk I/O error")])
def test_a_disk_that_fails_is_bad_and_the_trial_is_cleared_away(tmp_path, error):
    def fail(place):
        assert place.parent == tmp_path
        assert place.name.startswith(PREFIX)
        raise error

    finding = try_out(tmp_path, fail)
    assert (finding.state, str(error) in finding.found) == (State.BAD, True)
    assert list(tmp_path.iterdir()) == []
