"""Each operation is cut off at each of its awaits, before and after what it waits for has come: nothing is left over.

In the blocking face it is interrupted in each call that may block, as by Ctrl-C. What the program still knows of it can
give back; of everything else the server is rid within seconds, and long before a lease would end.
"""

import asyncio
import itertools
import types

import pytest

from tests.aio import operations
from tests.aio.client_faces import Stage, VirtualStage, drive
from tests.aio.operations import NAMES, OPERATIONS, Scene

STEPS_MAX = 200
# An election waits in a thread of its own, which no signal reaches.
IN_ITS_THREAD = [
    pytest.param(*case, id=name)
    for case, name in zip(OPERATIONS, NAMES, strict=True)
    if case[1] is not operations.elected
]


class Interrupted(BaseException):
    """As Ctrl-C, but nobody else's."""


@types.coroutine
def cancelled_at(work, step, *, late):
    """Go on as the coroutine does, and cancel it once, in its await of this number; answer how many there were.

    Late is when what it waits for has come, and it does not know yet.
    """
    task = asyncio.current_task()
    value, error = None, None
    for number in itertools.count():
        try:
            future = work.send(value) if error is None else work.throw(error)
        except StopIteration:
            return number
        value, error = None, None
        if number == step and future is not None and late:
            future.add_done_callback(lambda _: task.cancel())
        elif number == step:
            asyncio.get_running_loop().call_soon(task.cancel)
        try:
            value = yield future
        except BaseException as caught:  # noqa: BLE001  what it is told is for the coroutine to deal with
            error = caught


async def whole(steps):
    return await steps


def known_of(hf):
    """Count what a program knows that it holds."""
    return sum(len(server.steward.kept) for server in getattr(hf, "inner", hf)._servers)


def waiters(stage):
    """List the keys at which somebody waits, or wants another mode."""
    resources = stage.world.server.run.table.resources.values()
    return [resource.key for resource in resources if resource.waiting or resource.converting]


async def nothing_is_left_over(stage, hf, where):
    """Look at the server a while later, before and after the program has come to its end."""
    await stage.sleep(5)
    assert len(list(stage.world.server.holdings())) == sum(map(known_of, stage.clients)), where
    assert waiters(stage) == [], where
    await hf.close()
    await stage.sleep(25)
    assert list(stage.world.server.holdings()) == [], where


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("scheme", "operation"), OPERATIONS, ids=NAMES)
def test_a_task_that_is_cancelled_at_any_await_leaves_nothing(scheme, operation, late):
    steps = next(step for step in range(STEPS_MAX) if cancelled(scheme, operation, step, late=late) <= step)
    assert steps > 0


def cancelled(scheme, operation, step, *, late):
    """Cancel one await of an operation; say how many there were."""
    stage = VirtualStage("tasks", scheme)
    counted = [STEPS_MAX]

    async def story():
        hf = stage.connect("ours")
        stage.world.net.delay(0.01)
        task = asyncio.ensure_future(whole(cancelled_at(operation(hf, Scene(stage)), step, late=late)))
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        if isinstance(outcome, int):
            counted[0] = outcome
        else:
            assert isinstance(outcome, asyncio.CancelledError), (step, outcome)
        await nothing_is_left_over(stage, hf, step)

    with stage.world:
        stage.play(story)
    return counted[0]


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_cancelling_at_any_await_leaves_nothing_over_http(servers, store, late):
    """Here time is real, so all of it happens at once: whoever comes next need not wait for a lease to end."""
    server = servers[store]
    stage = Stage("tasks", f"http://{server.http_host}:{server.http_port}")

    async def work(hf, key):
        async with hf.lock(key, lease=60) as held:
            await held.renew()

    async def one(step):
        hf, key = stage.connect(), stage.key(str(step))
        task = asyncio.ensure_future(whole(cancelled_at(work(hf, key), step, late=late)))
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        async with stage.connect().lock(key, patience=15):
            return outcome

    async def story():
        outcomes = await asyncio.gather(*map(one, range(6)))
        assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError] * 3 + [int] * 3

    stage.play(story)


@pytest.mark.parametrize(("scheme", "operation"), IN_ITS_THREAD)
def test_a_thread_that_is_interrupted_in_any_call_leaves_nothing(scheme, operation):
    calls = next(call for call in range(STEPS_MAX) if not interrupted(scheme, operation, call))
    assert calls > 0


def interrupted(scheme, operation, call):
    """Interrupt the call of this number that may block; say whether there was one."""
    stage = VirtualStage("threads", scheme)
    numbers = itertools.count()
    found = []

    def interrupt(what):
        if stage.world.turns.must_have_turn() is main[0] and next(numbers) == call:
            found.append(what)
            raise Interrupted

    async def story():
        hf = stage.connect("ours")
        program = stage.world.program("ours")
        stage.world.net.delay(0.01)
        scene = Scene(stage)
        main.append(stage.world.turns.must_have_turn())
        program.blocking = interrupt
        try:
            drive(operation(hf, scene))
        except Interrupted:
            assert found
        finally:
            program.blocking = lambda what: None
        await nothing_is_left_over(stage, hf, (call, found))

    main = []
    with stage.world:
        stage.play(story)
    return bool(found)
