"""A backend over gRPC: leases at a server of ours, or, with less to be had, at one of Shaken Fist.

What is asked is in `grpc_calls.py`, and how it gets there in `grpc_channels.py`.
"""

import asyncio
import builtins
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.errors import ConfigError
from holdfast.leases.grpc_calls import Operations, Steps
from holdfast.leases.grpc_url import GrpcPlace, grpc_place_of
from holdfast.leases.words import Ask, Got, Hold, Row, Taken

if TYPE_CHECKING:
    from holdfast.leases.grpc_channels import AsyncChannel, Channel

INSTALL: Final = "pip install 'holdfast[grpc]'"

T = TypeVar("T")


def open_backend(url: str) -> "GrpcBackend":
    """Open what a URL names. Nothing is connected before it is first asked for something."""
    place = grpc_place_of(url)
    return GrpcBackend(place, _channels(place).Channel(place))


def open_async_backend(url: str) -> "AsyncGrpcBackend":
    """Open the same for asyncio."""
    place = grpc_place_of(url)
    return AsyncGrpcBackend(place, _channels(place).AsyncChannel(place))


def _channels(place: GrpcPlace) -> Any:
    try:
        from holdfast.leases import grpc_channels
    except ImportError as error:
        raise ConfigError(f"{place.shown} needs a package that is not installed: {INSTALL}") from error
    return grpc_channels


class GrpcBackend:
    """For threads, and after a fork."""

    def __init__(self, place: GrpcPlace, channel: "Channel") -> None:
        self.shown = place.shown
        self._operations = Operations(place)
        self._channel = channel

    def _run(self, steps: Steps[T]) -> T:
        try:
            calls = next(steps)
            while True:
                calls = steps.send(self._channel.call(calls))
        except StopIteration as done:
            value: T = done.value
            return value

    def acquire(self, ask: Ask) -> Got | Taken:
        return self._run(self._operations.acquire(ask))

    def refresh(self, holds: Sequence[Hold], lease_us: int) -> list[bool]:
        return self._run(self._operations.refresh(holds, lease_us))

    def release(self, holds: Sequence[Hold]) -> list[bool]:
        return self._run(self._operations.release(holds))

    def list(self) -> Sequence[Row]:
        return self._run(self._operations.list())

    def look(self, key: bytes) -> Row | None:
        return self._run(self._operations.look(key))

    def clear(self, holds: Sequence[Hold]) -> int:
        return self._run(self._operations.clear(holds))

    def now(self) -> int:
        return self._run(self._operations.now())

    def wait(self, key: bytes, seconds: float) -> None:
        self._channel.closing.wait(seconds)

    def prepare(self) -> builtins.list[str]:
        """There is no table to be made; see that there is a server."""
        self.verify()
        return []

    def verify(self) -> None:
        """Raise unless there is a server that lets us in."""
        self._run(self._operations.verify())

    def close(self) -> None:
        self._channel.close()


class AsyncGrpcBackend:
    """For the event loop in which it is first used."""

    def __init__(self, place: GrpcPlace, channel: "AsyncChannel") -> None:
        self.shown = place.shown
        self._operations = Operations(place)
        self._channel = channel

    async def _run(self, steps: Steps[T]) -> T:
        try:
            calls = next(steps)
            while True:
                calls = steps.send(await self._channel.call(calls))
        except StopIteration as done:
            value: T = done.value
            return value

    async def acquire(self, ask: Ask) -> Got | Taken:
        return await self._run(self._operations.acquire(ask))

    async def refresh(self, holds: Sequence[Hold], lease_us: int) -> list[bool]:
        return await self._run(self._operations.refresh(holds, lease_us))

    async def release(self, holds: Sequence[Hold]) -> list[bool]:
        return await self._run(self._operations.release(holds))

    async def list(self) -> Sequence[Row]:
        return await self._run(self._operations.list())

    async def look(self, key: bytes) -> Row | None:
        return await self._run(self._operations.look(key))

    async def clear(self, holds: Sequence[Hold]) -> int:
        return await self._run(self._operations.clear(holds))

    async def now(self) -> int:
        return await self._run(self._operations.now())

    async def wait(self, key: bytes, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._channel.closing.wait()

    async def prepare(self) -> builtins.list[str]:
        """There is no table to be made; see that there is a server."""
        await self.verify()
        return []

    async def verify(self) -> None:
        """Raise unless there is a server that lets us in."""
        await self._run(self._operations.verify())

    async def close(self) -> None:
        await self._channel.close()
