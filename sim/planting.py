"""Planting a bug: one function of the service is compiled once more with a piece of its text exchanged.

A piece that is not there any more fails at once, so that no bug in the list goes stale unseen. Which bugs there are
stands in `bugs.py`.
"""

import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

PACKAGE = "holdfast"


class DoesNotFitError(Exception):
    """The code is not what the bug expects."""


@dataclass(frozen=True, slots=True)
class Patch:
    """One piece of text in one function: `where` is module:function or module:Class.method below the package."""

    where: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Bug:
    """A mistake that somebody could make, and that the simulator has to find."""

    name: str
    about: str
    patches: tuple[Patch, ...]


def bug(name: str, about: str, *pieces: tuple[str, str, str]) -> Bug:
    """Spell a bug; a piece is where, what is there, and what stands there instead."""
    return Bug(name, about, tuple(Patch(*piece) for piece in pieces))


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """Let the service have this bug for a while."""
    with ExitStack() as stack:
        for where in dict.fromkeys(patch.where for patch in bug.patches):
            stack.enter_context(_patched(where, [patch for patch in bug.patches if patch.where == where]))
        yield


@contextmanager
def _patched(where: str, patches: list[Patch]) -> Iterator[None]:
    module_name, _, path = where.partition(":")
    module = importlib.import_module(f"{PACKAGE}.{module_name}")
    *owners, name = path.split(".")
    owner: Any = getattr(module, owners[0]) if owners else module
    original = inspect.getattr_static(owner, name)
    mutant = _rewrite(where, patches, module, original)
    places = [owner] if owners else _users(name, original)
    for place in places:
        setattr(place, name, mutant)
    try:
        yield
    finally:
        for place in places:
            setattr(place, name, original)


def _users(name: str, original: object) -> list[ModuleType]:
    """Find every module that has this function by this name."""
    modules = [module for key, module in sys.modules.items() if key.partition(".")[0] == PACKAGE]
    return [module for module in modules if getattr(module, name, None) is original]


def _rewrite(where: str, patches: list[Patch], module: ModuleType, original: object) -> object:
    function: Any = getattr(original, "__func__", original)
    if not inspect.isfunction(function):
        raise DoesNotFitError(f"{where} is no plain Python function")
    text = textwrap.dedent(inspect.getsource(function))
    for patch in patches:
        if text.count(patch.old) != 1:
            raise DoesNotFitError(f"{where} has {text.count(patch.old)} times, and not once: {patch.old}")
        text = text.replace(patch.old, patch.new)
    scratch: dict[str, object] = {}
    exec(compile(text, f"<{where}>", "exec"), module.__dict__, scratch)
    return scratch[function.__name__]
