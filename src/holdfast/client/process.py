"""Which process this is: a number that changes in the child of a fork, and who wants to know of one.

A child holds nothing of its parent's, so whatever belongs to a process remembers the number it was made under.
"""

import os
from collections.abc import Callable

_generation = 0
_listeners: list[Callable[[], None]] = []


def generation() -> int:
    """Tell how many forks lie between this process and the one that loaded the module."""
    return _generation


def on_fork(listener: Callable[[], None]) -> None:
    """Have a function called in each child, for as long as the process lives; meant for whole modules."""
    _listeners.append(listener)


def _after_fork() -> None:
    global _generation  # noqa: PLW0603  it is what this module is about
    _generation += 1
    for listener in _listeners:
        listener()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
