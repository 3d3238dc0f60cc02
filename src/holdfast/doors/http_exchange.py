"""One HTTP request on a connection, and its answer, which leaves in one write.

When a request may be read or answered is decided by its connection.
"""

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from holdfast.wire.http import spell
from holdfast.wire.problems import ErrorBody

if TYPE_CHECKING:
    from holdfast.doors.http_protocol import HttpConnection

DISCONNECT: Final[ASGIReceiveEvent] = {"type": "http.disconnect"}

STATUS_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class Exchange(RequestResponseCycle):
    """One request and its answer."""

    connection: "HttpConnection"
    head = b""
    gone = False  # its caller sends nothing more, but may still read
    delivered = False  # the application has the whole request

    async def send(self, message: ASGISendEvent) -> None:
        """Keep the head back until the body is there: both leave together."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == "http.response.start":
            assert not self.response_started
            self.head = self._spell_head(message["status"], list(message.get("headers", ())))
            self.response_started = True
            self.waiting_for_100_continue = False
            return
        assert message["type"] == "http.response.body"
        assert self.response_started
        assert not self.response_complete
        assert not message.get("more_body", False)
        self.finish(self.head if self.scope["method"] == "HEAD" else self.head + message.get("body", b""))

    def finish(self, answer: bytes) -> None:
        self.response_complete = True
        self.message_event.set()
        self.transport.write(answer)
        self.on_response()

    def _spell_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        lines = [STATUS_LINES[status]]
        for name, value in headers:
            if name == b"connection" and value == b"close":
                self.keep_alive = False  # and the line for it is written below
            else:
                assert b"\n" not in value
                lines.append(b"%b: %b\r\n" % (name, value))
        lines.append(self.connection.http.date_line)
        lines.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        return b"".join(lines)

    async def receive(self) -> ASGIReceiveEvent:
        if self.waiting_for_100_continue and not self.transport.is_closing():
            self.waiting_for_100_continue = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not (self.disconnected or self.response_complete):
            if not self.delivered and (self.body or not self.more_body):
                body, self.body = bytes(self.body), bytearray()
                self.delivered = not self.more_body
                return {"type": "http.request", "body": body, "more_body": self.more_body}
            if self.gone:
                break
            self.flow.resume_reading()
            self.message_event.clear()
            await self.message_event.wait()
        return DISCONNECT

    def leave(self) -> None:
        """Nobody is there any more to be answered."""
        self.disconnected = True
        self.message_event.set()

    def over(self, task: "asyncio.Task[None]") -> None:
        """The application has returned; if it owes an answer, make up for that."""
        self.connection.tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            what = {"message": "an HTTP request failed", "exception": error, "task": task}
            self.connection.loop.call_exception_handler(what)
        if self.response_complete or self.disconnected:
            return
        if self.gone or self.response_started:
            self.transport.close()
        else:
            self.keep_alive = False
            self.finish(refusal(500, "this should not happen; please report it", self.connection.http.date_line))


def refusal(status: int, detail: str, date_line: bytes) -> bytes:
    """Spell a whole answer to what never became a request."""
    body = spell(ErrorBody(detail))
    head = b"content-type: application/json\r\ncache-control: no-store\r\ncontent-length: %d\r\n" % len(body)
    return b"%b%b%bconnection: close\r\n\r\n%b" % (STATUS_LINES[status], head, date_line, body)
