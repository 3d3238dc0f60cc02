"""Who takes too long on an HTTP connection, and who only seems to. Time is moved by hand.

What a request means is tested with the door and its interfaces.
"""

import pytest

from holdfast.doors.http_protocol import QUEUED_MAX
from tests.doors.house import GET, House, Peer, play, turn, until


def test_a_connection_that_says_nothing_is_closed() -> None:
    async def story(house: House, peer: Peer) -> None:
        house.after(4.9)
        assert house.http.connections
        house.after(0.1)
        assert await peer.is_closed()

    play(story)


def test_a_slow_head_is_told_so() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(b"GET /a HTTP/1.1\r\nHo")
        await until(lambda: house.connection._arriving)
        house.after(3)
        peer.writer.write(b"st: x\r\n")
        for _ in range(20):
            await turn()
        house.after(2)
        assert await peer.status() == 408
        assert await peer.is_closed()

    play(story)


@pytest.mark.parametrize("before", [b"", GET % b"wait?bound=1"])
def test_a_slow_body_is_told_so_in_its_turn(before: bytes) -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(before + b"POST /slow HTTP/1.1\r\nContent-Length: 5\r\n\r\nab")
        await until(lambda: house.connection.cycle is not None and house.connection.cycle.scope["path"] == "/slow")
        house.after(5)
        house.echo.open.set()
        if before:
            assert await peer.status() == 200
        assert await peer.status() == 408
        assert await peer.is_closed()
        assert "/slow" not in house.echo.asked

    assert play(story).bugs == []


def test_a_request_may_take_as_long_as_it_takes() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(GET % b"wait")
        await until(lambda: house.echo.asked)
        house.after(1000)
        house.echo.open.set()
        assert await peer.status() == 200

    play(story)


def test_between_requests_there_is_more_time() -> None:
    async def story(house: House, peer: Peer) -> None:
        assert await peer.ask(GET % b"a") == 200
        house.after(59)
        assert await peer.ask(GET % b"a") == 200
        house.after(60)
        assert await peer.is_closed()

    play(story)


def test_the_time_of_a_request_that_came_early_begins_when_its_turn_comes() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(GET % b"wait?bound=1" + b"GET /late HT")
        await until(lambda: house.connection._arriving)
        house.after(4)
        house.echo.open.set()
        assert await peer.status() == 200
        house.after(4)
        assert await peer.ask(b"TP/1.1\r\n\r\n") == 200

    play(story)


def test_while_we_do_not_read_nobody_is_late() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(GET % b"wait?bound=1" + (GET % b"a") * QUEUED_MAX + b"GET /last HT")
        await until(lambda: house.connection.flow.read_paused and house.connection._arriving)
        house.after(100)
        peer.writer.write(b"TP/1.1\r\n\r\n")
        house.echo.open.set()
        assert [await peer.status() for _ in range(QUEUED_MAX + 2)] == [200] * (QUEUED_MAX + 2)

    play(story)


def test_a_peer_that_does_not_read_is_cut() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        peer.writer.write((GET % b"long") * 5)
        await until(lambda: house.connection.flow.write_paused)
        house.after(5)
        await until(lambda: house.left)

    assert play(story).bugs == []


def test_a_peer_that_reads_late_gets_everything() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        peer.writer.write((GET % b"long") * 2)
        await until(lambda: house.connection.flow.write_paused)
        house.after(4)
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(2):
            assert len((await peer.answer())[1]) == 4_000_000
        house.after(4)
        assert await peer.ask(GET % b"a") == 200

    play(story)


def test_who_never_stops_sending_behind_the_last_answer_is_cut() -> None:
    async def story(house: House, peer: Peer) -> None:
        assert await peer.ask(b"POST /a HTTP/1.1\r\nContent-Length: 10000000\r\n\r\n") == 413
        assert len(house.http.connections) == 1
        house.after(5)
        await until(lambda: house.left)

    play(story)
