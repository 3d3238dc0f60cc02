"""From a Config to an exit code.

The server itself is not started here; see its own tests.
"""

import subprocess
import sys

import pytest

from holdfast.cli.launch import FILE_CHARACTERS_MAX, launch, read_file
from holdfast.config import Config
from holdfast.errors import ConfigError, FenceFileError
from holdfast.testing.process import environment


def refuse():
    raise ConfigError("keys_max must be more")


def test_the_server_gets_the_config_and_gives_the_exit_code(started):
    config = Config(keys_max=5)
    assert launch(lambda: config) == 0
    assert started == [config]


def test_a_bad_setting_is_one_line_and_exit_code_1(started, capsys):
    assert launch(refuse) == 1
    assert capsys.readouterr() == ("", "holdfast: keys_max must be more\n")
    assert started == []


def test_a_setting_that_only_the_server_can_judge_ends_the_same_way(started, monkeypatch, capsys):
    def fail(config):
        raise FenceFileError(f"{config.store} is in use")

    monkeypatch.setattr(sys.modules["holdfast.server"], "run", fail)
    assert launch(Config) == 1
    assert capsys.readouterr().err == "holdfast: sqlite:holdfast.db is in use\n"


def test_a_fault_of_ours_is_not_dressed_up_as_a_bad_setting(started, monkeypatch):
    monkeypatch.setattr(sys.modules["holdfast.server"], "run", lambda config: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        launch(Config)


def test_a_file_is_read_byte_for_byte(tmp_path):
    file = tmp_path / "token"
    file.write_bytes(b"a\r\nb\rc\xff\n")
    assert read_file(str(file)).encode("utf-8", "surrogateescape") == b"a\r\nb\rc\xff\n"


def test_a_file_without_end_is_read_in_part():
    assert read_file("/dev/zero") == "\0" * FILE_CHARACTERS_MAX


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_file(str(tmp_path / "nothing"))


def test_nothing_of_ours_takes_the_place_of_a_standard_file_that_is_closed():
    program = (
        "import os; from holdfast.cli.launch import open_standard_files;"
        " os.close(0); os.close(2); open_standard_files();"
        " print([os.readlink(f'/proc/self/fd/{file}') for file in (0, 2)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout == "['/dev/null', '/dev/null']\n"
