"""How leases are spelled over gRPC: the agreement with leases.proto, and what requests may say.

What is granted is tested behind the door.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import holdfast.wire
from holdfast.leases.words import HOLDER_BYTES_MAX, LEASE_SECONDS, key_of
from holdfast.wire import grpc_leases as wire
from holdfast.wire.grpc_leases import METHODS, Refusal, failure
from holdfast.wire.protobuf import Type, places
from holdfast.words import EX, RESIDENT, UNLIMITED, Answer, Claim, Holder

PROTO = (Path(holdfast.wire.__file__).parent / "leases.proto").read_text(encoding="utf-8")
ID = "a" * 16


def claim(about: bytes = b"", *, session: int = RESIDENT, owner: bytes = b"") -> Claim:
    made = Claim(b"lock:cluster/", EX, 1, UNLIMITED, 1, 0, False)
    made.about, made.session, made.owner = about, session, owner
    return made


def test_the_proto_file_says_what_the_messages_are() -> None:
    told = {
        name: re.findall(r"^  (?:(repeated) )?(\w+) (\w+) = (\d+);", body, re.MULTILINE)
        for name, body in re.findall(r"^message (\w+) \{\n(.*?)^\}", PROTO, re.MULTILINE | re.DOTALL)
    }
    kinds = {kind for method in METHODS.values() for kind in (method.request, method.reply)}
    kinds |= {place.of for kind in kinds for place in places(kind).values() if place.of is not None}
    assert set(told) == {kind.__name__ for kind in kinds}
    for kind in kinds:
        expected = []
        for name, place in places(kind).items():
            spelled = place.holds.value.split()[-1] if place.holds is not Type.MESSAGES else place.of.__name__
            expected.append(("repeated" if "repeated" in place.holds.value else "", spelled, name, str(place.number)))
        assert told[kind.__name__] == expected


def test_the_proto_file_says_what_the_calls_are() -> None:
    told = re.findall(r"^  rpc (\w+)\((\w+)\) returns \((\w+)\);", PROTO, re.MULTILINE)
    assert told == [(name, method.request.__name__, method.reply.__name__) for name, method in METHODS.items()]
    assert f"package {wire.PACKAGE};" in PROTO
    assert f"service {wire.SERVICE.removeprefix(wire.PACKAGE + '.')} {{" in PROTO


def test_the_numbers_of_shaken_fist_stay_as_they_are() -> None:
    """As its database.proto has them: its clients must find what they know."""
    numbers = {
        kind.__name__: {name: place.number for name, place in places(kind).items() if place.number < 100}
        for method in wire.ORIGINAL_METHODS.values()
        for kind in (method.request, method.reply)
    }
    key = {"object_type": 1, "subtype": 2, "name": 3}
    assert numbers == {
        "ClusterLockRequest": {**key, "lock_data": 4},
        "ClusterLockReply": {"acquired": 1},
        "ClusterReleaseLockRequest": {**key, "lock_data": 4},
        "ClusterRefreshLockRequest": {**key, "lock_id": 4},
        "StatusReply": {"success": 1, "error": 2},
        "ClusterGetLockHolderRequest": key,
        "ClusterLockHolderReply": {"held": 1, "holder": 2},
        "ClusterClearStaleLocksRequest": {"node_name": 1, "live_pids": 2},
        "ClusterGetExistingLocksRequest": {},
        "ClusterGetExistingLocksReply": {"locks": 1},
    }
    assert {name: place.number for name, place in places(wire.ClusterLockEntry).items() if place.number < 100} == {
        "key": 1,
        "holder": 2,
    }


def test_the_two_sides_agree_on_keys_leases_and_limits() -> None:
    for parts in [("cluster", "", ""), ("a", "b", "c"), ("a", "", "c"), ("a", "b", ""), ("ä/b", "c", "d/e")]:
        assert wire.name_of(*parts) == key_of(*parts)
    assert wire.LEASE_MS_DEFAULT == LEASE_SECONDS * 1000
    assert wire.LOCK_DATA_BYTES_MAX >= HOLDER_BYTES_MAX


@pytest.mark.parametrize("parts", [("", "b", "c"), ("a", "", "x" * 1018), ("a", "", "\0")])
def test_a_key_that_no_lock_can_have_is_refused(parts: tuple[str, str, str]) -> None:
    with pytest.raises(Refusal) as refused:
        wire.name_of(*parts)
    assert (refused.value.code, refused.value.status) == ("bad_request", "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    "given",
    [
        "",
        "[]",
        "{}",
        '{"id": 5}',
        '{"id": ""}',
        json.dumps({"id": "x" * 65}),
        '{"id": "a\\nb"}',
        '{"id": "\\ud800"}',
        '{"id": "x", "pid": "5"}',
        '{"id": "x", "pid": -1}',
        '{"id": "x", "pid": 2147483648}',
        '{"id": "x", "node": 5}',
        "{" * 9000,
        "[" * 8000,
    ],
)
def test_lock_data_that_names_nobody_is_refused(given: str) -> None:
    with pytest.raises(Refusal) as refused:
        wire.read_lock_data(given)
    assert refused.value.status == "INVALID_ARGUMENT"


def test_lock_data_may_say_more_than_we_read() -> None:
    told = {"node": "sf-7", "pid": 26407, "thread": 1, "line": "x:1", "operation": None, "id": ID, "more": [1]}
    data = wire.read_lock_data(json.dumps(told))
    assert (data.id, data.node, data.pid, data.operation) == (ID, "sf-7", 26407, None)


def test_numbers_have_limits() -> None:
    assert wire.lease_ns_of(0) == 60_000_000_000
    assert wire.lease_ns_of(1) == 1_000_000
    assert wire.wait_ns_of(10**12) == wire.WAIT_MS_MAX * 1_000_000
    for refused in (lambda: wire.lease_ns_of(-1), lambda: wire.lease_ns_of(wire.LEASE_MS_MAX + 1)):
        with pytest.raises(Refusal, match="lease_ms"):
            refused()
    with pytest.raises(Refusal, match="wait_ms"):
        wire.wait_ns_of(-1)
    assert wire.process_of("boot:1") == "boot:1"
    with pytest.raises(Refusal, match="process"):
        wire.process_of("x" * 257)


def test_a_ticket_tells_locks_and_ids_apart() -> None:
    tickets = {wire.ticket_of(name, id_) for name in (b"a/", b"a/b") for id_ in ("x", "y")}
    assert len(tickets) == 4
    assert wire.ticket_of(b"a/", "x") in tickets


def test_what_a_holder_said_is_shown_word_by_word() -> None:
    told = f'{{"operation":  "Übung", "node": "sf-7", "pid": 1, "id": "{ID}"}}'
    held = claim()
    wire.introduce(held, wire.read_lock_data(told), lock_data=told, process="boot:1", peer="10.0.0.1:5")
    assert wire.holder_json(Holder(held)) == told
    assert held.owner == b"sf-7:1"
    about = wire.told_by(held)
    assert about is not None
    assert (about.id, about.host, about.pid, about.process, about.peer) == (ID, "sf-7", 1, "boot:1", "10.0.0.1:5")
    wire.introduce(held, wire.read_lock_data(f'{{"id": "{ID}"}}'), lock_data="{}", process="", peer="")
    assert held.owner == b"grpc:?"


@pytest.mark.parametrize(
    ("held", "node", "pid", "operation"),
    [
        (claim(b'{"door":"line","peer":"10.0.0.1:5"}', session=4), "10.0.0.1:5", None, "over the line door"),
        (claim(b'{"door":"native","host":"h","pid":7,"operation":"o"}', session=4, owner=b"c@h:7"), "h", 7, "o"),
        (claim(owner=b"w1"), "w1", None, "w1"),
        (claim(b"no JSON", session=9), "session/9", None, "over the http door"),
        (claim(b'{"door":"grpc","id":"x","lock_data":"{}"}', session=9), "session/9", None, "over the grpc door"),
    ],
)
def test_a_holder_of_another_door_is_shown_in_words_that_readers_know(
    held: Claim, node: str, pid: int | None, operation: str
) -> None:
    shown: dict[str, Any] = json.loads(wire.holder_json(held))
    assert wire.told_by(held) is None
    assert shown == {"node": node, "pid": pid, "thread": None, "line": None, "operation": operation, "id": None}


def test_a_key_that_is_no_text_can_still_be_shown() -> None:
    assert wire.shown_name(b"lock:a\xff") == "a\\xff"


def test_no_failure_is_called_by_a_name_that_means_busy_or_lost() -> None:
    for answer in Answer:
        refusal = failure(answer)
        assert refusal.status in ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL")
    assert failure(Answer.STORE_BUSY).status == "UNAVAILABLE"
    assert failure(Answer.BUSY).status == "INTERNAL"  # it is an answer, so nobody asks for its failure
