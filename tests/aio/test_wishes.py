"""What a caller may say about a lock: each wish reaches the options it is for, and what is left out is as usual."""

import inspect
from datetime import timedelta
from typing import get_type_hints

import pytest

from holdfast import aio, sync
from holdfast.aio import wishes as tasks
from holdfast.client.lease import default_margin_ns
from holdfast.client.options import Options
from holdfast.errors import BadRequest
from holdfast.sync import wishes as threads

SECOND = 1_000_000_000


@pytest.fixture(params=[tasks, threads], ids=["tasks", "threads"])
def module(request):
    return request.param


def test_what_is_left_out_is_as_usual(module):
    options = module.options_for(30.0, None, {}, None)
    assert options == Options(lease_ns=30 * SECOND, margin_ns=default_margin_ns(30 * SECOND))


def test_each_wish_reaches_what_it_is_for(module):
    def hear(held):
        """Be told."""

    wishes = {
        "margin": timedelta(seconds=1),
        "beat_timeout": 5,
        "on_danger": hear,
        "on_lost": hear,
        "on_contended": hear,
        "cancel_on_lost": True,
        "operation": "month end",
        "deadlock": "refuse",
    }
    assert set(wishes) == set(get_type_hints(module.Wishes))
    options = module.options_for(30.0, 2, wishes, 3, mode="CW", limit=4, units=2)
    assert options == Options(
        lease_ns=30 * SECOND,
        patience_ns=2 * SECOND,
        margin_ns=SECOND,
        mode="CW",
        limit=4,
        units=2,
        beat_ns=5 * SECOND,
        on_danger=hear,
        on_lost=hear,
        on_contended=hear,
        cancel_on_lost=True,
        operation="month end",
        refuse_deadlock=True,
    )


def test_the_margin_of_the_client_is_for_locks_that_name_none(module):
    assert module.options_for(30.0, None, {}, 3).margin_ns == 3 * SECOND
    assert module.options_for(30.0, None, {"margin": 0}, 3).margin_ns == 0
    assert module.options_for(30.0, None, {"margin": None}, 3).margin_ns == default_margin_ns(30 * SECOND)
    with pytest.raises(BadRequest, match="leaves nothing"):
        module.options_for(2, None, {}, 3)


@pytest.mark.parametrize("face", [aio, sync], ids=["tasks", "threads"])
@pytest.mark.parametrize(
    "name", ["lock", "rwlock", "semaphore", "try_lock", "enqueue", "all", "election", "locked", "once"]
)
def test_everything_that_can_be_locked_takes_them(face, name):
    parameters = inspect.signature(getattr(face.Client, name)).parameters.values()
    assert [one.name for one in parameters if one.kind is inspect.Parameter.VAR_KEYWORD] == ["wishes"]
    assert any(one.name == "lease" for one in parameters)
