"""The real server in a process of its own: started, used and stopped as a user would, on both event loops.

TLS, the fence file, and what happens inside the process when something breaks have files of their own beside this one.
"""

import json
import re
import signal
import socket
import subprocess
import time
from contextlib import ExitStack, suppress

import pytest

from holdfast.testing.line_peer import LinePeer
from holdfast.testing.process import PROGRAMS, command, environment
from tests.conftest import Start

GRANT = re.compile(r"ok ([0-9a-f]{32}) (\d+)")
WAIT_S_MAX = 20

both_loops = pytest.mark.parametrize("loop", PROGRAMS)


def token_in(answer: str) -> str:
    found = GRANT.fullmatch(answer)
    assert found is not None, answer
    return found[1]


def end_of(*arguments: str) -> tuple[int, str]:
    """Run a server that is expected to end by itself; answer its exit code and what it said."""
    done = subprocess.run(
        command(*arguments),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S_MAX,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def waiters(peer: LinePeer) -> int:
    """Ask how many wait for the only lock."""
    (lock,) = json.loads(peer.ask("stats").removeprefix("ok "))["locks"]
    return int(lock["waiters"])


def until_waiters(peer: LinePeer, count: int) -> None:
    """Ask until so many wait."""
    limit = time.monotonic() + WAIT_S_MAX
    while waiters(peer) != count:
        assert time.monotonic() < limit


# --- use ---


@both_loops
def test_three_lines_through_nc_give_a_lock(start: Start, loop: str) -> None:
    server = start("serve", loop=loop)
    for expected in (r"ok [0-9a-f]{32} 30\n", r"ok [0-9a-f]{32} 30\n"):  # hanging up gives it back
        script = f"printf 'l\\njob\\n0 30\\n' | nc -N 127.0.0.1 {server.port}"
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, timeout=WAIT_S_MAX)
        assert re.fullmatch(expected, done.stdout)


@both_loops
def test_a_lock_goes_from_hand_to_hand(start: Start, loop: str) -> None:
    server = start("serve", loop=loop)
    with LinePeer(server.port) as a, LinePeer(server.port) as b, LinePeer(server.port) as c:
        first = token_in(a.ask("l", "job", "0 30"))
        b.say("l", "job", "20 30")
        until_waiters(a, 1)
        c.say("l", "job", "20 30")
        until_waiters(a, 2)
        assert a.ask("r", "job", first) == "ok"
        second = token_in(b.hear())
        b.close()
        third = token_in(c.hear())
        assert first < second < third


@both_loops
def test_leases_and_patience_run_out_in_real_time(start: Start, loop: str) -> None:
    server = start("serve", loop=loop)
    with LinePeer(server.port) as a, LinePeer(server.port) as b, LinePeer(server.port) as c:
        held = token_in(a.ask("l", "job", "0 2"))
        b.say("l", "job", "1 30")
        c.say("l", "job", "10 30")
        assert b.hear() == "timeout"
        token_in(c.hear())
        assert a.ask("n", "job", held) == "error"


@both_loops
def test_a_blocked_caller_that_is_gone_gives_up_its_place(start: Start, loop: str) -> None:
    server = start("serve", loop=loop)
    with LinePeer(server.port) as a, LinePeer(server.port) as b, LinePeer(server.port) as c:
        held = token_in(a.ask("l", "job", "0 30"))
        b.say("l", "job", "20 30")
        until_waiters(a, 1)
        b.stop_talking()
        assert b.hear() == ""
        until_waiters(a, 0)
        c.say("l", "job", "20 30")
        until_waiters(a, 1)
        assert a.ask("r", "job", held) == "ok"
        token_in(c.hear())


@both_loops
def test_many_quick_connections_are_all_served(start: Start, loop: str) -> None:
    server = start("serve", loop=loop)
    for _ in range(300):
        with LinePeer(server.port) as peer:
            token_in(peer.ask("l", "job", "5 30"))
    with LinePeer(server.port) as peer:
        limit = time.monotonic() + WAIT_S_MAX
        while json.loads(peer.ask("stats").removeprefix("ok "))["connections"] > 1:
            assert time.monotonic() < limit


@both_loops
def test_a_peer_that_reads_late_gets_every_answer_in_order(start: Start, loop: str) -> None:
    server = start("serve", loop=loop)
    with LinePeer(server.port) as late, LinePeer(server.port) as other:
        for number in range(400):
            token_in(late.ask("l", f"{number:0250d}", "0 300"))
        # Some 20 MB of answers: more than the buffers of two sockets hold. Each request comes by itself, because
        # another one is answered in between.
        for _ in range(150):
            late.say("stats")
            assert other.ask("ping") == "ok"
        late.say("ping")
        for _ in range(150):
            assert len(json.loads(late.hear().removeprefix("ok "))["locks"]) == 400
        assert late.hear() == "ok"


