"""The fence file under a real server: whatever ends it, the next one never gives out a number that was given before.

How the file is laid out and what a crash can do to it is tested with the journal.
"""

import subprocess
from pathlib import Path

import pytest

from holdfast.testing.line_peer import LinePeer
from holdfast.testing.process import ServerProcess, command, environment
from tests.conftest import Start

SLOT_BYTES = 32
RANGE = 2**20
FAR_AHEAD = 2**62  # a number that no wall clock shows before the year 2116


def fences(server: ServerProcess, count: int = 3) -> list[int]:
    """Take and keep locks of new names; answer their fences."""
    with LinePeer(server.port) as peer:
        answers = [peer.ask("l", f"job{number}", "0 1") for number in range(count)]
    return [int(answer.split()[1][:16], 16) for answer in answers]


def refusal(*arguments: str) -> str:
    """Start a server that must not start; answer what it says."""
    done = subprocess.run(
        command(*arguments), env=environment(), capture_output=True, text=True, check=False, timeout=20
    )
    assert done.returncode == 1
    assert done.stderr.startswith("holdfast: ")
    return done.stderr


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "fences"


def serve(file: Path) -> tuple[str, ...]:
    return ("serve", "--store", f"memory:?fence={file}")


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_fences_go_on_rising_after_every_end(start: Start, file: Path, end: str) -> None:
    # The numbers lie far ahead of the clock, so that it is the file that keeps them rising.
    file.write_bytes(FAR_AHEAD.to_bytes(8, "big"))
    seen: list[int] = []
    for _ in range(3):
        server = start(*serve(file))
        seen += fences(server)
        getattr(server, end)()
        server.wait()
    assert seen == sorted(set(seen))
    assert seen[0] > FAR_AHEAD
    assert all(later - earlier >= RANGE - 3 for earlier, later in zip(seen[::3], seen[3::3], strict=False))


def test_a_new_file_starts_at_the_clock(start: Start, file: Path) -> None:
    server, other = start(*serve(file)), start("serve", "--store", "memory:")
    with_file, without = fences(server), fences(other)
    assert abs(with_file[0] - without[0]) < 60 * 10**9
    assert len(file.read_bytes()) in (SLOT_BYTES, 2 * SLOT_BYTES)


@pytest.mark.parametrize("slot", [0, 1])
def test_one_damaged_slot_is_survived(start: Start, file: Path, slot: int) -> None:
    seen: list[int] = []
    for _ in range(2):
        server = start(*serve(file))
        seen += fences(server)
        server.kill()
    data = bytearray(file.read_bytes())
    assert len(data) == 2 * SLOT_BYTES
    data[slot * SLOT_BYTES + 20] ^= 0xFF
    file.write_bytes(data)
    seen += fences(start(*serve(file)))
    assert seen == sorted(set(seen))


def test_two_damaged_slots_stop_the_start_and_stay_as_they_are(start: Start, file: Path) -> None:
    for _ in range(2):
        start(*serve(file)).kill()
    damaged = bytes(byte ^ 0xFF for byte in file.read_bytes())
    file.write_bytes(damaged)
    assert "no sound record" in refusal(*serve(file), "--line", "127.0.0.1:0")
    assert file.read_bytes() == damaged


def test_a_second_server_on_the_same_file_is_refused_and_the_first_goes_on(start: Start, file: Path) -> None:
    first = start(*serve(file))
    before = fences(first)
    assert "another server holds its lock" in refusal(*serve(file), "--line", "127.0.0.1:0")
    with LinePeer(first.port) as peer:
        assert int(peer.ask("l", "next", "0").split()[1][:16], 16) == before[-1] + 1
    first.stop()
    assert first.wait() == 0
    start(*serve(file))


def test_the_file_of_one_command_is_the_file_of_the_other(start: Start, file: Path) -> None:
    file.write_bytes(FAR_AHEAD.to_bytes(8, "big"))
    seen: list[int] = []
    for arguments in (("dflockd", "-fence-state-file", str(file)), serve(file)) * 2:
        server = start(*arguments)
        seen += fences(server)
        server.kill()
    assert seen == sorted(set(seen))
