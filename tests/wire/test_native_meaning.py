"""What requests of the native protocol mean to the service: keys, claims, proofs, and who asks."""

import json
from typing import Any

import pytest

from holdfast.wire import native
from holdfast.wire.native import BadRequest
from holdfast.wire.native_meaning import (
    Who,
    check_absent,
    claim_of,
    cursor_of,
    key_of,
    look_at,
    looks_over,
    proof_of,
    read_cursor,
    renewal_of,
    span_ns,
    value_of,
)
from holdfast.words import CR, CW, EX, FOREVER, PR, SECOND, UNLIMITED, Claim, Group

TICKET = "a-ticket-of-16-c"
TOKEN = "0123456789abcdef" * 2
NOBODY = Who(native.Hello(version=1))
LEASE_NS = 33 * SECOND


def acquire(**fields: Any) -> native.Acquire:
    return native.Acquire(id=1, ticket=TICKET, **fields)


def claim(ask: native.Acquire | native.Enqueue, who: Who = NOBODY) -> Claim:
    made = claim_of(ask, who, LEASE_NS)
    assert isinstance(made, Claim)
    return made


def refused(ask: native.Acquire, who: Who = NOBODY) -> str:
    with pytest.raises(BadRequest) as caught:
        claim_of(ask, who, LEASE_NS)
    return caught.value.detail


# --- keys, times, values, proofs ---


@pytest.mark.parametrize(
    ("name", "kind", "key"),
    [
        ("job", None, b"lock:job"),
        ("job", "lock", b"lock:job"),
        ("pool", "semaphore", b"sem:pool"),
        ("ä", None, "lock:ä"),
    ],
)
def test_a_key_is_a_name_in_one_of_two_spaces(name: str, kind: str | None, key: bytes | str) -> None:
    assert key_of(name, kind) == (key.encode() if isinstance(key, str) else key)


@pytest.mark.parametrize(("name", "count"), [("", 0), ("a" * 1025, 1025), ("ä" * 513, 1026)])
def test_a_key_has_1_to_1024_bytes(name: str, count: int) -> None:
    assert key_of("ä" * 512, None) == b"lock:" + "ä".encode() * 512
    with pytest.raises(BadRequest, match=f"^prefix: has {count} bytes; a key has 1 to 1024$"):
        key_of(name, None, "prefix")


def test_times_are_milliseconds_and_none_is_for_ever() -> None:
    assert [span_ns(None), span_ns(0), span_ns(1500)] == [FOREVER, 0, 1_500_000_000]


def test_a_value_is_up_to_64_bytes_in_base64() -> None:
    assert value_of(None) is None
    assert value_of("") == b""
    assert value_of("AAEC") == b"\0\1\2"
    for text, said in (("AA", "not base64"), ("ä", "not base64"), ("AAEC\n", "not base64")):
        with pytest.raises(BadRequest, match=f"^value: {said}$"):
            value_of(text)
    with pytest.raises(BadRequest, match=r"^value: has 66 bytes; at most 64 are kept$"):
        value_of("AAEC" * 22)


def test_a_claim_is_proved_by_key_and_token_where_there_is_no_ticket() -> None:
    assert proof_of("pool", TOKEN, "semaphore") == (b"sem:pool", TOKEN.encode())
    for name, token, field in (("pool", None, "token"), (None, TOKEN, "key"), (None, None, "key")):
        with pytest.raises(BadRequest, match=f"^{field}: missing, as there is no ticket$"):
            proof_of(name, token, None)


def test_what_means_nothing_is_refused() -> None:
    ask = native.End(id=1, ticket=TICKET, kind="lock")
    check_absent(ask, "ticket", "key", "token")
    with pytest.raises(BadRequest, match=r"^kind: means nothing beside ticket$"):
        check_absent(ask, "ticket", "key", "token", "kind")


def test_a_renewal_of_a_batch() -> None:
    renewal = renewal_of(native.Renewal(key="pool", token=TOKEN, kind="semaphore"), 0, LEASE_NS)
    assert (renewal.key, renewal.token, renewal.lease_ns) == (b"sem:pool", TOKEN.encode(), LEASE_NS)
    assert renewal_of(native.Renewal(key="a", token=TOKEN, lease_ms=1), 0, LEASE_NS).lease_ns == 1_000_000
    with pytest.raises(BadRequest, match=r"^claims\[7\].key: has 0 bytes"):
        renewal_of(native.Renewal(key="", token=TOKEN), 7, LEASE_NS)


# --- who asks ---


def test_whoever_says_nothing_is_shown_as_nobody() -> None:
    assert NOBODY.owner == b""
    assert json.loads(NOBODY.about) == {"door": "native"}
    assert NOBODY.introduce(native.About(task="t1"))[0] == b"t1"
    assert Who(native.Hello(version=1, pid=7)).owner == b"?@?:7"


def test_whoever_introduces_itself_is_shown_with_its_part() -> None:
    who = Who(native.Hello(version=1, client="billing", host="web-1", pid=0))
    assert who.introduce(None) == (b"billing@web-1:0", who.about)
    owner, about = who.introduce(native.About(thread="main", operation="month end"))
    assert owner == b"billing@web-1:0/main"
    assert json.loads(about) == {
        "client": "billing",
        "host": "web-1",
        "pid": 0,
        "door": "native",
        "thread": "main",
        "operation": "month end",
    }
    assert who.introduce(native.About(thread="main", task="t1"))[0] == b"billing@web-1:0/t1"
    assert who.introduce(native.About(operation="x"))[0] == b"billing@web-1:0"


