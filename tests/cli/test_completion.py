"""Completion of command lines: the script for each shell, and what a tab then offers."""

import subprocess
import sys

import pytest
from click.shell_completion import get_completion_class

from holdfast.cli.completion import VARIABLE
from holdfast.cli.main import holdfast as program
from tests.cli.look_stage import holdfast, shown
from tests.cli.run_user import environment


def offered(line):
    """Press tab behind a command line; answers what is offered, and of which kind it is."""
    _, *words, incomplete = line.split(" ")
    bash = get_completion_class("bash")(program, {}, "holdfast", VARIABLE)
    return {found.value: found.type for found in bash.get_completions(words, incomplete)}


@pytest.mark.parametrize(
    ("shell", "sign"), [("bash", "complete -o nosort"), ("zsh", "#compdef holdfast"), ("fish", "complete --no-files")]
)
def test_there_is_a_script_for_each_shell_that_asks_us(shell, sign):
    script = shown("completion", shell, server=None)
    assert sign in script
    assert f"_HOLDFAST_COMPLETE={shell}_complete" in script


def test_bash_understands_its_script(tmp_path):
    (tmp_path / "holdfast").write_text(shown("completion", "bash", server=None))
    done = subprocess.run(
        ["bash", "--norc", "-c", f". {tmp_path}/holdfast && complete -p holdfast"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "-F _holdfast_completion holdfast" in done.stdout


def test_no_other_shell_is_known():
    result = holdfast("completion", "cmd.exe")
    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.stderr


def test_a_tab_is_answered_by_the_program_itself():
    pressed = {VARIABLE: "bash_complete", "COMP_WORDS": "holdfast se", "COMP_CWORD": "1"}
    answer = subprocess.run(
        [sys.executable, "-c", "from holdfast.cli.main import main; main()"],
        env=environment("holdfast://127.0.0.1:1") | pressed,
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == "plain,serve\n"


def test_commands_options_and_choices_are_offered():
    assert {"run", "ls", "explain", "doctor"} <= set(offered("holdfast "))
    assert {"--try", "--wait", "--min-hold", "--server"} <= set(offered("holdfast run --"))
    assert set(offered("holdfast run --on-lost ")) == {"kill", "term", "warn"}
    assert set(offered("holdfast run KEY --on-lost ")) == {"kill", "term", "warn"}
    assert set(offered("holdfast ls --kind ")) == {"lock", "semaphore"}


def test_the_command_to_run_is_completed_by_the_shell_itself():
    for line in ("holdfast run KEY ", "holdfast run KEY -- ./scr", "holdfast run KEY -- rm --"):
        assert offered(line) == {"": "file"}
    assert offered("holdfast run KEY") == {}
