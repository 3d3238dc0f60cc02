"""Planting a bug changes one function for a while, wherever it is used, and refuses what does not fit.

Whether the bugs are caught is tested in test_bugs.py.
"""

from contextlib import suppress

import pytest

from holdfast.engine import claim, resource, serve
from holdfast.engine.table import Table
from holdfast.stores.journal import Journal
from sim.planting import Bug, DoesNotFitError, Patch, planted


def bug(*patches: tuple[str, str, str]) -> Bug:
    return Bug("sample", "for this test", tuple(Patch(*patch) for patch in patches))


def test_a_function_is_changed_for_everybody_who_uses_it_and_comes_back() -> None:
    fits = resource.fits
    with planted(bug(("engine.resource:fits", "return not", "return"))):
        assert resource.fits is not fits
        assert claim.fits is serve.fits is resource.fits
    assert claim.fits is serve.fits is resource.fits is fits


def test_a_method_is_changed_and_comes_back_also_after_a_failure() -> None:
    sweep = Table.sweep
    dropped = 0
    with suppress(ZeroDivisionError), planted(bug(("engine.table:Table.sweep", "dropped = 0", "dropped = 7"))):
        dropped = Table(lambda last: (0, b""), 1, 1, 1).sweep(0)
        raise ZeroDivisionError
    assert dropped == 7
    assert Table.sweep is sweep


def test_a_class_method_stays_one() -> None:
    with planted(bug(("stores.journal:Journal.open", "name = os.fspath(path)", "return None"))):
        assert Journal.open("nowhere", 0) is None


def test_pieces_of_one_function_are_exchanged_together() -> None:
    pieces = ("self._idle", "()"), ("SWEEP_MAX", "0")
    with planted(bug(*(("engine.table:Table.sweep", *piece) for piece in pieces))):
        assert Table.sweep.__code__.co_names.count("_idle") == 0


@pytest.mark.parametrize("old", ["no such text", "idle"])
def test_text_that_is_not_there_just_once_is_refused(old: str) -> None:
    with (
        pytest.raises(DoesNotFitError, match="times, and not once"),
        planted(bug(("engine.table:Table.sweep", old, ""))),
    ):
        pass


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(DoesNotFitError, match="no plain Python function"), planted(bug(("words:CLASH", "a", "b"))):
        pass
