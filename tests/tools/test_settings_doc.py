"""The pages of settings say what the code says.

That the hand-written words around the tables are true is for a reader to judge.
"""

import pytest

from holdfast.cli import dflockd
from holdfast.cli.dflockd import TABLE
from holdfast.config import SETTINGS
from tools.settings_doc import BEGIN, END, FOLDER, PAGES, dflockd_table, main, renewed, row, serve_tables


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_is_the_generated_one(name):
    page = (FOLDER / name).read_text(encoding="utf-8")
    assert page == renewed(page, PAGES[name]()), "run: python -m tools.settings_doc"


def test_every_setting_of_serve_has_a_row_under_its_heading():
    text = serve_tables()
    for setting in SETTINGS.values():
        section = text.partition(f"## {setting.group}\n")[2].partition("\n## ")[0]
        assert f"| `{setting.flag}` | `{setting.variable}` | " in section
        assert setting.help in section


def test_every_flag_of_dflockd_has_a_row_with_its_name_in_serve():
    text = dflockd_table()
    for setting in TABLE:
        (line,) = [line for line in text.splitlines() if line.startswith(f"| `{setting.flag}` |")]
        assert f"| `{setting.variable}` |" in line
        if setting.field in SETTINGS:
            assert line.endswith(f"| `{SETTINGS[setting.field].flag}` |")
        else:
            assert line.endswith(f"| {dflockd.COUNTERPARTS.get(setting.name, '')} |")


def test_limits_choices_and_defaults_are_shown():
    text = serve_tables()
    assert "| `--line-read-timeout` | `HOLDFAST_LINE_READ_TIMEOUT` | `23` | 1 to 9223372036 s |" in text
    assert "| `65536` | 4096 to 1073741824 bytes |" in text
    assert "| `--keys-max` | `HOLDFAST_KEYS_MAX` | `1000000` | 1 or more |" in text
    assert "| `auto` | `auto`, `text`, `json` |" in text
    assert "| `true` | true or false |" in text
    assert "| `--tls-key` | `HOLDFAST_TLS_KEY` | unset | file |" in text


def test_a_bar_in_a_cell_does_not_end_it():
    assert row(["a|b", "c"]) == "| a\\|b | c |"


def test_only_what_stands_between_the_marks_is_renewed():
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert renewed(page, "new") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"


@pytest.mark.parametrize("page", ["", BEGIN, END, f"{END}{BEGIN}"])
def test_a_page_without_marks_is_refused(page):
    with pytest.raises(ValueError, match="lacks"):
        renewed(page, "new")


def test_main_brings_a_folder_up_to_date(tmp_path):
    for name in PAGES:
        (tmp_path / name).write_text(f"# {name}\n{BEGIN}{END}\n", encoding="utf-8")
    assert main(tmp_path) == 0
    for name, make in PAGES.items():
        assert make() in (tmp_path / name).read_text(encoding="utf-8")
