"""A lock server as small as it gets, in the loop of a test: LockServer's acquire and release over HTTP, honest or not.

Leases run by the monotonic clock. What it gets wrong is said by who starts it; no test lives here.
"""

import asyncio
import json
from contextlib import asynccontextmanager
from time import monotonic_ns

MILLISECOND = 1_000_000

HONEST = ""
GRANTS_TWICE = "grants what is held"
REPEATS_TOKENS = "gives the same token again"
FALLS = "gives tokens that fall"


class SmallServer:
    """The locks; one HTTP request at a time comes in, and one answer goes out."""

    def __init__(self, sin=HONEST):
        self.sin = sin
        self.port = 0
        self.requests = []
        self.heads = []
        self.connections = 0
        self.token = 1000 if sin == FALLS else 0
        self.held = {}  # by lock: token, until
        self.script = []  # raw answers that go before everything else; None hangs up

    async def connected(self, reader, writer):
        self.connections += 1
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
                body = json.loads(await reader.readexactly(length))
                path = head.split(" ")[1]
                self.heads.append(head)
                self.requests.append((path, body))
                answer = self.script.pop(0) if self.script else self.answer(path, body)
                if answer is None:
                    break
                writer.write(answer)
        except (EOFError, ConnectionError):
            pass
        finally:
            writer.close()

    def answer(self, path, body):
        _, _, _, lock, action = path.split("/")
        return self.acquire(lock, body) if action == "acquire" else self.release(lock, body)

    def acquire(self, lock, body):
        now = monotonic_ns()
        token, until = self.held.get(lock, (0, 0))
        if until > now and self.sin != GRANTS_TWICE:
            return response(409, {"acquired": False, "recommended_retry_ms": 2, "reason": "HELD"})
        if self.sin == FALLS:
            self.token -= 1
        elif self.sin != REPEATS_TOKENS or not token:
            self.token += 1
        self.held[lock] = (self.token, now + body["ttl_ms"] * MILLISECOND)
        return response(200, {"acquired": True, "lease_id": f"lease-{self.token}", "fencing_token": self.token})

    def release(self, lock, body):
        token, until = self.held.get(lock, (0, 0))
        done = token == body["fencing_token"] and until > monotonic_ns()
        if done:
            self.held[lock] = (token, 0)
        return response(200, {"released": done or self.sin == GRANTS_TWICE})


def response(status, value, *, headers=""):
    """Spell an answer."""
    return raw(status, json.dumps(value).encode() + b"\n", headers=headers)


def raw(status, body, *, headers=""):
    return f"HTTP/1.1 {status} Whatever\r\n{headers}CONTENT-LENGTH: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def serving(sin=HONEST):
    """Serve for as long as the block lasts."""
    small = SmallServer(sin)
    server = await asyncio.start_server(small.connected, "127.0.0.1", 0)
    small.port = server.sockets[0].getsockname()[1]
    async with server:
        yield small
        # The handlers of connections that were hung up end in the next rounds of the loop.
        await asyncio.sleep(0)


@asynccontextmanager
async def reciting(*answers):
    """Be a server that gives these answers, whatever it is sent, and keeps the connection; None hangs up."""
    heard, left = [], list(answers)

    async def connected(reader, writer):
        try:
            while request := await reader.read(65_536):
                heard.append(request)
                answer = left.pop(0) if left else None
                if answer is None:
                    break
                writer.write(answer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], heard
        await asyncio.sleep(0)
