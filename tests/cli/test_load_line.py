"""The caller at the line door, with a real server on the other side.

Odd answers, which a real server does not give, are recited.
"""

import asyncio

import pytest

from holdfast.cli.load_caller import BadAnswer, Grant, Refusal
from holdfast.cli.load_line import LineCaller, whole_seconds
from holdfast.testing.process import ServerProcess
from tests.cli.small_server import reciting

TTL = 5_000_000_000
TOKEN = "00000000000000ff" + "0123456789abcdef"


def test_a_lock_goes_from_one_caller_to_the_next_with_a_higher_token(tmp_path):
    async def story(port):
        one, other = LineCaller("127.0.0.1", port, "c-1"), LineCaller("127.0.0.1", port, "c-2")
        first = await one.acquire("job", TTL)
        waiting = asyncio.ensure_future(other.acquire("job", TTL))
        await asyncio.sleep(0)
        released = [await one.release("job", first)]
        second = await waiting
        released += [await one.release("job", first), await other.release("job", second)]
        one.close()
        other.close()
        return first, second, released

    arguments = ("serve", "--store", "memory:", "--http", "off", "--line", "127.0.0.1:0")
    with ServerProcess(*arguments, log=tmp_path / "log") as server:
        first, second, released = asyncio.run(story(server.port))
    assert released == [True, False, True]
    assert second.token > first.token
    assert first.proof.startswith(f"{first.token:016x}")


def recited(answer, ask):
    async def main():
        async with reciting(answer) as (port, heard):
            caller = LineCaller("127.0.0.1", port, "c-1")
            try:
                return await ask(caller), heard
            finally:
                caller.close()

    return asyncio.run(main())


def test_an_acquire_waits_in_the_queue_for_a_second_and_counts_leases_in_whole_seconds():
    answer, heard = recited(f"ok {TOKEN} 1\n".encode(), lambda caller: caller.acquire("job", 800_000_000))
    assert heard == [b"l\njob\n1 1\n"]
    assert answer == Grant(255, TOKEN)


def test_a_time_out_is_a_refusal():
    assert recited(b"timeout\n", lambda caller: caller.acquire("job", TTL))[0] == Refusal()


def test_a_release_shows_the_token():
    done, heard = recited(b"error\n", lambda caller: caller.release("job", Grant(255, TOKEN)))
    assert (done, heard) == (False, [f"r\njob\n{TOKEN}\n".encode()])


@pytest.mark.parametrize("answer", [b"error_max_locks\n", b"ok\n", b"ok token 5\n", b"\xff\n", b"x" * 70_000])
def test_an_answer_that_cannot_be_is_trouble_and_no_grant(answer):
    with pytest.raises(BadAnswer):
        recited(answer, lambda caller: caller.acquire("job", TTL))


@pytest.mark.parametrize("answer", [b"timeout\n", b"ok 5\n", b"error_draining\n"])
def test_a_release_is_answered_with_ok_or_error_or_it_is_trouble(answer):
    with pytest.raises(BadAnswer):
        recited(answer, lambda caller: caller.release("job", Grant(255, TOKEN)))


@pytest.mark.parametrize(("ns", "seconds"), [(0, 1), (1, 1), (10**9, 1), (10**9 + 1, 2), (10**10, 10)])
def test_a_lease_is_rounded_up(ns, seconds):
    assert whole_seconds(ns) == seconds
