"""The gRPC door of a whole server: its settings, TLS and tokens, the other doors beside it, a restart, and a client of
Shaken Fist, whose bytes are made by hand.
"""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest

from holdfast.config import Config, cautions
from holdfast.doors.asker import Asker
from holdfast.doors.rights import Rights
from holdfast.errors import ConfigError, Forbidden
from holdfast.leases import grpc_calls
from holdfast.leases.errors import DatabaseUnavailable
from holdfast.leases.grpc_backend import open_backend
from holdfast.leases.words import Got, Hold, Taken
from holdfast.rpc import INSTALL, make_door
from holdfast.testing.line_peer import LinePeer
from holdfast.testing.process import ServerEnded, ServerProcess, environment
from tests.certificates import Authority
from tests.conftest import Start
from tests.leases.asking import KEY, LEASE_US, ask, hold_of
from tests.office import Office

WAIT_S_MAX = 20
GRPC = ("--grpc", "127.0.0.1:0")


def url_of(server: ServerProcess, token: str = "", scheme: str = "grpc") -> str:
    return f"{scheme}://{token}{'@' if token else ''}127.0.0.1:{server.grpc_port}"


# --- beside the other doors, over every store ---


@pytest.mark.parametrize(("store", "http"), [("memory:", "127.0.0.1:0"), ("sqlite:locks.db", "off")])
def test_a_lock_of_one_door_is_busy_at_the_other_and_fences_rise_over_both(start: Start, store: str, http: str) -> None:
    server = start("serve", "--store", store, "--http", http, *GRPC)
    backend = open_backend(url_of(server))
    asked = ask()
    first = backend.acquire(asked)
    assert isinstance(first, Got)
    with LinePeer(server.port) as line:
        name = KEY.decode()
        assert line.ask("l", name, "0 30") == "timeout"
        assert backend.release([hold_of(asked)]) == [True]
        token = line.ask("l", name, "0 30").split()[1]
        assert isinstance(backend.acquire(ask()), Taken)
        (row,) = backend.list()
        assert row.node.startswith("127.0.0.1:")
        assert line.ask("r", name, token) == "ok"
    last = backend.acquire(ask())
    assert isinstance(last, Got)
    assert int(token[:16], 16) == row.fence
    assert first.fence < row.fence < last.fence
    backend.close()


def test_a_lease_in_a_file_outlives_the_server(start: Start, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path}/locks.db"
    server = start("serve", "--store", store, *GRPC)
    backend = open_backend(url_of(server))
    asked = ask()
    assert backend.acquire(asked) == Got(1)
    server.stop()
    assert server.wait() == 0
    start("serve", "--store", store, "--grpc", f"127.0.0.1:{server.grpc_port}")
    assert backend.refresh([hold_of(asked)], LEASE_US) == [True]
    assert backend.acquire(asked) == Got(1)
    assert isinstance(backend.acquire(ask()), Taken)
    (row,) = backend.list()
    assert (row.holder["pid"], row.process, row.fence) == (asked.pid, asked.process, 1)
    assert backend.release([hold_of(asked)]) == [True]
    backend.close()


# --- who gets in ---


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


def test_tls_and_token_are_as_at_the_other_doors(
    start: Start, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_calls, "ANSWER_S_LEAST", 0.1)
    certificate, key = authority.sign("server")
    server = start(
        *("serve", "--store", "memory:", *GRPC, "--auth-token", "geheim"),
        *("--tls-cert", str(certificate), "--tls-key", str(key), "--tls-client-ca", str(authority.certificate)),
    )
    mine = authority.sign("client")
    trusting = f"?ca={authority.certificate}"
    showing = f"{trusting}&cert={mine[0]}&key={mine[1]}"
    good = open_backend(url_of(server, "geheim", "grpcs") + showing)
    assert isinstance(good.acquire(ask()), Got)
    good.close()
    nobody = open_backend(url_of(server, "", "grpcs") + showing)
    with pytest.raises(Forbidden, match="show a token"):
        nobody.refresh([Hold(KEY, "x")], LEASE_US)
    nobody.close()
    for stranger in (url_of(server, "geheim", "grpcs") + trusting, url_of(server, "geheim")):
        shut_out = open_backend(stranger)
        with pytest.raises(DatabaseUnavailable):
            shut_out.refresh([Hold(KEY, "x")], 300_000)
        shut_out.close()


