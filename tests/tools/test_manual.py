"""The manual page says what the commands say."""

import click
import pytest

from holdfast.cli.main import PLACES, SECTIONS, holdfast
from holdfast.errors import SPELLINGS
from tools.manual import PAGE, escaped, item, main, page, paragraphs, prose


def test_the_committed_page_is_the_generated_one():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tools.manual"


def test_the_tool_brings_a_page_up_to_date(tmp_path):
    assert main(tmp_path / "page.1") == 0
    assert (tmp_path / "page.1").read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("name", PLACES)
def test_every_command_is_there_with_all_its_options(name):
    text = page()
    _, _, rest = text.partition(f".SS {name}\n")
    section = rest.partition("\n.SS ")[0]
    found = holdfast.get_command(click.Context(holdfast), name)
    for param in found.params:
        if isinstance(param, click.Option) and param.help and not param.hidden:
            assert escaped(param.opts[0]) in section


def test_headings_and_exit_codes_are_those_of_the_program():
    text = page()
    for heading in SECTIONS:
        assert f"\n.SH {heading.upper()}\n" in text
    status = text.partition(".SH EXIT STATUS\n")[2]
    for spelling in SPELLINGS.values():
        assert f".TP\n\\fB{spelling.exit_code}\\fP\n" in status


def test_nothing_is_taken_for_an_order_to_the_formatter():
    assert escaped(".SH not a heading") == "\\&.SH not a heading"
    assert escaped("'x") == "\\&'x"
    assert escaped("a\\b --try") == "a\\eb \\-\\-try"
    assert all(not line.startswith("'") for line in page().splitlines())


def test_what_is_to_be_typed_stands_out_and_lines_that_are_to_stay_do():
    assert prose("see `holdfast ls`") == "see \\fBholdfast ls\\fP"
    assert list(paragraphs("One\ntwo.\n\n\b\nthree\nfour")) == [".PP\nOne two.", ".PP\n.nf\nthree\nfour\n.fi"]
    assert item("--x", "Y.") == ".TP\n\\fB\\-\\-x\\fP\nY."
