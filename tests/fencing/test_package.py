"""The guards are found under one name each, and what is not asked for is not loaded.

What each of them does is tested in a file of its own.
"""

import subprocess
import sys

import pytest

from holdfast import fencing


@pytest.mark.parametrize("name", fencing.__all__)
def test_every_guard_is_found(name):
    assert getattr(fencing, name).__name__ == name


def test_a_name_that_is_none_is_no_attribute():
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        fencing.Nonsense  # noqa: B018  looking is the test


def test_what_is_not_asked_for_is_not_loaded():
    code = "import sys, holdfast.fencing; print({'fcntl', 'asyncio', 'msgspec'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
