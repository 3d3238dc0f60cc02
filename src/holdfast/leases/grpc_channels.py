"""Channels of gRPC, blocking and not: how the calls of a round are made, and when a channel is given up for a new one.

What is called, and what an answer means, is in `grpc_calls.py`. This module needs the package grpcio.
"""

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakSet

import grpc

from holdfast.client.process import on_fork
from holdfast.errors import ConfigError
from holdfast.leases.grpc_calls import Calls
from holdfast.leases.grpc_rounds import Round
from holdfast.leases.grpc_url import GrpcPlace, read_file
from holdfast.wire.grpc_leases import CODE_KEY

REPLY_BYTES_MAX: Final = 64 << 20
# Half of the time in which a holder has to find out that its server is gone.
KEEPALIVE_MS: Final = 10_000

OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),  # else a new channel would share the broken connection of an old one
    ("grpc.max_receive_message_length", REPLY_BYTES_MAX),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_MS // 2),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_retries", 0),  # what may be asked again, and for how long, is decided here
    ("grpc.enable_http_proxy", 0),  # a proxy that is meant for web pages is no way to a lock
)

# What a broken channel ends with. The server may say UNAVAILABLE too, with a code of ours beside it.
BROKEN: Final = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"})

# How much longer than its deadline a call may take to tell that it is over.
GRACE_S: Final = 1.0


class Way:
    """What both kinds of channels know of the way to a server."""

    def __init__(self, place: GrpcPlace) -> None:
        self._place = place
        self.metadata: Sequence[tuple[str, str]] = ()
        if place.token is not None:
            self.metadata = (("authorization", f"Bearer {place.token}"),)
        self._credentials = None
        if place.secure:
            self._credentials = grpc.ssl_channel_credentials(
                root_certificates=read_file("ca", place.ca),
                private_key=read_file("key", place.key),
                certificate_chain=read_file("cert", place.cert),
            )

    @property
    def shown(self) -> str:
        return self._place.shown

    def path(self, name: str) -> str:
        """Spell a call."""
        return f"/{self._place.service}/{name}"

    def open(self, module: Any) -> Any:
        """Make a channel, of the module grpc or grpc.aio. It connects by itself, when it is first used."""
        if self._credentials is None:
            return module.insecure_channel(self._place.target, options=OPTIONS)
        try:
            return module.secure_channel(self._place.target, self._credentials, options=OPTIONS)
        except ValueError as error:
            raise ConfigError(f"{self.shown}: {error}") from error


class ChannelClosed(Exception):
    """Somebody has closed the channel while a call was under way."""


def is_broken(error: Any) -> bool:
    """Say whether a call failed on its way, so that another channel may fare better."""
    told = [key for key, _ in error.trailing_metadata() or ()]
    return error.code().name in BROKEN and CODE_KEY not in told


class Channel:
    """The way to a server for threads: one channel for all of them, made anew after a failure and after a fork."""

    def __init__(self, place: GrpcPlace) -> None:
        self._way = Way(place)
        self._rest()
        _channels.add(self)

    def _rest(self) -> None:
        self._lock = threading.Lock()
        self._channel: Any = None
        self.closing = threading.Event()

    def after_fork(self) -> None:
        """Begin anew: the lock may have been held, and the channel is the parent's. It is not closed, but left."""
        _left.append(self._channel)
        self._rest()

    def call(self, calls: Calls) -> list[Any]:
        """Make calls until all are answered."""
        going = Round(calls, self._way.shown, time.monotonic)
        while requests := going.next():
            self._try(going, requests)
            time.sleep(going.pause_s())
        return going.replies()

    def _try(self, going: Round, requests: Sequence[tuple[int, bytes]]) -> None:
        channel = self._open()
        ask = channel.unary_unary(self._way.path(going.name))
        try_s = going.try_s()
        under_way: list[Any] = []
        try:
            for _, data in requests:
                under_way.append(ask.future(data, timeout=try_s, metadata=self._way.metadata))
            for (at, _), one in zip(requests, under_way, strict=True):
                self._take(going, at, one, channel, try_s)
        except ValueError as error:  # another thread has closed it: nothing more can be asked through it
            self._drop(channel)
            going.failed("CANCELLED", str(error))
        finally:
            for one in under_way:
                one.cancel()

    def _take(self, going: Round, at: int, one: Any, channel: Any, try_s: float) -> None:
        try:
            going.took(at, one.result(timeout=try_s + GRACE_S))
        except grpc.FutureCancelledError:
            self._drop(channel)
            going.failed("CANCELLED", "the channel was closed")
        except grpc.FutureTimeoutError:
            self._drop(channel)
            going.failed("DEADLINE_EXCEEDED", "no answer, and no end of the call")
        except grpc.RpcError as error:
            if is_broken(error):
                self._drop(channel)
            going.failed(error.code().name, error.details() or "")

    def _open(self) -> Any:
        with self._lock:
            if self._channel is None:
                self._channel = self._way.open(grpc)
            return self._channel

    def _drop(self, channel: Any) -> None:
        """Give a channel up, unless somebody has done so before. Others may have calls on it still, which go on."""
        with self._lock:
            if self._channel is channel:
                self._channel = None

    def close(self) -> None:
        """Let go of the channel, and wake who waits. Whoever asks again connects again."""
        with self._lock:
            channel, self._channel = self._channel, None
            closing, self.closing = self.closing, threading.Event()
        if channel is not None:
            channel.close()
        closing.set()


# The channels of this process, and those that a parent had: to end one of these would end it there.
_channels: WeakSet[Channel] = WeakSet()
_left: list[Any] = []


def _after_fork() -> None:
    for channel in list(_channels):
        channel.after_fork()


on_fork(_after_fork)


class AsyncChannel:
    """The same for the event loop in which it is used."""

    def __init__(self, place: GrpcPlace) -> None:
        self._way = Way(place)
        self._channel: Any = None
        self.closing = asyncio.Event()

    async def call(self, calls: Calls) -> list[Any]:
        """Make calls until all are answered."""
        going = Round(calls, self._way.shown, time.monotonic)
        while requests := going.next():
            await self._try(going, requests)
            await asyncio.sleep(going.pause_s())
        return going.replies()

    async def _try(self, going: Round, requests: Sequence[tuple[int, bytes]]) -> None:
        if self._channel is None:
            self._channel = self._way.open(grpc.aio)
        channel = self._channel
        ask = channel.unary_unary(self._way.path(going.name))
        try_s = going.try_s()
        tasks = [asyncio.ensure_future(self._ask(ask, data, try_s)) for _, data in requests]
        try:
            for (at, _), one in zip(requests, tasks, strict=True):
                await self._take(going, at, one, channel)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, ask: Any, data: bytes, try_s: float) -> bytes:
        try:
            answer: bytes = await ask(data, timeout=try_s, metadata=self._way.metadata)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise ChannelClosed from None
        return answer

    async def _take(self, going: Round, at: int, one: "asyncio.Future[bytes]", channel: Any) -> None:
        try:
            going.took(at, await one)
        except (ChannelClosed, grpc.aio.UsageError):
            self._drop(channel)
            going.failed("CANCELLED", "the channel was closed")
        except grpc.aio.AioRpcError as error:
            if is_broken(error):
                self._drop(channel)
            going.failed(error.code().name, error.details() or "")

    def _drop(self, channel: Any) -> None:
        """Give a channel up, unless somebody has done so before. Others may have calls on it still, which go on."""
        if self._channel is channel:
            self._channel = None

    async def close(self) -> None:
        """Let go of the channel, and wake who waits."""
        closing, self.closing = self.closing, asyncio.Event()
        closing.set()
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()
