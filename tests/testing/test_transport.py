"""The paper transport is held to what loops do: back-pressure, and who is told what in which order at the end.

The speaker here only keeps a log; real protocols are tried elsewhere.
"""

import asyncio

import pytest

from holdfast.testing.transport import PaperTransport


class Log:
    """Writes down what the transport says to it."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.stay_after_end = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.heard.append("made")

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)

    def eof_received(self) -> bool | None:
        self.heard.append("end")
        return self.stay_after_end

    def connection_lost(self, exc: Exception | None) -> None:
        self.heard.append(("lost", type(exc)))

    def pause_writing(self) -> None:
        self.heard.append("pause")

    def resume_writing(self) -> None:
        self.heard.append("resume")


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def transport(log: Log) -> PaperTransport:
    transport = PaperTransport()
    transport.set_write_buffer_limits(high=0)
    transport.connect(log)
    log.heard.clear()
    return transport


def test_a_new_connection_is_announced_first() -> None:
    log = Log()
    PaperTransport().connect(log)
    assert log.heard == ["made"]


def test_a_peer_that_reads_gets_everything_at_once(transport: PaperTransport, log: Log) -> None:
    transport.write(b"one")
    transport.write(b"two")
    assert transport.take(4) == b"onet"
    assert transport.take() == b"wo"
    assert log.heard == []


def test_a_full_peer_pauses_the_writer_once_and_resumes_it_when_all_has_left(
    transport: PaperTransport, log: Log
) -> None:
    transport.room = 4
    transport.write(b"abc")
    transport.write(b"def")
    transport.write(b"gh")
    assert log.heard == ["pause"]
    assert transport.take() == b"abcd"
    assert log.heard == ["pause", "resume"]
    assert transport.take() == b"efgh"


def test_a_slow_peer_resumes_nobody(transport: PaperTransport, log: Log) -> None:
    transport.room = 2
    transport.write(b"abcdef")
    assert transport.take(1) == b"a"
    assert log.heard == ["pause"]
    assert bytes(transport.buffer) == b"def"


def test_closing_waits_until_everything_has_left(transport: PaperTransport, log: Log) -> None:
    transport.room = 2
    transport.write(b"abcd")
    transport.close()
    assert transport.is_closing()
    assert not transport.is_reading()
    assert not transport.ended
    transport.take()
    assert transport.ended
    transport.farewell()
    transport.farewell()
    assert log.heard == ["pause", "resume", ("lost", type(None))]


def test_aborting_throws_away_what_has_not_left(transport: PaperTransport, log: Log) -> None:
    transport.room = 2
    transport.write(b"abcd")
    transport.abort()
    transport.write(b"too late")
    assert transport.ended
    assert transport.take() == b"ab"
    transport.farewell()
    assert log.heard == ["pause", ("lost", type(None))]


def test_a_reset_is_told_with_its_error(transport: PaperTransport, log: Log) -> None:
    transport.reset()
    transport.farewell()
    assert log.heard == [("lost", ConnectionResetError)]


def test_the_first_end_is_the_one_that_is_told(transport: PaperTransport, log: Log) -> None:
    transport.close()
    transport.reset()
    transport.farewell()
    assert log.heard == [("lost", type(None))]


@pytest.mark.parametrize("stay", [False, True])
def test_after_the_peers_end_the_server_decides_who_closes(transport: PaperTransport, log: Log, stay: bool) -> None:
    log.stay_after_end = stay
    transport.arrive(b"last")
    transport.arrive_end()
    assert log.heard == [b"last", "end"]
    assert transport.is_closing() is not stay


def test_reading_can_be_paused_but_not_resumed_after_closing(transport: PaperTransport) -> None:
    transport.pause_reading()
    assert not transport.is_reading()
    transport.resume_reading()
    assert transport.is_reading()
    transport.close()
    transport.resume_reading()
    assert not transport.is_reading()
