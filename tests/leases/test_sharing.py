"""One backend for each URL, in each process and in each event loop."""

import asyncio

import pytest

from holdfast.errors import ConfigError
from holdfast.leases.sharing import BACKEND_VARIABLE, Shared, backend_of, in_loop, named, place_of, shared
from tests.client.forks import in_child
from tests.leases.paper import PaperBackend


def test_locks_with_one_url_share_a_backend_and_those_with_another_do_not(tmp_path):
    first, second = f"sqlite:{tmp_path / 'a.db'}", f"sqlite:{tmp_path / 'b.db'}"
    assert backend_of(first) is backend_of(first)
    assert backend_of(first) is not backend_of(second)


def test_an_object_that_is_a_backend_is_taken_as_it_is():
    paper = PaperBackend(lambda: 0)
    assert backend_of(paper) is paper


def test_the_environment_names_the_backend_where_nobody_else_does(monkeypatch):
    monkeypatch.setenv(BACKEND_VARIABLE, "sqlite:here")
    assert named(None) == "sqlite:here"
    assert named("sqlite:there") == "sqlite:there"
    monkeypatch.delenv(BACKEND_VARIABLE)
    with pytest.raises(ConfigError, match="HOLDFAST_BACKEND"):
        named(None)


def test_places_are_equal_where_backends_are():
    paper = PaperBackend(lambda: 0)
    assert place_of("sqlite:" + "here") == place_of("sqlite:here")
    assert place_of(paper) == place_of(paper) != place_of(PaperBackend(lambda: 0))
    assert place_of([]) != place_of({})


def test_a_child_of_a_fork_makes_its_own_and_closes_none_of_its_parent():
    made = shared.get("a test", object)
    assert in_child(lambda: shared.get("a test", object) is made) == "False"
    assert shared.get("a test", list) is made


def test_what_failed_to_open_is_opened_again():
    kept = Shared()
    with pytest.raises(ZeroDivisionError):
        kept.get("a", lambda: 1 // 0)
    assert kept.get("a", lambda: 5) == 5


def test_each_loop_has_its_own():
    async def main():
        assert in_loop("a test", list) is in_loop("a test", list)
        return in_loop("a test", list)

    assert asyncio.run(main()) is not asyncio.run(main())