@both_loops
def test_a_peer_that_does_not_read_is_cut_off_and_loses_its_lock(start: Start, loop: str) -> None:
    # Over a file, requests would wait for the store, and a peer that heaps them up meanwhile is cut off for that.
    server = start("serve", "--store", "memory:", "--line-write-timeout", "1", loop=loop)
    with LinePeer(server.port) as deaf, LinePeer(server.port) as other:
        token_in(deaf.ask("l", "job", "0 300"))
        deaf.socket.setblocking(False)
        fill_up(deaf)
        token_in(other.ask("l", "job", "20"))


def fill_up(deaf: LinePeer) -> None:
    """Ask and never listen, until no more can be sent."""
    with suppress(BlockingIOError):
        while True:
            deaf.send(b"stats\n_\n_\n" * 1000)


# --- who may come in ---


@both_loops
def test_a_token_is_asked_for_first(start: Start, loop: str) -> None:
    server = start("serve", "--auth-token", "open sesame", loop=loop)
    with LinePeer(server.port) as friend, LinePeer(server.port) as stranger:
        assert friend.ask("auth", "_", "open sesame") == "ok"
        assert stranger.ask("l", "job", "0") == "error_auth"
        assert stranger.hear() == ""
        token_in(friend.ask("l", "job", "0"))


@pytest.mark.parametrize(
    ("arguments", "inside"),
    [
        (("serve", "--connections-max", "2"), 2),
        (("serve", "--connections-per-address-max", "3"), 3),
        (("dflockd", "-max-connections", "2"), 2),
        (("dflockd", "-max-connections-per-ip", "3"), 3),
    ],
)
def test_whoever_is_too_much_is_closed_without_a_word(start: Start, arguments: tuple[str, ...], inside: int) -> None:
    server = start(*arguments)
    with ExitStack() as connections:
        peers = [connections.enter_context(LinePeer(server.port)) for _ in range(inside)]
        assert [peer.ask("ping") for peer in peers] == ["ok"] * inside
        with LinePeer(server.port) as outside:
            assert outside.hear() == ""
        peers[0].close()
        limit = time.monotonic() + WAIT_S_MAX
        answer = ""
        while answer != "ok":
            assert time.monotonic() < limit
            # A send to a connection that is already closed may fail; what counts is the answer.
            with LinePeer(server.port) as newcomer, suppress(BrokenPipeError, ConnectionResetError):
                answer = newcomer.ask("ping")


@both_loops
def test_a_server_can_listen_on_ipv6(start: Start, loop: str) -> None:
    server = start("serve", "--line", "[::1]:0", loop=loop)
    assert server.host == "::1"
    with LinePeer(server.port, host="::1") as peer:
        assert peer.ask("ping") == "ok"
    dflockd = start("dflockd", "--host=::1")
    with LinePeer(dflockd.port, host="::1") as peer:
        assert peer.ask("ping") == "ok"


# --- the end ---


@both_loops
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_told_to_stop_lets_everybody_finish(start: Start, loop: str, number: signal.Signals) -> None:
    server = start("serve", loop=loop)
    with LinePeer(server.port) as a, LinePeer(server.port) as b, LinePeer(server.port) as c:
        token_in(a.ask("l", "job", "0 30"))
        b.say("l", "job", "20 30")
        until_waiters(a, 1)
        assert c.ask("e", "job") == "error"  # an underscore is no lease
        server.process.send_signal(number)
        assert b.hear() == "error"
        with pytest.raises(ConnectionRefusedError):
            LinePeer(server.port)
        assert server.process.poll() is None
        for peer in (a, b, c):
            assert peer.ask("ping") == "error_draining"
            assert peer.hear() == ""
        assert server.wait() == 0
    assert "stopped" in server.log
    assert "bug" not in server.log


@both_loops
def test_a_server_that_nobody_uses_stops_at_once(start: Start, loop: str) -> None:
    server = start("serve", "--shutdown-timeout", "0", loop=loop)
    server.stop()
    assert server.wait() == 0


@both_loops
def test_whoever_lingers_is_cut_after_the_shutdown_timeout(start: Start, loop: str) -> None:
    server = start("serve", "--shutdown-timeout", "1", loop=loop)
    with LinePeer(server.port) as idle:
        assert idle.ask("ping") == "ok"
        server.stop()
        assert idle.hear() == ""
        assert server.wait() == 0