def test_rights_of_the_tokens_file_count_here_too(start: Start, tmp_path: Path) -> None:
    tokens = {"tokens": [{"name": "ci", "token": "ci-token", "rights": {"ci/": ["hold"]}}]}
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps(tokens))
    server = start("serve", "--store", "memory:", "--http-tokens-file", str(file), *GRPC)
    backend = open_backend(url_of(server, "ci-token"))
    assert isinstance(backend.acquire(ask(b"ci/job")), Got)
    with pytest.raises(Forbidden, match="no right to hold"):
        backend.acquire(ask(b"cluster/"))
    assert backend.now() > 0
    backend.close()


# --- settings ---


def test_it_is_off_unless_asked_for_and_needs_no_other_door(start: Start) -> None:
    assert start("serve", "--store", "memory:").grpc_port == 0
    server = start("serve", "--store", "memory:", "--line", "off", "--http", "off", *GRPC)
    backend = open_backend(url_of(server))
    assert isinstance(backend.acquire(ask()), Got)
    backend.close()


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--grpc", "8080"), "grpc must be HOST:PORT"),
        ((*GRPC, "--tls-cert", "none.pem", "--tls-key", "none.key"), "none.pem"),
    ],
)
def test_what_cannot_be_is_refused_at_the_start(start: Start, flags: Sequence[str], why: str) -> None:
    with pytest.raises(ServerEnded) as refused:
        start("serve", "--store", "memory:", *flags)
    assert why in str(refused.value)


def test_every_interface_is_a_star(start: Start) -> None:
    server = start("serve", "--store", "memory:", "--grpc", "*:0")
    assert server.grpc_host == "::"
    backend = open_backend(url_of(server))
    assert isinstance(backend.acquire(ask()), Got)
    backend.close()


def test_without_the_packages_the_server_says_how_to_install_them() -> None:
    hidden = "import sys; sys.modules['grpc'] = None; from holdfast.cli.main import main; main()"
    served = subprocess.run(
        [sys.executable, "-c", hidden, "serve", "--store", "memory:", "--line", "127.0.0.1:0", "--http", "off", *GRPC],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )
    assert served.returncode == 1
    assert INSTALL in served.stderr


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    office = Office()
    asker = Asker(office.desk, office.clock, resident=True)
    config = Config(grpc="127.0.0.1:0", tls_cert="none.pem", tls_key=str(tmp_path))
    with pytest.raises(ConfigError, match=r"tls_key: cannot read .* Is a directory"):
        make_door(config, office.desk, asker, office.clock, rights=Rights([]), bug=print)


def test_a_door_to_the_world_without_a_token_or_tls_is_cautioned_about() -> None:
    assert [text for text in cautions(Config(grpc="*:1")) if "*:1" in text] == [
        "no auth_token is set: whoever reaches *:1 may take and end locks"
    ]
    assert [text for text in cautions(Config(grpc="*:1", auth_token="x")) if "*:1" in text] == [
        "TLS is off: tokens cross the network to *:1 in clear text"
    ]
    assert cautions(Config(grpc="127.0.0.1:1")) == cautions(Config())


# --- a client of Shaken Fist ---


class ShakenFist:
    """Calls as Shaken Fist's processes do: its path, its fields, and nothing that is ours."""

    def __init__(self, port: int) -> None:
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")

    def call(self, name: str, *fields: tuple[int, str | Sequence[int]]) -> dict[int, list[Any]]:
        request = b"".join(_written(number, value) for number, value in fields if value)
        answer = self.channel.unary_unary(f"/shakenfist.protos.DatabaseService/{name}")(request, timeout=WAIT_S_MAX)
        return _read(answer)

    def lock(self, name: str, *more: tuple[int, str]) -> dict[int, list[Any]]:
        return self.call(name, (1, "cluster"), (2, ""), (3, ""), *more)


