"""A stand-in for the original LockServer: it answers byte for byte as that one does, and can be told to misbehave.

Written from the description of its interface; no expectation lives here.
"""

import json
import re
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import unquote

FIELDS: dict[str, dict[str, type]] = {
    "acquire": {"owner_id": str, "ttl_ms": int},
    "renew": {"owner_id": str, "lease_id": str, "fencing_token": int, "extend_by_ms": int},
    "release": {"owner_id": str, "lease_id": str, "fencing_token": int},
}

# Takes a handler and the answer that it would give; says whether it has dealt with it.
Trick = Callable[["Handler", int, dict[str, Any]], bool]


class BadBody(Exception):
    """A body that the original refuses."""


class Lock:
    """One row of its table."""

    def __init__(self) -> None:
        self.token = 0
        self.owner = ""
        self.lease = ""
        self.expiry = 0.0
        self.version = 0

    def proven(self, body: dict[str, Any]) -> bool:
        return (self.owner, self.lease, self.token) == (body["owner_id"], body["lease_id"], body["fencing_token"])


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: "GoServer"

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length")
        body = self.rfile.read(int(length)) if length is not None else b""
        found = re.fullmatch(r"/v1/locks/([^/]*)/([^/]*)/?", unquote(self.path.partition("?")[0]))
        self.server.asked.append((found[2] if found else self.path, dict(self.headers), body))
        if found is None or found[2] not in FIELDS:
            return self.answer(404, {"error": "not found"})
        try:
            fields = self._read(body, FIELDS[found[2]])
        except BadBody as error:
            return self.answer(400, {"error": str(error)})
        trick = self.server.tricks.popleft() if self.server.tricks else None
        if trick is BEFORE:
            return self.hang_up()
        if trick is BUSY:
            return self.busy(found[2], found[1])
        with self.server.mutex:
            lock = self.server.locks.setdefault(found[1], Lock())
            status, answer = getattr(self, f"_{found[2]}")(found[1], lock, fields)
        if trick is None or not trick(self, status, answer):
            self.answer(status, answer)
        return None

    def do_GET(self) -> None:
        found = re.fullmatch(r"/v1/locks/([^/]*)/?", unquote(self.path.partition("?")[0]))
        if found is None:
            return self.answer(404, {"error": "not found"})
        lock = self.server.locks.get(found[1], Lock())
        answer: dict[str, Any] = {"lock_name": found[1], "held": lock.expiry > time.time()}
        if answer["held"]:
            answer |= {"owner_id": lock.owner, "lease_id": lock.lease, "fencing_token": lock.token}
            answer |= {"lease_expiry_ms": int(lock.expiry * 1000), "version": lock.version}
        return self.answer(200, answer)

    def _acquire(self, name: str, lock: Lock, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        left = lock.expiry - time.time()
        if left > 0:
            answer = {"acquired": False, "lock_name": name, "current_owner_id": lock.owner}
            answer["current_expiry_ms"] = int(lock.expiry * 1000)
            answer["recommended_retry_ms"] = int(min(1000, max(25, left * 1000 / 4)))
            return 409, answer | {"reason": "HELD"}
        lock.token, lock.owner, lock.lease = lock.token + 1, body["owner_id"], str(uuid.uuid4())
        lock.expiry, lock.version = time.time() + body["ttl_ms"] / 1000, lock.version + 1
        answer = {"acquired": True, "lock_name": name, "owner_id": lock.owner, "lease_id": lock.lease}
        return 200, answer | {"fencing_token": lock.token, "lease_expiry_ms": int(lock.expiry * 1000)}

    def _renew(self, _name: str, lock: Lock, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if not lock.proven(body) or lock.expiry <= time.time():
            return 409, {"renewed": False, "reason": "NOT_OWNER_OR_EXPIRED"}
        lock.expiry = max(lock.expiry, time.time() + body["extend_by_ms"] / 1000)
        return 200, {"renewed": True, "lease_expiry_ms": int(lock.expiry * 1000)}

    def _release(self, _name: str, lock: Lock, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if not lock.proven(body):
            return 200, {"released": False, "reason": "NOT_OWNER"}
        lock.owner, lock.lease, lock.expiry = "", "", 0.0
        return 200, {"released": True}

    def _read(self, body: bytes, known: dict[str, type]) -> dict[str, Any]:
        """Decode as the original does, as far as a client could notice."""
        try:
            given = json.loads(body)
        except ValueError as error:
            raise BadBody("invalid json") from error
        for name, value in given.items():
            if name.lower() not in known:
                raise BadBody(f'json: unknown field "{name}"')
            if type(value) is not known[name.lower()]:
                raise BadBody(f"json: cannot unmarshal into {name}")
        fields = {name.lower(): value for name, value in given.items()}
        for name, kind in known.items():
            value = fields.get(name)
            if not value or (kind is int and value < 0) or (name.endswith("_ms") and value > 600_000):
                raise BadBody(f"{name} required")
        return fields

    def answer(self, status: int, fields: dict[str, Any]) -> None:
        body = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
        for char in "<>&":
            body = body.replace(char.encode(), b"\\u%04x" % ord(char))
        self.raw(status, body + b"\n")

    def raw(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        self.send_header("Date", self.date_time_string())
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def busy(self, kind: str, name: str) -> None:
        if kind == "acquire":
            answer = {"acquired": False, "lock_name": name, "current_expiry_ms": -6795364578871}
            self.answer(409, answer | {"recommended_retry_ms": 50, "reason": "BUSY_RETRY"})
        elif kind == "renew":
            self.answer(409, {"renewed": False, "reason": "BUSY_RETRY"})
        else:
            self.answer(200, {"released": False, "reason": "BUSY_RETRY"})

    def hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


def BEFORE(*_arguments: object) -> bool:  # noqa: N802  it is a mark, not a call
    """Hang up before anything is done."""
    raise AssertionError("it is looked at, and not called")


def BUSY(*_arguments: object) -> bool:  # noqa: N802  the same
    """Say that the store is busy, and do nothing."""
    raise AssertionError("it is looked at, and not called")


def after(handler: Handler, _status: int, _fields: dict[str, Any]) -> bool:
    """Hang up after it is done: the answer is lost."""
    handler.hang_up()
    return True


def halfway(handler: Handler, _status: int, _fields: dict[str, Any]) -> bool:
    """Hang up in the middle of the answer."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    handler.hang_up()
    return True


def silent(handler: Handler, _status: int, _fields: dict[str, Any]) -> bool:
    """Say nothing until the server ends."""
    handler.server.over.wait()
    handler.hang_up()
    return True


def text(status: int, body: bytes) -> Trick:
    """Answer with these bytes, as a proxy in between might."""

    def trick(handler: Handler, _status: int, _fields: dict[str, Any]) -> bool:
        handler.raw(status, body, "text/html")
        return True

    return trick


class GoServer(ThreadingHTTPServer):
    """Listens on a free port while a block lasts. `tricks` are for the next POST requests, `asked` is what came."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.mutex = threading.Lock()
        self.locks: dict[str, Lock] = {}
        self.tricks: deque[Trick | None] = deque()
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.over = threading.Event()
        self.connections: list[socket.socket] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.append(request)
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients may hang up whenever they like."""

    def hang_up(self) -> None:
        """Close every connection, as a server does that is started anew."""
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # closed already
        self.connections.clear()

    def __enter__(self) -> "GoServer":
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self.over.set()
        self.shutdown()
        self.hang_up()
        self.server_close()
