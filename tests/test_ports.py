"""The openings between the parts: nobody fills one by halves, and the parts that say they fill one do.

What goes through them is tested with the parts.
"""

import inspect
from abc import ABC

import pytest

from holdfast.desk import Desk
from holdfast.doors.line import LineConnection
from holdfast.ports import Face, Sink, Store
from holdfast.stores.memory import MemoryStore

OPENINGS = (Sink, Store, Face)


@pytest.mark.parametrize("opening", OPENINGS)
def test_an_opening_alone_is_nothing(opening: type[ABC]) -> None:
    with pytest.raises(TypeError, match="abstract"):
        opening()


@pytest.mark.parametrize("opening", OPENINGS)
def test_whoever_leaves_a_method_out_is_refused(opening: type[ABC]) -> None:
    methods = {name: lambda self, *args: None for name in opening.__abstractmethods__}
    assert isinstance(type("Whole", (opening,), dict(methods))(), opening)
    for name in methods:
        half = type("Half", (opening,), {other: method for other, method in methods.items() if other != name})
        with pytest.raises(TypeError, match=name):
            half()


@pytest.mark.parametrize("opening", OPENINGS)
def test_every_method_says_what_it_is_for(opening: type[ABC]) -> None:
    assert all(inspect.getdoc(getattr(opening, name)) for name in opening.__abstractmethods__)


def test_the_parts_fill_their_openings() -> None:
    assert issubclass(Desk, Sink)
    assert issubclass(MemoryStore, Store)
    assert issubclass(LineConnection, Face)
