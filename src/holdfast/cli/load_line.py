"""A caller at the line door: three lines ask, one line answers.

It waits in the queue for a second instead of asking again and again, because this door can make it wait.
"""

import asyncio
import re

from holdfast.cli.load_caller import BadAnswer, Caller, Grant, Refusal

SECOND = 1_000_000_000
PATIENCE_S = 1

# A token begins with the fence that it was granted with.
FENCE_DIGITS = 16
_GRANT = re.compile(r"ok ([0-9a-f]{32}) \d+\n")


class LineCaller(Caller):
    """Acquires with `l` and releases with `r` over one connection."""

    async def acquire(self, lock: str, ttl_ns: int) -> Grant | Refusal:
        answer = await self._call("l", lock, f"{PATIENCE_S} {whole_seconds(ttl_ns)}")
        if granted := _GRANT.fullmatch(answer):
            return Grant(int(granted[1][:FENCE_DIGITS], 16), granted[1])
        if answer == "timeout\n":
            return Refusal()
        raise BadAnswer(f"l: {answer!r}")

    async def release(self, lock: str, grant: Grant) -> bool:
        answer = await self._call("r", lock, grant.proof)
        if answer not in ("ok\n", "error\n"):
            raise BadAnswer(f"r: {answer!r}")
        return answer == "ok\n"

    async def _call(self, command: str, key: str, arg: str) -> str:
        answer = await self.ask(f"{command}\n{key}\n{arg}\n".encode(), _read_line)
        return answer.decode("utf-8", "replace")


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\n")


def whole_seconds(ns: int) -> int:
    """Round up to the whole seconds in which this door counts."""
    return max(1, -(-ns // SECOND))
