"""A caller's one connection: opened when needed, kept, and thrown away after any trouble.

What is sent over it is tested with the doors' own callers.
"""

import asyncio

import pytest

from holdfast.cli import load_caller
from holdfast.cli.load_caller import ANSWER_BYTES_MAX, BadAnswer, Caller
from tests.cli.small_server import reciting


class Plain(Caller):
    """Asks what the test wants to ask."""

    async def acquire(self, lock, ttl_ns):
        raise NotImplementedError

    async def release(self, lock, grant):
        raise NotImplementedError

    async def line(self, request=b"ask\n"):
        return await self.ask(request, lambda reader: reader.readuntil(b"\n"))


def run(answers, story):
    async def main():
        async with reciting(*answers) as (port, heard):
            caller = Plain("127.0.0.1", port, "c-0")
            try:
                return await story(caller), heard
            finally:
                caller.close()

    return asyncio.run(main())


def test_a_connection_is_opened_once_and_used_again():
    async def story(caller):
        first = caller._streams
        answers = [await caller.line(), await caller.line()]
        return first, answers

    (before, answers), heard = run([b"one\n", b"two\n"], story)
    assert before is None
    assert answers == [b"one\n", b"two\n"]
    assert heard == [b"ask\n", b"ask\n"]


@pytest.mark.parametrize(
    ("answer", "error"), [(None, EOFError), (b"x" * (ANSWER_BYTES_MAX + 1), BadAnswer), (b"no end", TimeoutError)]
)
def test_after_trouble_the_next_request_gets_a_new_connection(answer, error, monkeypatch):
    monkeypatch.setattr(load_caller, "ANSWER_S_MAX", 0.2)

    async def story(caller):
        with pytest.raises(error):
            await caller.line()
        assert caller._streams is None
        return await caller.line()

    again, _ = run([answer, b"again\n"], story)
    assert again == b"again\n"


def test_nobody_there_is_an_error_of_the_connection():
    async def main():
        async with reciting() as (port, _):
            pass
        with pytest.raises(OSError, match="Connect call failed"):
            await Plain("127.0.0.1", port, "c-0").line()

    asyncio.run(main())


def test_hanging_up_twice_is_hanging_up():
    async def story(caller):
        await caller.line()
        caller.close()
        caller.close()

    run([b"one\n"], story)
