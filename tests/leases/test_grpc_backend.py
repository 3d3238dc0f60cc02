"""The backend over gRPC keeps the contract of all backends, in both faces; and what it says where it differs.

How calls are made, and made again, is tested with the channels.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from holdfast.errors import ConfigError
from holdfast.leases.errors import BadKey
from holdfast.leases.grpc_backend import INSTALL, open_async_backend, open_backend
from holdfast.leases.words import Got, Taken
from holdfast.testing.process import environment
from tests.doors.grpc_house import GrpcHouse
from tests.leases.asking import LEASE_US, Blocking, InLoop, ask, gone, hold_of
from tests.leases.contract import BLINK_US, BackendContract, await_lapse

# Run in a process of its own: the door of these tests is in this one, and does not survive a fork.
FORKS = """
import os, sys
from holdfast.leases.grpc_backend import open_backend
from holdfast.leases.words import Ask, Hold

def ask(key):
    return Ask(key=key, lock_id="id", holder={}, node="n", pid=1, process="", lease_us=60_000_000)

backend = open_backend(sys.argv[1])
backend.acquire(ask(b"t/parent"))
child = os.fork()
if child == 0:
    try:
        print("child", backend.acquire(ask(b"t/child")), flush=True)
    finally:
        os._exit(0)
os.waitpid(child, 0)
print("parent", backend.refresh([Hold(b"t/parent", "id")], 60_000_000))
"""


@pytest.fixture
def house() -> Iterator[GrpcHouse]:
    with GrpcHouse() as house:
        yield house


class TestGrpc(BackendContract):
    how: type[Blocking] | type[InLoop] = Blocking

    @pytest.fixture
    def faces(self, house: GrpcHouse) -> Iterator[list[Any]]:
        with ExitStack() as opened:
            faces = [opened.enter_context(self.how(house.url)) for _ in range(2)]
            faces[0].prepare()
            yield faces

    @pytest.fixture
    def face(self, faces: list[Any]) -> Any:
        return faces[0]

    @pytest.fixture
    def second(self, faces: list[Any]) -> Any:
        return faces[1]

    def test_keys_are_told_apart_byte_by_byte(self, face: Any) -> None:
        long = b"t/" + b"k" * 1000
        keys = [b"t/a", b"t/A", b"t/a ", b"t/\xc3\xa9", b"t/e", b"t/'\"\\%s", b"//", long, long + b"1", long + b"2"]
        for key in keys:
            assert face.acquire(ask(key)) == Got(1)
        assert [row.key for row in face.list()] == sorted(keys)
        for key in (b"t/\xff", b"t", b"/"):
            with pytest.raises(BadKey, match="over gRPC a key"):
                face.acquire(ask(key))

    def test_the_list_tells_all_of_a_row_and_shows_what_has_lapsed(self, face: Any) -> None:
        """What has lapsed is no claim any more, so that there is nothing to show."""
        held, dead = ask(b"b/held"), ask(b"a/dead", lease_us=BLINK_US)
        for asked in (held, dead):
            face.acquire(asked)
        await_lapse(face, dead.key)
        (row,) = face.list()
        assert (row.key, row.lapsed, row.fence) == (held.key, False, 1)
        assert row.holder == {**held.holder, "id": held.lock_id}
        assert (row.node, row.pid, row.process, row.lock_id) == (held.node, held.pid, held.process, held.lock_id)
        assert 0 <= row.age_us < LEASE_US

    def test_a_free_lock_is_got_and_a_held_one_tells_by_whom(self, face: Any) -> None:
        first = ask()
        assert face.acquire(first) == Got(1)
        taken = face.acquire(ask(again=True))
        assert isinstance(taken, Taken)
        assert taken.holder == {**first.holder, "id": first.lock_id}
        assert 0 < taken.left_us <= LEASE_US
        assert gone(face, ask()) is False
        assert face.refresh([hold_of(first)], LEASE_US) == [True]


class TestGrpcInLoop(TestGrpc):
    how = InLoop


def test_a_lease_begins_again_when_it_is_asked_for_again(house: GrpcHouse) -> None:
    """Whoever asks again counts its lease from then: the server must not count from before."""
    with Blocking(house.url) as face:
        asked = ask(lease_us=LEASE_US)
        face.acquire(ask(asked.key, lock_id=asked.lock_id, lease_us=1_000_000))
        assert face.acquire(asked) == Got(1)
        (row,) = face.list()
        assert row.left_us > LEASE_US // 2


def test_a_child_of_a_fork_has_a_channel_of_its_own(house: GrpcHouse) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS, house.url],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "child Got(fence=1)\nparent [True]\n"), done.stderr


@pytest.mark.parametrize("opening", [open_backend, open_async_backend])
def test_without_the_package_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, opening: Any) -> None:
    monkeypatch.delitem(sys.modules, "holdfast.leases.grpc_channels", raising=False)
    monkeypatch.delattr("holdfast.leases.grpc_channels", raising=False)
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(ConfigError) as refused:
        opening("grpc://secret@127.0.0.1:1")
    assert INSTALL in str(refused.value)
    assert "secret" not in str(refused.value)
