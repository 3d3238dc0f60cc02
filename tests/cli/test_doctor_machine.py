"""The doctor on a machine: limits against settings, ports that are really tried, and the programs that are there."""

import errno
import resource
import socket
import sys
import threading
from contextlib import contextmanager

import pytest

from holdfast import __version__
from holdfast.cli import doctor_machine
from holdfast.cli.doctor_findings import State
from holdfast.cli.doctor_machine import (
    backlog,
    borrowed,
    greet_http,
    greet_line,
    limits,
    listen,
    open_files,
    ports,
    python,
    sqlite,
    uvloop,
    versions,
    wanted_files,
)
from holdfast.config import Config

HOST = "127.0.0.1"


@pytest.fixture
def kernel(tmp_path):
    """Settings of a kernel, of paper."""
    for name, content in {
        "core/somaxconn": "128\n",
        "ipv4/ip_local_port_range": "32768\t60999\n",
        "ipv4/ip_local_reserved_ports": "40000-40010,50000\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


@contextmanager
def taken(answer=None):
    """Take a port; whoever calls there gets this answer, or is hung up on."""
    with socket.create_server((HOST, 0)) as server:

        def serve():
            peer, _ = server.accept()
            with peer:
                if answer is not None and peer.recv(1_000):
                    peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


# --- limits ---


def test_each_door_may_have_all_connections():
    assert wanted_files(Config(connections_max=5_000)) == 10_064
    assert wanted_files(Config(connections_max=5_000, http="off")) == 5_064
    assert wanted_files(Config(connections_max=5)) == 1_024


@pytest.mark.parametrize(
    ("allowed", "state"), [(1_023, State.WARNING), (1_024, State.OK), (resource.RLIM_INFINITY, State.OK)]
)
def test_files_that_may_be_open_are_compared_with_those_that_may_be_wanted(allowed, state):
    finding = open_files(allowed, 1_024)
    assert (finding.state, bool(finding.advice)) == (state, state is not State.OK)


def test_callers_at_the_door_are_compared_too():
    assert [backlog(allowed, 1_024).state for allowed in (1_023, 1_024)] == [State.WARNING, State.OK]


def test_this_machine_has_limits(kernel, tmp_path):
    assert [finding.part for finding in limits(Config())] == ["limits"] * 2
    assert limits(Config(), kernel)[1].found == "callers at the door at once: only 128 allowed, 1024 wanted"
    assert len(limits(Config(), tmp_path / "nothing")) == 1


# --- ports ---


def test_a_free_port_is_free_and_stays_so(kernel):
    for _ in range(2):
        found = ports(Config(line=f"{HOST}:0", http="off"), kernel)
        assert [(finding.state, finding.found) for finding in found] == [
            (State.OK, f"line: {HOST}:0 is free"),
            (State.OK, "http: off"),
        ]


@pytest.mark.parametrize(
    ("greet", "answer", "ours"),
    [
        (greet_line, b"ok\n", True),
        (greet_line, b"error_auth\n", True),
        (greet_line, b"HTTP/1.1 400 Bad Request\r\n\r\n", False),
        (greet_line, None, False),
        (greet_http, b"HTTP/1.1 200 OK\r\n\r\n", True),
        (greet_http, b"HTTP/1.1 404 Not Found\r\n\r\n", False),
        (greet_http, b"ok\n", False),
    ],
)
def test_who_has_a_port_is_greeted(greet, answer, ours):
    with taken(answer) as port:
        finding = listen("line", HOST, port, greet)
    assert finding.state is (State.OK if ours else State.WARNING)
    assert f"line: {HOST}:{port} is in use" in finding.found
    assert bool(finding.advice) != ours


def test_a_server_of_ours_is_known_by_both_its_doors(urls):
    line, http = (url.partition("//")[2] for url in (urls.native, urls.http))
    found = [finding for finding in ports(Config(line=line, http=http)) if "in use" in finding.found]
    assert [finding.state for finding in found] == [State.OK, State.OK]
    assert all("a lock server answers there" in finding.found for finding in found)


@pytest.mark.parametrize(
    ("code", "about", "advice"),
    [
        (errno.EACCES, "is not for this user", "CAP_NET_BIND_SERVICE"),
        (errno.EADDRNOTAVAIL, "cannot be listened on", "--line"),
    ],
)
def test_where_we_cannot_listen_we_are_told_what_to_do(monkeypatch, code, about, advice):
    def refuse(host, port):
        raise OSError(code, "no")

    monkeypatch.setattr("holdfast.doors.listener.bind", refuse)
    finding = listen("line", HOST, 80, greet_line)
    assert (finding.state, about in finding.found, advice in finding.advice) == (State.BAD, True, True)


def test_an_address_of_another_machine_is_bad():
    assert listen("http", "192.0.2.1", 8_080, greet_http).state is State.BAD


@pytest.mark.parametrize(
    ("port", "lent"),
    [(6_388, False), (32_768, True), (60_999, True), (61_000, False), (40_005, False), (50_000, False)],
)
def test_a_port_that_the_kernel_may_lend_is_told(kernel, port, lent):
    finding = borrowed("line", port, kernel)
    assert (finding is not None) == lent
    assert finding is None or finding.advice == f"Keep it free: sysctl -w net.ipv4.ip_local_reserved_ports={port}"


def test_a_kernel_that_lends_no_ports_is_no_trouble(tmp_path):
    assert borrowed("line", 40_000, tmp_path) is None


# --- versions ---


def test_the_programs_are_told():
    found = [finding.found for finding in versions()]
    assert found[0].startswith(f"holdfast {__version__}, ")
    assert sys.executable in found[1]
    assert len(found) == 4


def test_what_is_too_old_or_missing_is_told():
    assert [sqlite(version).state for version in ((3, 23, 9), (3, 24, 0))] == [State.BAD, State.OK]
    assert [python(name, "3.11").state for name in ("PyPy", "CPython")] == [State.WARNING, State.OK]
    assert [uvloop(version).state for version in (None, "0.1")] == [State.WARNING, State.OK]
    assert doctor_machine._installed("no-such-thing-is-installed") is None
