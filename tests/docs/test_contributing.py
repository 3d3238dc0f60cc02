"""What CONTRIBUTING.md names is there: files, folders and targets of the Makefile.

Its advice is for a reader to judge.
"""

import re

import pytest

from tests.docs.pages import ROOT, code, read

NAMED = code(read("CONTRIBUTING.md"))
FILES = sorted({text for text in NAMED if re.fullmatch(r"[\w/]+(/[\w-]+|/|\.(py|md|toml|sh))", text)})
TARGETS = sorted({text.removeprefix("make ") for text in NAMED if text.startswith("make ")})


@pytest.mark.parametrize("path", FILES)
def test_a_file_that_is_named_exists(path):
    assert (ROOT / path).exists() or (ROOT / "src/holdfast" / path).exists()


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_that_is_named_exists(target):
    assert re.search(rf"^{target}:", read("Makefile"), flags=re.MULTILINE)
