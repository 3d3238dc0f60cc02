"""The mirror rule is tried on small trees of our making, and on the repository itself by `make check`.

No test here looks at the real sources: a missing test file is the checker's news, not its failure.
"""

from pathlib import Path

import pytest

from tools.mirror import main, unmirrored


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make a package of one tested file, in a folder of the package."""
    for name in ("src/engine/__init__.py", "src/engine/rules.py", "tests/engine/test_rules.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def test_a_tree_with_every_mirror_is_whole(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(tree / "src", tree / "tests") == 0
    assert capsys.readouterr().out == ""


def test_a_file_without_a_test_is_named_with_the_place_of_its_test(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "src/engine/queue.py").touch()
    assert main(tree / "src", tree / "tests") == 1
    printed = capsys.readouterr().out
    assert "queue.py" in printed
    assert str(tree / "tests/engine/test_queue.py") in printed


def test_a_test_in_another_folder_does_not_count(tree: Path) -> None:
    (tree / "src/rules.py").touch()
    assert unmirrored(tree / "src", tree / "tests") == [(tree / "src/rules.py", tree / "tests/test_rules.py")]


def test_package_and_program_openings_need_no_test(tree: Path) -> None:
    (tree / "src/__main__.py").touch()
    (tree / "src/__init__.py").touch()
    assert unmirrored(tree / "src", tree / "tests") == []


def test_what_was_made_from_a_file_is_tested_by_the_test_of_that_file(tree: Path) -> None:
    (tree / "src/copy").mkdir()
    (tree / "src/copy/rules.py").write_text("# Made from engine/rules.py by tools/faces.py: change that one.\n")
    (tree / "src/copy/queue.py").write_text("# Made from engine/queue.py by tools/faces.py: change that one.\n")
    missing = unmirrored(tree / "src", tree / "tests")
    assert missing == [(tree / "src/copy/queue.py", tree / "tests/engine/test_queue.py")]
