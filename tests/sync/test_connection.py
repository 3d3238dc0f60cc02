"""One native connection among threads: one who waits reads for all, and nobody is left without a reader."""

import threading

import pytest

from holdfast.client.asks import Acquire, End, Ended, Granted, Query, Refusal, Seen, Want
from holdfast.client.clock import now_ns
from holdfast.client.dialects.native import NativeCodec, Session
from holdfast.client.ports import Address
from holdfast.errors import BadPeer, Forbidden, Unavailable, Unknown
from holdfast.sync.connection import Connection, Slot, connect
from holdfast.testing.world import World

SECOND = 1_000_000_000
ADDRESS = Address("world", 6388)
WAIT_S_MAX = 20


def codec(auth=None):
    return NativeCodec(Session(client="test", host="here", pid=1, auth=auth), events=False)


def want(key, ticket="first"):
    return Want(key=key, ticket=f"ticket-of-{key}-the-{ticket}", lease_ns=30 * SECOND)


@pytest.fixture
def world():
    with World() as world:
        yield world


@pytest.fixture
def program(world):
    return world.program("a")


@pytest.fixture
def dial(program):
    def dial(timeout=10, auth=None):
        outside = program.world()
        return connect(outside.network, ADDRESS, codec(auth), program.clock, timeout * SECOND, lock=outside.lock)

    return dial


def test_requests_get_their_own_answers(world, program, dial):
    connection = dial()
    first = connection.ask(Acquire(want("a"), 0), program.clock() + SECOND)
    assert isinstance(first, Granted)
    assert isinstance(connection.ask(Acquire(want("a", "other"), 0), None), Refusal)
    assert isinstance(connection.ask(Query("ping"), None), Seen)
    assert connection.ask(End(want("a"), None), None) == Ended(was_there=True)


def test_threads_wait_side_by_side_on_one_connection(world, program, dial):
    connection = dial()
    connection.ask(Acquire(want("a"), 0), None)
    takes = [Acquire(want("a", f"other-{number}"), None) for number in range(3)]
    tasks = [world.spawn(connection.ask, take, None) for take in takes]
    world.sleep(1)
    connection.ask(End(want("a"), None), None)
    fences = []
    for take, task in zip(takes, tasks, strict=True):
        fences.append(task.join(5).fence)
        connection.ask(End(take.want, None), None)
    assert fences == sorted(fences)


def test_what_is_posted_is_asked_behind_all_before(world, dial):
    connection = dial()
    assert connection.post(Acquire(want("a"), 0)) is True
    assert connection.post(End(want("a"), None)) is True
    connection.ask(Query("ping"), None)
    assert not world.lock("a").held
    connection.close()
    assert connection.post(Query("ping")) is False
    with pytest.raises(Unavailable):
        connection.ask(Query("ping"), None)


def test_an_answer_that_is_overdue_ends_the_connection(world, program, dial):
    connection = dial()
    world.server.pause()
    with pytest.raises(Unknown, match="in time"):
        connection.ask(Query("ping"), program.clock() + 3 * SECOND)
    assert world.clock.now == 3
    assert connection.is_over


def test_a_server_that_says_nothing_for_long_has_to_show_that_it_is_there(world, program, dial):
    connection = dial(timeout=2)
    connection.ask(Acquire(want("a"), 0), None)
    waiting = world.spawn(connection.ask, Acquire(want("a", "other"), None), None)
    world.sleep(25)
    assert not waiting.done
    world.net.partition("a")
    began = world.clock.now
    with pytest.raises(Unknown):
        waiting.join()
    assert world.clock.now - began <= 13


def test_the_end_of_the_server_is_told_to_all_who_wait(world, dial):
    connection = dial()
    connection.ask(Acquire(want("a"), 0), None)
    tasks = [world.spawn(connection.ask, Acquire(want("a", f"other-{number}"), None), None) for number in range(3)]
    world.sleep(1)
    world.server.kill()
    for task in tasks:
        with pytest.raises(Unknown):
            task.join(5)
    assert connection.is_over


def test_nobody_who_answers_is_no_connection(world, dial):
    world.server.kill()
    with pytest.raises(Unavailable, match="cannot connect"):
        dial()
    world.server.start()
    world.server.pause()
    with pytest.raises(Unavailable, match="did not answer hello"):
        dial(timeout=2)
    assert world.clock.now == 2
    world.clock.after(1, world.server.kill)
    with pytest.raises(Unavailable, match="hello"):
        dial()


def test_a_wrong_token_is_told():
    with World(auth_token="right") as world:
        outside = world.program("a").world()
        with pytest.raises(Forbidden):
            connect(outside.network, ADDRESS, codec("wrong"), outside.clock, SECOND)
        assert not connect(outside.network, ADDRESS, codec("right"), outside.clock, SECOND).is_over


