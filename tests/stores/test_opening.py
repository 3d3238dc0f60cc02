"""From a URL to an open store: what it is made of, which clock goes with it, and what is refused.

What stores do is tested with them; here a real thread writes to a real file, in a real loop.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from holdfast.config import Config
from holdfast.errors import ConfigError, FenceFileError, StoreFileError
from holdfast.stores.journal import RECORD_BYTES
from holdfast.stores.memory import MemoryStore
from holdfast.stores.opening import Opened, open_store
from holdfast.stores.shelf import Shelf
from holdfast.system import SystemDice
from holdfast.testing.clock import HandClock
from holdfast.words import CW, EX, FOREVER, SECOND, UNLIMITED, Answer, Claim, Command, End, Hangup
from tests.stores.lockserver import LockServer
from tests.stores.rig import KEY, Log


def opened(store: str, clock: HandClock | None = None, **more: int) -> Opened:
    return open_store(Config(store=store, **more), clock or HandClock(), lambda when: None, SystemDice())


def claim(key: bytes = KEY, want: int = EX, *, session: int = 1, ticket: int = 1, limit: int = UNLIMITED) -> Claim:
    c = Claim(key, want, 1, limit, 30 * SECOND, FOREVER)
    c.session, c.ticket = session, ticket
    return c


class Answers(Log):
    """A log that tells when as many answers have come as were awaited."""

    def __init__(self) -> None:
        super().__init__()
        self._heard = asyncio.Queue[None]()

    def answer(self, *told: object) -> None:
        super().answer(*told)  # type: ignore[arg-type]
        self._heard.put_nowait(None)

    async def have(self, count: int) -> list[object]:
        for _ in range(count):
            await self._heard.get()
        return self.take()


def play(store: Opened, story: Callable[[Answers, Callable[..., None]], object]) -> None:
    """Run a story in a loop; `put` hands commands in."""

    async def run() -> None:
        answers = Answers()
        joined = store.join(answers)
        store.start(asyncio.get_running_loop())

        def put(*commands: Command) -> None:
            for command in commands:
                joined.submit(command, store.clock())

        await story(answers, put)  # type: ignore[misc]
        store.close()

    asyncio.run(run())


def test_memory_is_in_memory() -> None:
    store = opened("memory:")
    assert isinstance(store.store, MemoryStore)

    async def story(answers: Answers, put: Callable[..., None]) -> None:
        put(claim(), claim(session=2))
        assert await answers.have(2) == [Answer.GRANTED, Answer.QUEUED]

    play(store, story)


def test_fences_of_memory_go_on_where_their_file_says(tmp_path: Path) -> None:
    fences = []
    for _ in range(2):
        store = opened(f"memory:?fence={tmp_path / 'fences'}", HandClock(0))
        one = claim()
        store.join(Log()).submit(one, 0)
        fences.append(one.fence)
        store.close()
    assert fences[0] < fences[1]
    (tmp_path / "fences").write_bytes(b"odd")
    with pytest.raises(FenceFileError):
        opened(f"memory:?fence={tmp_path / 'fences'}")


def test_a_damaged_record_is_told_of_and_no_fence_comes_twice(tmp_path: Path) -> None:
    path, fences, told = tmp_path / "fences", [], []
    for _ in range(3):
        with capture_logs() as lines:
            store = opened(f"memory:?fence={path}", HandClock(0))
        told.append([line["event"] for line in lines])
        one = claim()
        store.join(Log()).submit(one, 0)
        fences.append(one.fence)
        store.close()
        content = bytearray(path.read_bytes())
        if len(content) == 2 * RECORD_BYTES:
            content[RECORD_BYTES] ^= 1  # the newest one, when two have been written
            path.write_bytes(content)
    assert told == [[], [], ["the fence file had a damaged record"]]
    assert fences == sorted(set(fences))


def test_a_file_is_a_shelf_with_a_thread_and_lasts(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'holdfast.db'}"
    held = claim()

    async def first(answers: Answers, put: Callable[..., None]) -> None:
        put(held, claim(session=2), claim(b"sem:pool", CW, limit=2, ticket=3))
        assert await answers.have(3) == [Answer.GRANTED, Answer.QUEUED, Answer.GRANTED]

    async def second(answers: Answers, put: Callable[..., None]) -> None:
        put(claim(session=3, ticket=9))
        assert await answers.have(1) == [Answer.QUEUED]
        put(End(KEY, held.token))
        await answers.have(1)
        assert answers.claims[3, 9].fence == 2

    store = opened(url)
    assert isinstance(store.store, Shelf)
    play(store, first)
    play(opened(url), second)


def test_many_who_come_and_go_at_once_are_served_in_few_transactions(tmp_path: Path) -> None:
    store = opened(f"sqlite:{tmp_path / 'holdfast.db'}")

    async def story(answers: Answers, put: Callable[..., None]) -> None:
        for turn in range(1, 21):
            claims = [claim(b"lock:%d" % number, session=number + 1, ticket=turn) for number in range(50)]
            put(*claims)
            assert await answers.have(50) == [Answer.GRANTED] * 50
            assert {c.fence for c in claims} == {turn}
            put(*(End(c.key, c.token) for c in claims))
            assert await answers.have(50) == [Answer.ENDED] * 50

    play(store, story)
    assert isinstance(store.store, Shelf)
    assert store.store.tally.commands == 2000
    assert store.store.tally.batches < 200


def test_what_was_handed_in_before_the_end_is_done(tmp_path: Path) -> None:
    store = opened(f"sqlite:{tmp_path / 'holdfast.db'}")

    async def story(answers: Answers, put: Callable[..., None]) -> None:
        put(claim())
        await asyncio.sleep(0)  # a transaction is under way
        put(Hangup(1), claim(b"lock:other", session=2))

    play(store, story)
    with LockServer(tmp_path / "holdfast.db") as other:
        assert other.row("job")[0] is None
        assert other.row("other")[0] == "session/2"


def test_the_clock_of_a_file_is_not_before_its_last_commit(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'holdfast.db'}"
    clock = HandClock()

    async def story(answers: Answers, put: Callable[..., None]) -> None:
        put(claim())
        await answers.have(1)

    play(opened(url, clock), story)
    earlier = HandClock(clock.now - 1000 * SECOND)
    store = opened(url, earlier)
    assert store.clock() == clock.now
    earlier.advance(5)
    assert store.clock() == clock.now + 5 * SECOND
    store.close()


def test_the_settings_reach_the_store(tmp_path: Path) -> None:
    store = opened(f"sqlite:{tmp_path / 'holdfast.db'}", keys_max=1, waiters_max=1)

    async def story(answers: Answers, put: Callable[..., None]) -> None:
        put(claim(), claim(b"lock:other", ticket=2), claim(session=2), claim(session=3))
        expected = [Answer.GRANTED, Answer.TOO_MANY_KEYS, Answer.QUEUED, Answer.TOO_MANY_WAITERS]
        assert await answers.have(4) == expected

    play(store, story)


def test_a_file_that_cannot_be_opened_is_a_setting_that_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    path.write_bytes(b"rubbish" * 1000)
    with pytest.raises(StoreFileError, match="file is not a database"):
        opened(f"sqlite:{path}")
    assert issubclass(StoreFileError, ConfigError)


def test_a_file_with_a_document_of_another_release_is_refused_and_let_go_of(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    opened(f"sqlite:{path}").close()
    with LockServer(path) as other:
        other.acquire("job", "w1", "lease", 1, 2)
        other.connection.execute("UPDATE locks SET document = x'91CD03E7'")
        with pytest.raises(StoreFileError, match=r"store .*holdfast.db: the document of b'lock:job' has version 999"):
            opened(f"sqlite:{path}")
        other.connection.execute("UPDATE locks SET document = NULL")
    opened(f"sqlite:{path}").close()