def test_what_is_shown_is_short() -> None:
    with pytest.raises(BadRequest, match=r"^meta\.operation: at most 256 bytes$"):
        NOBODY.introduce(native.About(operation="x" * 257))
    with pytest.raises(BadRequest, match=r"^meta\.thread: no control characters$"):
        NOBODY.introduce(native.About(thread="a\x7f"))
    quotes = native.About(thread='"' * 128, task='"' * 128, operation='"' * 256, traceparent='"' * 64)
    with pytest.raises(BadRequest, match=r"^meta: with client and host, at most 1024 bytes as JSON$"):
        NOBODY.introduce(quotes)


# --- claims ---


def test_a_lock_is_exclusive_unless_said_otherwise() -> None:
    made = claim(acquire(key="job"))
    assert (made.key, made.want, made.units, made.limit) == (b"lock:job", EX, 1, UNLIMITED)
    assert (made.lease_ns, made.patience_ns, made.queue, made.tracked) == (LEASE_NS, FOREVER, True, False)
    assert (made.ticket, made.owner, made.about, made.refuses) == (TICKET.encode(), NOBODY.owner, NOBODY.about, False)
    assert made.listens  # whoever has a session wants to hear how its claims end


def test_a_semaphore_gives_seats() -> None:
    made = claim(acquire(key="pool", limit=4, units=2, mode="CR", lease_ms=1, patience_ms=0, deadlock="refuse"))
    assert (made.key, made.want, made.units, made.limit) == (b"sem:pool", CR, 2, 4)
    assert (made.lease_ns, made.patience_ns, made.queue, made.refuses) == (1_000_000, 0, False, True)
    assert claim(acquire(key="pool", limit=4)).want == CW


def test_what_is_enqueued_waits_for_ever_and_blocks_nobody() -> None:
    made = claim(native.Enqueue(id=1, ticket=TICKET, key="job", mode="PR"))
    assert (made.want, made.patience_ns, made.queue, made.tracked) == (PR, FOREVER, True, True)


def test_a_group_is_several_claims_with_one_patience() -> None:
    keys = [native.Member(key="a"), native.Member(key="a", limit=2, units=2)]
    group = claim_of(acquire(keys=keys, patience_ms=500, deadlock="refuse"), NOBODY, LEASE_NS)
    assert isinstance(group, Group)
    assert (group.ticket, group.patience_ns, group.queue, group.tracked) == (TICKET.encode(), SECOND // 2, True, False)
    assert group.refuses
    assert [member.key for member in group.claims] == [b"lock:a", b"sem:a"]
    assert [member.ticket for member in group.claims] == [f"{TICKET}#0".encode(), f"{TICKET}#1".encode()]
    assert {member.owner for member in group.claims} == {NOBODY.owner}


TWO = [native.Member(key="a"), native.Member(key="b")]


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (acquire(), "key: missing"),
        (acquire(key=""), "key: has 0 bytes; a key has 1 to 1024"),
        (acquire(key="a", units=2), "units: only where there is a limit"),
        (acquire(keys=TWO, key="a"), "key: belongs to the members of keys"),
        (acquire(keys=TWO, mode="EX"), "mode: belongs to the members of keys"),
        (acquire(keys=TWO, limit=2), "limit: belongs to the members of keys"),
        (acquire(keys=TWO, units=2), "units: belongs to the members of keys"),
        (acquire(keys=[native.Member(key="a")] * 2), "keys: each may be named once"),
        (acquire(keys=[TWO[0], native.Member(key="b", units=2)]), "keys[1].units: only where there is a limit"),
        (acquire(keys=[TWO[0], native.Member(key="")]), "keys[1].key: has 0 bytes; a key has 1 to 1024"),
        (native.Acquire(id=1, ticket=TICKET + "#0", keys=TWO), "ticket: of a group, without #"),
    ],
)
def test_what_makes_no_claim_is_refused(ask: native.Acquire, said: str) -> None:
    assert refused(ask) == said


# --- looks ---


def test_a_look_at_one_key_shows_who_waits() -> None:
    look = look_at(native.Look(id=1, key="pool", kind="semaphore"))
    assert (look.key, look.deep) == (b"sem:pool", True)
    with pytest.raises(BadRequest, match=r"^held: means nothing beside key$"):
        look_at(native.Look(id=1, key="pool", held=True))


def test_a_look_over_many_keys_asks_for_one_more_than_it_shows() -> None:
    locks, seats = looks_over(native.Look(id=1))
    assert (locks.prefix, seats.prefix, locks.after, locks.count, locks.held) == (b"lock:", b"sem:", b"", 1001, None)
    (only,) = looks_over(native.Look(id=1, kind="semaphore", prefix="a", after="sem:a%FF", count=5, held=False))
    assert (only.prefix, only.after, only.count, only.held) == (b"sem:a", b"sem:a\xff", 6, False)
    assert looks_over(native.Look(id=1, kind="lock"))[0].prefix == b"lock:"


def test_a_place_between_keys_can_be_spelled_whatever_the_key() -> None:
    key = b"lock:" + bytes(range(256))
    assert read_cursor(cursor_of(key)) == key
    with pytest.raises(BadRequest, match=r"^after: is not what next was$"):
        read_cursor("job")