class Line:
    """A stream whose bytes a test brings, in real time: threads race here as they do."""

    def __init__(self):
        self.sent = b""
        self.closed = False
        self.reading = threading.Event()  # somebody waits for bytes
        self._news = threading.Semaphore(0)
        self._inbox = []

    def send(self, data):
        if self.closed:
            raise BrokenPipeError
        self.sent += data

    def receive(self, until):
        self.reading.set()
        assert self._news.acquire(timeout=WAIT_S_MAX)
        self.reading.clear()
        data = self._inbox.pop(0)
        if isinstance(data, BaseException):
            raise data
        return data

    def bring(self, data):
        self._inbox.append(data)
        self._news.release()

    def close(self):
        self.closed = True
        self.bring(OSError("closed here"))


def line():
    """Make a connection that has been greeted."""
    stream, talk = Line(), codec()
    talk.greeting()
    talk.read(b'ok {"session":"s","grace_ms":1,"line_bytes_max":65536,"in_flight_max":100}\n')
    return stream, Connection(stream, talk, now_ns, SECOND)


def asking(connection, outcomes, name):
    def ask():
        try:
            outcomes[name] = connection.ask(Query("ping"), now_ns() + WAIT_S_MAX * SECOND)
        except BaseException as error:  # noqa: BLE001  what it is, the test looks at
            outcomes[name] = error

    thread = threading.Thread(target=ask)
    thread.start()
    return thread


def asleep(connection, count):
    """Wait until so many threads wait for another one to read."""
    limit = now_ns() + WAIT_S_MAX * SECOND
    while sum(slot.bell is not None for slot in connection._codec.waiting) < count:
        assert now_ns() < limit


def answered(number):
    return b'{"id":%d,"answer":"ok"}\n' % number


def test_whoever_has_its_answer_hands_the_reading_on():
    stream, connection = line()
    outcomes = {}
    threads = []
    for name in range(1, 4):
        threads.append(asking(connection, outcomes, name))
        assert stream.reading.wait(WAIT_S_MAX)
        asleep(connection, name - 1)
    for name in (1, 3, 2):
        stream.bring(answered(name))
        threads[name - 1].join(WAIT_S_MAX)
        assert isinstance(outcomes[name], Seen)


def test_whoever_is_interrupted_while_it_sleeps_is_not_appointed_to_read():
    """Nobody would read, and the others would sleep on beside an answer that has come."""
    stream, connection = line()
    outcomes = {}
    first = asking(connection, outcomes, 1)
    assert stream.reading.wait(WAIT_S_MAX)

    class Interrupted(BaseException):
        """As by Ctrl-C."""

    class Bell:
        """Wakes its thread with an exception, as a signal does."""

        def acquire(self, blocking=True, timeout=-1):
            if timeout != -1:
                raise Interrupted
            return True

        def release(self):
            """Nobody is there to hear it."""

    bells = iter([Bell()])
    connection._lock = lambda: next(bells, None) or threading.Lock()
    second = asking(connection, outcomes, 2)
    second.join(WAIT_S_MAX)
    assert isinstance(outcomes[2], Interrupted)
    third = asking(connection, outcomes, 3)
    asleep(connection, 1)
    stream.bring(answered(1))
    first.join(WAIT_S_MAX)
    stream.bring(answered(2) + answered(3))
    third.join(WAIT_S_MAX)
    assert not third.is_alive()
    assert isinstance(outcomes[3], Seen)


@pytest.mark.parametrize(
    ("brought", "error"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt),
        (b"nonsense\n", BadPeer),
        (b"", Unknown),
        (ConnectionResetError("gone"), Unknown),
        (ValueError("file descriptor cannot be a negative integer"), Unknown),
    ],
)
def test_whatever_ends_the_one_who_reads_is_told_to_the_others(brought, error):
    """What had come when a reader was interrupted may be lost: nobody waits for it."""
    stream, connection = line()
    outcomes = {}
    first = asking(connection, outcomes, 1)
    assert stream.reading.wait(WAIT_S_MAX)
    second = asking(connection, outcomes, 2)
    asleep(connection, 1)
    stream.bring(brought)
    first.join(WAIT_S_MAX)
    second.join(WAIT_S_MAX)
    assert type(outcomes[1]) is error
    assert isinstance(outcomes[2], (BadPeer, Unknown))
    assert connection.is_over
    assert stream.closed


def test_a_request_that_cannot_leave_whole_ends_the_connection():
    for trouble, error in ((BrokenPipeError("gone"), Unknown), (KeyboardInterrupt(), KeyboardInterrupt)):
        stream, connection = line()

        def send(data, trouble=trouble):
            raise trouble

        stream.send = send
        with pytest.raises(error):
            connection.ask(Query("ping"), None)
        assert connection.is_over


def test_a_bell_may_be_rung_twice():
    slot = Slot(0)
    slot.ring()
    slot.bell = threading.Lock()
    slot.bell.acquire()
    slot.ring()
    slot.ring()
    assert slot.bell.acquire(blocking=False)