def _written(number: int, value: str | Sequence[int]) -> bytes:
    """Write a text, or numbers below 128, packed."""
    data = value.encode() if isinstance(value, str) else bytes(value)
    assert len(data) < 1 << 14
    size = bytes([len(data)]) if len(data) < 128 else bytes([len(data) & 127 | 128, len(data) >> 7])
    return bytes([number << 3 | 2]) + size + data


def _read(data: bytes) -> dict[int, list[Any]]:
    """Read fields below 100: others are not known there."""

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    at, found = 0, {}
    while at < len(data):
        tag = number()
        value: Any = number()
        if tag & 7 == 2:
            at, value = at + value, data[at : at + value]
        if tag >> 3 < 100:
            found.setdefault(tag >> 3, []).append(value)
    return found


def lock_data(id_: str, pid: int) -> str:
    told = {"node": "sf-7", "pid": pid, "thread": 139, "line": "x.py:7", "operation": "Cluster maintenance", "id": id_}
    return json.dumps(told)


def test_a_client_of_shaken_fist_finds_what_it_knows(start: Start) -> None:
    caller = ShakenFist(start("serve", *GRPC).grpc_port)
    mine, other = lock_data("AbCdEfGh01234567", 7), lock_data("76543210hGfEdCbA", 8)
    assert caller.lock("AcquireLock", (4, mine)) == {1: [1]}
    assert caller.lock("AcquireLock", (4, mine)) == {1: [1]}  # its answer was lost, and it asks again
    assert caller.lock("AcquireLock", (4, other)) == {}  # busy: acquired is false, and nothing is left out but that
    assert caller.lock("RefreshLock", (4, "AbCdEfGh01234567")) == {1: [1]}
    assert caller.lock("RefreshLock", (4, "76543210hGfEdCbA")) == {}  # stolen: neither success nor an error
    assert caller.lock("GetLockHolder") == {1: [1], 2: [mine.encode()]}
    assert caller.call("GetLockHolder", (1, "other")) == {}
    (entry,) = caller.call("GetExistingLocks")[1]
    assert _read(entry) == {1: [b"cluster/"], 2: [mine.encode()]}
    assert caller.lock("ReleaseLock", (4, other)) == {}
    assert caller.lock("ReleaseLock", (4, mine)) == {1: [1]}
    assert caller.lock("AcquireLock", (4, other)) == {1: [1]}
    assert caller.call("ClearStaleLocks", (1, "sf-7"), (2, [7, 8])) == {1: [1]}
    assert caller.lock("GetLockHolder")[1] == [1]
    assert caller.call("ClearStaleLocks", (1, "sf-7"), (2, [7])) == {1: [1]}
    assert caller.lock("GetLockHolder") == {}
    caller.channel.close()


def test_a_store_that_is_kept_busy_is_unavailable_to_it_and_never_stolen_or_busy(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "locks.db"
    server = start("serve", "--store", f"sqlite:{file}", "--store-busy-timeout", "0", *GRPC)
    caller = ShakenFist(server.grpc_port)
    mine = lock_data("AbCdEfGh01234567", 7)
    caller.lock("AcquireLock", (4, mine))
    intruder = sqlite3.connect(file, isolation_level=None)
    intruder.execute("BEGIN EXCLUSIVE")
    for name, field in (("AcquireLock", mine), ("RefreshLock", "AbCdEfGh01234567"), ("ReleaseLock", mine)):
        with pytest.raises(grpc.RpcError) as refused:
            caller.lock(name, (4, field))
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    intruder.execute("ROLLBACK")
    intruder.close()
    assert caller.lock("RefreshLock", (4, "AbCdEfGh01234567")) == {1: [1]}
    caller.channel.close()
