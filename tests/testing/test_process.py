"""Servers in processes of their own start, say where they are, and are gone when their block ends.

What they serve is tested elsewhere.
"""

import subprocess
from pathlib import Path

import pytest

from holdfast.testing.line_peer import LinePeer
from holdfast.testing.process import PROGRAMS, ServerEnded, ServerProcess, command, environment


@pytest.mark.parametrize("loop", PROGRAMS)
@pytest.mark.parametrize("arguments", [("serve", "--line", "127.0.0.1:0"), ("dflockd", "--port", "0")])
def test_a_server_runs_as_long_as_its_block(tmp_path: Path, arguments: tuple[str, ...], loop: str) -> None:
    with ServerProcess(*arguments, log=tmp_path / "log", loop=loop) as server:
        assert (server.host, server.port > 0) == ("127.0.0.1", True)
        with LinePeer(server.port) as peer:
            assert peer.ask("ping") == "ok"
        assert loop in server.log
        assert server.process.poll() is None
    assert server.process.poll() is not None
    with pytest.raises(ConnectionRefusedError):
        LinePeer(server.port)


def test_a_server_can_be_stopped_in_order(tmp_path: Path) -> None:
    with ServerProcess("serve", "--line", "127.0.0.1:0", log=tmp_path / "log") as server:
        server.stop()
        assert server.wait() == 0


def test_a_server_can_be_killed(tmp_path: Path) -> None:
    with ServerProcess("serve", "--line", "127.0.0.1:0", log=tmp_path / "log") as server:
        server.kill()
        assert server.wait() == -9


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(ServerEnded, match="keys_max must be"):
        ServerProcess("serve", "--keys-max", "0", log=tmp_path / "log")


def test_the_settings_of_whoever_runs_the_tests_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_KEYS_MAX", "0")
    monkeypatch.setenv("DFLOCKD_MAX_LOCKS", "0")
    assert not {"HOLDFAST_KEYS_MAX", "DFLOCKD_MAX_LOCKS"} & environment().keys()
    done = subprocess.run(command("--version"), env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.startswith("holdfast ")
