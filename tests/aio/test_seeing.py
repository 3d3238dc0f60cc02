"""Looking into a server through the client: keys and their holders, why one waits, what happens, and taking away."""

import pytest

from holdfast.errors import BadRequest, Closed
from tests.aio.client_faces import ended


def test_a_look_shows_who_holds_what_and_who_waits(stage):
    async def story():
        hf, other = stage.connect("billing"), stage.connect("b")
        async with hf.lock("job", operation="month end") as held, hf.semaphore("seats", 3):
            waiting = stage.spawn(ended(other.lock("job", patience=5).acquire()))
            await stage.sleep(1)
            seen = await hf.show("job")
            assert [holder["fence"] for holder in seen["holders"]] == [held.fence]
            assert (seen["holders"][0]["client"], seen["holders"][0]["operation"]) == ("billing", "month end")
            assert ("task" in seen["holders"][0]) is (stage.face == "tasks")
            assert [waiter["client"] for waiter in seen["queue"]] == ["b"]
            assert [view["key"] async for view in hf.keys("")] == ["job", "seats"]
            assert [view["key"] async for view in hf.keys("s", kind="semaphore", held=True)] == ["seats"]
            assert (await hf.show("seats", kind="semaphore"))["held"] == 1
            assert await hf.show("nobody's") == {
                "key": "nobody's",
                "kind": "lock",
                "waiting": 0,
                "held": 0,
                "holders": [],
                "queue": [],
            }
            assert "job" in str(await hf.explain("job"))
            await waiting

    stage.play(story)


def test_more_keys_than_one_answer_shows(stage):
    async def story():
        hf = stage.connect()
        names = [f"{number:04}" for number in range(1050)]
        for start in range(0, len(names), 50):
            await hf.all(*names[start : start + 50]).acquire()
        assert [view["key"] async for view in hf.keys("")] == names
        assert [view["key"] async for view in hf.keys("104")] == names[1040:1050]

    stage.play(story)


def test_a_circle_is_shown(stage):
    async def story():
        hf, other = stage.connect("a"), stage.connect("b")

        async def both(client, one, two):
            async with client.lock(one):
                await stage.sleep(1)
                await (await client.lock(two, patience=60).acquire()).release()

        tasks = [stage.spawn(ended(both(hf, "x", "y"))), stage.spawn(ended(both(other, "y", "x")))]
        await stage.sleep(5)
        looker = stage.connect("c")
        (circle,) = await looker.deadlocks()
        assert sorted(part["key"] for part in circle) == ["x", "y"]
        assert await looker.break_("x", reason="to end it") == 1
        assert await looker.deadlocks() == []
        for task in tasks:
            await task

    stage.play(story)


def test_what_happens_is_told_as_it_happens(stage):
    heard = []

    async def story():
        hf, other = stage.connect("a"), stage.connect("b")

        async def listen():
            async for event in other.watch(prefix="job"):
                heard.append((event.get("event"), event.get("key"), event.get("what")))

        listening = stage.spawn(ended(listen()))
        await stage.sleep(1)
        async with hf.lock("job"), hf.lock("another"):
            await stage.sleep(1)
        await stage.sleep(1)
        stage.world.net.reset("b")
        await stage.sleep(5)
        async with hf.lock("job 2"):
            await stage.sleep(1)
        await other.close()
        assert isinstance(await listening, Closed)

    stage.play(story)
    assert {key for _, key, _ in heard} == {"job", None, "job 2"}
    assert ("missed", None, None) in heard
    assert heard[0][:2] == ("changed", "job")


def test_who_stops_watching_hears_no_more_and_may_begin_again(stage):
    async def story():
        hf, other = stage.connect("a"), stage.connect("b")
        for name in ("one", "two"):
            stage.world.clock.after(1, lambda: None)
            touch = stage.spawn(touched(stage, hf, name))
            watching = other.watch(key=name)
            event = await anext(watching)
            assert (event["event"], event["key"]) == ("changed", name)
            await watching.aclose()
            await touch

    stage.play(story)


async def touched(stage, hf, name):
    await stage.sleep(2)
    async with hf.lock(name):
        await stage.sleep(1)


def test_every_server_is_asked_and_named(any_stage):
    async def story():
        hf = any_stage.connect()
        took = await hf.ping()
        assert len(took) == 1
        assert all(seconds >= 0 for seconds in took.values())
        if any_stage.scheme == "http":
            with pytest.raises(BadRequest, match="stats"):
                await hf.stats()
            return
        stats = await hf.stats()
        assert stats.keys() == took.keys()
        assert all(isinstance(told, dict) and told for told in stats.values())

    any_stage.play(story)


def test_taking_away_is_asked_for_once_even_if_the_answer_is_lost(stage):
    async def story():
        hf, other = stage.connect("a"), stage.connect("b")
        await other.ping()
        held = await hf.lock("job").acquire()
        stage.world.net.drop_answers(1, "b")
        assert isinstance(await ended(other.break_("job", reason="test")), Exception)
        await stage.sleep(2)
        again = await hf.lock("job").acquire()
        await stage.sleep(5)
        assert (held.held, again.held) == (False, True)

    stage.play(story)
