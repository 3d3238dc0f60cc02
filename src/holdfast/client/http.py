"""HTTP/1.1 as a client speaks it: a request as bytes, and bytes as an answer, with a limit on everything.

Nothing here opens a connection, waits or knows what a lock is; `AnswerReader` reads one answer and is then done.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from holdfast.errors import BadPeer, BadRequest, Unknown

HEAD_BYTES_MAX = 65_536
BODY_BYTES_MAX = 1 << 20
# Of the line before each chunk: room for the size and for an extension that nobody reads.
CHUNK_LINE_BYTES_MAX = 256
# What every answer begins with.
PROTOCOL = b"HTTP/"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(r"/[!-~]*")
_VALUE = re.compile(r"[\t -~\x80-\xff]*")
_STATUS = re.compile(r"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: .*)?")
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?", re.DOTALL)


def request(method: str, target: str, headers: Mapping[str, str], body: bytes | None = None) -> bytes:
    """Write one request; what could smuggle a second one into it is refused."""
    if _TOKEN.fullmatch(method) is None:
        raise BadRequest(f"{method!r} is no method of HTTP")
    if _TARGET.fullmatch(target) is None:
        raise BadRequest(f"{target!r} is no path of HTTP: it must begin with / and have printable ASCII only")
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in headers.items():
        if _TOKEN.fullmatch(name) is None:
            raise BadRequest(f"{name!r} is no name of a header")
        if _VALUE.fullmatch(value) is None:
            # The value may be a secret, so it is not shown.
            raise BadRequest(f"the value of the header {name} has characters that no header can have")
        lines.append(f"{name}: {value}")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    if len(head) > HEAD_BYTES_MAX:
        raise BadRequest(f"the head of the request has {len(head)} bytes, more than {HEAD_BYTES_MAX}")
    return head + (body or b"")


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; the names of headers are in lower case, and what came twice is joined by a comma."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    # Whether the connection can carry another request.
    keeps: bool


class AnswerReader:
    """Reads the answer to one request, in pieces of any size."""

    def __init__(
        self, method: str = "GET", *, head_bytes_max: int = HEAD_BYTES_MAX, body_bytes_max: int = BODY_BYTES_MAX
    ) -> None:
        self.begun = False  # whether any byte of an answer has come
        self._bodiless = method == "HEAD"
        self._head_bytes_max = head_bytes_max
        self._body_bytes_max = body_bytes_max
        self._buffer = bytearray()
        self._looked = 0  # how much of the buffer has been searched for an end of what is being read
        self._step: Callable[[], bool] = self._read_head
        self._status = 0
        self._headers: dict[str, str] = {}
        self._keeps = True
        self._body = bytearray()
        self._left = 0  # bytes of the body or of the chunk that are still to come
        self._trailer_bytes = 0
        self._answer: Answer | None = None

    def feed(self, data: bytes) -> Answer | None:
        """Take in what has arrived; give the answer as soon as it is whole. Raises BadPeer."""
        assert self._answer is None, "one reader reads one answer"
        self.begun = self.begun or bool(data)
        self._buffer += data
        while self._step():
            pass
        return self._answer

    def end(self) -> Answer:
        """Take in that the other side has closed: an answer without a length ends so. Raises Unknown if it was cut."""
        assert self._answer is None, "one reader reads one answer"
        if self._step != self._read_to_end:
            raise Unknown("the connection was closed before the answer was whole")
        return self._whole()

    # --- the head ---

    def _read_head(self) -> bool:
        if not self._buffer.startswith(PROTOCOL[: len(self._buffer)]):
            # What speaks another protocol may never come to the end of a head.
            raise BadPeer(f"this is no answer of HTTP/1.1: {bytes(self._buffer[:80])!r}")
        head = self._take(b"\r\n\r\n", self._head_bytes_max, "the head of the answer")
        if head is None:
            return False
        first, *rest = head.decode("latin-1").split("\r\n")
        found = _STATUS.fullmatch(first)
        if found is None:
            raise BadPeer(f"this is no answer of HTTP/1.1: {first[:80]!r}")
        self._status = int(found[2])
        self._headers = _headers(rest)
        if self._status == 101:
            raise BadPeer("the server changed the protocol, which nobody asked for")
        if self._status < 200:
            return True  # word in between; the answer is still to come
        options = _options(self._headers.get("connection", ""))
        self._keeps = "close" not in options if found[1] == "1" else "keep-alive" in options
        self._step = self._choose_body()
        return True

    def _choose_body(self) -> Callable[[], bool]:
        """Find out how the body ends. Where that could be read in two ways, two programs might differ: refused."""
        coding, length = self._headers.get("transfer-encoding"), self._headers.get("content-length")
        if self._bodiless or self._status in {204, 304}:
            return self._finish
        if coding is not None:
            if coding.lower() != "chunked":
                raise BadPeer(f"the answer has a transfer coding that is not known here: {coding[:80]!r}")
            if length is not None:
                raise BadPeer("the answer has both a length and a transfer coding")
            return self._read_chunk_line
        if length is None:
            self._keeps = False
            return self._read_to_end
        self._left = _length(length)
        self._need_room(self._left)
        return self._read_body

    # --- the body ---

    def _read_body(self) -> bool:
        return self._move() and self._finish()

    def _read_to_end(self) -> bool:
        self._need_room(len(self._buffer))
        self._body += self._buffer
        self._buffer.clear()
        return False

    def _read_chunk_line(self) -> bool:
        line = self._take(b"\r\n", CHUNK_LINE_BYTES_MAX, "the line before a chunk")
        if line is None:
            return False
        found = _CHUNK.fullmatch(line)
        if found is None:
            raise BadPeer(f"this is no size of a chunk: {bytes(line[:80])!r}")
        self._left = int(found[1], 16)
        self._need_room(self._left)
        self._step = self._read_chunk if self._left else self._read_trailer
        return True

    def _read_chunk(self) -> bool:
        if not self._move():
            return False
        self._step = self._read_chunk_end
        return True

    def _read_chunk_end(self) -> bool:
        if len(self._buffer) < 2:
            return False
        if self._buffer[:2] != b"\r\n":
            raise BadPeer("a chunk is longer than was said")
        del self._buffer[:2]
        self._step = self._read_chunk_line
        return True

    def _read_trailer(self) -> bool:
        """Pass over what stands behind the last chunk: nothing that we ask is answered there."""
        line = self._take(b"\r\n", self._head_bytes_max - self._trailer_bytes, "what stands behind the last chunk")
        if line is None:
            return False
        self._trailer_bytes += len(line) + 2
        return bool(line) or self._finish()

    def _finish(self) -> bool:
        self._answer = self._whole()
        return False

    def _whole(self) -> Answer:
        """Put the answer together. What came behind it was not asked for: such a connection is not to be trusted."""
        return Answer(self._status, self._headers, bytes(self._body), self._keeps and not self._buffer)

    # --- the buffer ---

    def _take(self, mark: bytes, bytes_max: int, what: str) -> bytearray | None:
        """Take what stands before the mark, and the mark; nothing if it is not there yet."""
        at = self._buffer.find(mark, self._looked)
        if (at if at >= 0 else len(self._buffer)) > bytes_max:
            raise BadPeer(f"{what} has more than {bytes_max} bytes")
        if at < 0:
            self._looked = max(0, len(self._buffer) - len(mark) + 1)
            return None
        taken = self._buffer[:at]
        del self._buffer[: at + len(mark)]
        self._looked = 0
        return taken

    def _move(self) -> bool:
        """Move what there is of the bytes that are expected into the body; say whether that was all of them."""
        piece = self._buffer[: self._left]
        del self._buffer[: self._left]
        self._body += piece
        self._left -= len(piece)
        return self._left == 0

    def _need_room(self, count: int) -> None:
        if len(self._body) + count > self._body_bytes_max:
            raise BadPeer(f"the body of the answer has more than {self._body_bytes_max} bytes")


def _headers(lines: Iterable[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        value = value.strip(" \t")
        if not colon or _TOKEN.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
            raise BadPeer(f"this is no header: {line[:80]!r}")
        name = name.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _options(value: str) -> set[str]:
    return {option.strip().lower() for option in value.split(",")}


def _length(value: str) -> int:
    """Read a length; the same one twice is the same length."""
    lengths = _options(value)
    length = lengths.pop()
    if lengths or _LENGTH.fullmatch(length) is None:
        raise BadPeer(f"this is no length of a body: {value[:80]!r}")
    return int(length)
