"""Elections: one leads while it holds the lock, whoever is deposed hears of it, and the next one follows."""

import pytest

from holdfast.errors import BadRequest, LeaseLost


def test_one_leads_and_the_next_one_follows(any_stage):
    heard = []

    def note(name, what):
        return lambda held: heard.append((name, what, held.key == any_stage.key()))

    async def story():
        hf, other = any_stage.connect(), any_stage.connect()
        key = any_stage.key()
        first = hf.election(key, on_elected=note("first", "elected"), on_deposed=note("first", "deposed"))
        second = other.election(key, on_elected=note("second", "elected"), on_deposed=note("second", "deposed"))
        assert (first.leading, first.held, first.key) == (False, None, key)
        async with first:
            await any_stage.until(lambda: first.leading)
            first.check()
            fence = first.held.fence
            assert "leading" in repr(first)
            async with second:
                await any_stage.sleep(0.05)
                assert not second.leading
                with pytest.raises(LeaseLost, match="does not lead"):
                    second.check()
                await first.__aexit__(None, None, None)
                assert not first.leading
                await any_stage.until(lambda: second.leading)
                assert second.held.fence > fence
            await first.__aenter__()
            await any_stage.until(lambda: first.leading)
        assert (first.leading, second.leading) == (False, False)

    any_stage.play(story)
    assert heard == [
        ("first", "elected", True),
        ("first", "deposed", True),
        ("second", "elected", True),
        ("second", "deposed", True),
        ("first", "elected", True),
        ("first", "deposed", True),
    ]


def test_whoever_loses_the_office_is_told_and_stands_again(stage):
    heard = []

    async def story():
        hf = stage.connect("a")
        election = hf.election(
            "job",
            on_elected=lambda held: heard.append(("elected", held.fence)),
            on_deposed=lambda held: heard.append(("deposed", held.fence)),
            on_lost=lambda held: heard.append(("lost", held.fence)),
        )
        async with election:
            await stage.until(lambda: election.leading)
            await stage.sleep(2)
            stage.world.lock("job").lose()
            await stage.until(lambda: election.leading and election.held.fence == 2)
        await stage.sleep(1)

    stage.play(story)
    assert sorted(heard) == sorted([("elected", 1), ("lost", 1), ("deposed", 1), ("elected", 2), ("deposed", 2)])


def test_an_election_outlasts_a_server_that_is_away(stage):
    async def story():
        hf = stage.connect("a", timeout=1)
        stage.world.server.kill()
        election = hf.election("job")
        async with election:
            await stage.sleep(10)
            assert not election.leading
            stage.world.server.start()
            await stage.until(lambda: election.leading)

    stage.play(story)


def test_nobody_leads_over_a_partition(stage):
    """The old one has stopped before the new one begins."""
    both = []

    async def story():
        one, two = stage.connect("a").election("job", lease=10), stage.connect("b").election("job", lease=10)
        async with one:
            await stage.until(lambda: one.leading)
            async with two:
                stage.world.net.partition("a")
                while not two.leading:
                    await stage.sleep(0.05)
                    both.append(one.leading and two.leading)
                assert not one.leading
                stage.world.net.heal("a")
                await stage.sleep(20)
                assert (one.leading, two.leading) == (False, True)
            await stage.until(lambda: one.leading)

    stage.play(story)
    assert not any(both)


def test_an_end_while_others_lead_leaves_no_place_in_the_queue(virtual_stage):
    async def story():
        hf, other = virtual_stage.connect(), virtual_stage.connect()
        held = await hf.lock("job").acquire()
        async with other.election("job"):
            await virtual_stage.sleep(1)
        await held.release()
        await virtual_stage.sleep(2)
        assert not virtual_stage.world.lock("job").held

    virtual_stage.play(story)


def test_an_end_without_a_server_is_bounded(virtual_stage):
    async def story():
        world = virtual_stage.world
        hf = virtual_stage.connect("a", timeout=1)
        election = hf.election("job", lease=10)
        async with election:
            await virtual_stage.until(lambda: election.leading)
            world.server.pause()
            began = world.clock.now
        assert world.clock.now - began <= 6
        world.server.resume()
        await virtual_stage.until(lambda: not world.lock("job").held)

    virtual_stage.play(story)


def test_trouble_that_no_time_cures_ends_it(stage):
    async def story():
        hf = stage.connect("a", url="holdfast://:wrong@world:6388")
        with pytest.raises(BadRequest, match="goes on already"):
            async with stage.connect().election("other") as election:
                await election.__aenter__()
        with pytest.raises(BadRequest, match="seats"):
            async with hf.semaphore("job", 1), hf.election("job"):
                raise BadRequest("of the body: no seats")

    stage.play(story)


@pytest.mark.parametrize("what", ["on_elected", "on_deposed"])
def test_a_function_that_fails_does_not_end_the_office(stage, what, caplog):
    async def story():
        def fail(held):
            raise ValueError("of the function")

        election = stage.connect().election("job", **{what: fail})
        async with election:
            await stage.until(lambda: election.leading)

    stage.play(story)
    assert "a function that was to be told of a lease failed" in caplog.text
    if stage.face == "threads":
        errors = [program.errors.pop() for program in stage.world.programs.values() if program.errors]
        assert [str(error) for error in errors] == ["of the function"]