def test_an_idle_connection_keeps_a_draining_server_until_its_read_timeout(start: Start) -> None:
    server = start("dflockd", "-read-timeout", "1", "-shutdown-timeout", "0")
    with LinePeer(server.port) as idle:
        assert idle.ask("ping") == "ok"
        server.stop()
        assert idle.hear() == "error"
        assert server.wait() == 0


# --- what cannot be started ---


def test_a_port_that_is_taken_is_exit_code_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = end_of("serve", "--line", f"127.0.0.1:{port}")
        assert (code, said) == (1, f"holdfast: line: cannot listen on 127.0.0.1:{port}: Address already in use\n")
        assert end_of("dflockd", "--port", str(port))[0] == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--line", "no such host:6388"),
        ("serve", "--line", "host.invalid:6388"),
        ("serve", "--line", "off", "--http", "off"),
        ("serve", "--line-read-timeout", "0"),
        ("serve", "--store", "memory:?fence=/nowhere/at/all"),
        ("serve", "--store", "paper:"),
        ("serve", "--auth-token", " "),
        ("dflockd", "--tls-cert", "/nowhere"),
        ("dflockd", "--read-timeout", "0"),
        ("dflockd", "--fence-state-file", "/nowhere/at/all"),
    ],
)
def test_a_setting_that_cannot_be_is_exit_code_1_and_one_line(arguments: tuple[str, ...]) -> None:
    code, said = end_of(*arguments)
    lines = [line for line in said.splitlines() if line.startswith("holdfast: ")]
    assert (code, len(lines)) == (1, 1)
    assert "Traceback" not in said


# --- in place of dflockd ---


@both_loops
def test_in_place_of_dflockd_an_idle_connection_is_closed_after_the_read_timeout(start: Start, loop: str) -> None:
    server = start("dflockd", "-read-timeout", "1", loop=loop)
    with LinePeer(server.port) as idle, LinePeer(server.port) as mid_frame, LinePeer(server.port) as rival:
        token_in(idle.ask("l", "job", "0 60"))
        mid_frame.send(b"l\njob\n")
        rival.say("l", "job", "20 60")
        assert (idle.hear(), idle.hear()) == ("error", "")
        assert (mid_frame.hear(), mid_frame.hear()) == ("error", "")
        token_in(rival.hear())


def test_serve_keeps_an_idle_connection_beyond_the_read_timeout(start: Start) -> None:
    server = start("serve", "--line-read-timeout", "1")
    with LinePeer(server.port) as idle, LinePeer(server.port) as mid_frame:
        token_in(idle.ask("l", "job", "0 60"))
        mid_frame.send(b"l\njob\n")
        assert (mid_frame.hear(), mid_frame.hear()) == ("error", "")
        assert idle.ask("ping") == "ok"


def test_flags_may_be_written_as_go_writes_them(start: Start) -> None:
    server = start("dflockd", "-max-locks=1", "--default-lease-ttl", "7", "-auto-release-on-disconnect=false", "-debug")
    with LinePeer(server.port) as a, LinePeer(server.port) as b:
        held = a.ask("l", "one", "0")
        assert held.endswith(" 7")
        assert a.ask("l", "two", "0") == "error_max_locks"
        a.close()
        assert b.ask("l", "one", "0") == "timeout"
        assert b.ask("r", "one", token_in(held)) == "ok"
        assert b.ask("nonsense") == "error"
    assert "bad request" in server.log


def test_a_server_whose_log_is_not_read_any_more_still_serves_and_stops() -> None:
    arguments = command("serve", "--store=memory:", "--auth-token=secret")
    with ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen(arguments, env=environment(), stderr=subprocess.PIPE, text=True))
        stack.callback(process.kill)  # or leaving would wait for one that does not stop
        assert process.stderr is not None
        (address,) = json.loads(process.stderr.readline())["line"]
        process.stderr.close()
        with LinePeer(int(address.rpartition(":")[2])) as peer:
            assert peer.ask("auth", "_", "wrong") == "error_auth"  # which is logged
        process.terminate()
        assert process.wait(WAIT_S_MAX) == 0


def test_a_server_ends_with_its_process(start: Start) -> None:
    server = start("serve")
    with LinePeer(server.port) as peer:
        token_in(peer.ask("l", "job", "0 30"))
        server.kill()
        assert peer.hear() == ""
