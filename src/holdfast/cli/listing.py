"""Listings: rows with columns as a table for people, as CSV for scripts (`--simple`) and as JSON (`--json`).

What is listed, and what the columns mean, stands in the commands.
"""

import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import click

Row = dict[str, Any]

TABLE = "table"
SIMPLE = "simple"
JSON = "json"

WIDTH_LEAST = 40
CELL_LEAST = 8
NOTHING = "-"


def plain(value: Any) -> str:
    """Show a number."""
    return NOTHING if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, its name for scripts, and how a value looks to people."""

    heading: str
    name: str
    show: Callable[[Any], str] = plain
    right: bool = False


def style_options() -> list[click.Parameter]:
    """The two other ways to print a listing."""
    return [
        click.Option(["--json", "style"], flag_value=JSON, help="Print JSON."),
        click.Option(["--simple", "style"], flag_value=SIMPLE, help="Print CSV with a line of headings."),
    ]


def seconds(value: float | None) -> str:
    """Show a length of time to people, in the two units that matter."""
    if value is None:
        return NOTHING
    whole = int(value)
    if value < 10:  # below that, tenths are of interest
        return f"{int(value * 10) / 10:.1f} s"
    for unit, size, smaller, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part:02} {smaller}"
    return f"{whole} s"


def text(value: Any) -> str:
    """Show whatever somebody has sent us: in one line, and with nothing that a terminal would obey."""
    if value is None or value == "":
        return NOTHING
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in str(value))


def width_of(shown: str) -> int:
    """Tell how many places a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in shown
    )


def cut(shown: str, width: int) -> str:
    """Shorten a text to so many places; three points tell that something is missing."""
    if width_of(shown) <= width:
        return shown
    kept = ""
    for one in shown:
        if width_of(kept + one) > width - 1:
            break
        kept += one
    return f"{kept}…"


def table(rows: Iterable[Row], columns: Sequence[Column], width: int) -> list[str]:
    """Lay rows out; a table that is too wide has its widest columns shortened."""
    cells = [[column.heading for column in columns]]
    cells += [[column.show(row.get(column.name)) for column in columns] for row in rows]
    widths = [max(width_of(line[place]) for line in cells) for place in range(len(columns))]
    while sum(widths) + 2 * (len(widths) - 1) > width and max(widths) > CELL_LEAST:
        widths[widths.index(max(widths))] -= 1
    return [_line(line, columns, widths) for line in cells]


def _line(cells: list[str], columns: Sequence[Column], widths: list[int]) -> str:
    parts = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        shown = cut(cell, width)
        room = " " * (width - width_of(shown))
        parts.append(room + shown if column.right else shown + room)
    return "  ".join(parts).rstrip()


def csv(rows: Iterable[Row], columns: Sequence[Column]) -> list[str]:
    """Spell rows for scripts: a line each, whatever is in them."""
    lines = [",".join(column.name for column in columns)]
    return lines + [",".join(_csv_cell(row.get(column.name)) for column in columns) for row in rows]


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    shown = text(value) if isinstance(value, str) and value else str(value)
    return '"' + shown.replace('"', '""') + '"' if any(one in shown for one in ',"') else shown


def paint(shown: str, **style: Any) -> str:
    """Give a text a colour, where a person will see it and has not said no to colours."""
    welcome = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return click.style(shown, **style) if welcome else shown


def terminal_width() -> int:
    """Tell how wide the screen is; whoever reads from a pipe gets whole columns."""
    if not sys.stdout.isatty():
        return 100_000
    return max(WIDTH_LEAST, shutil.get_terminal_size().columns)


def print_listing(
    rows: list[Row], columns: Sequence[Column], style: str | None, *, raw: Any = None, empty: str = ""
) -> None:
    """Print rows in the style that was asked for; `raw` is what JSON shows instead of the rows."""
    if style == JSON:
        print_json(rows if raw is None else raw)
    elif style == SIMPLE:
        click.echo("\n".join(csv(rows, columns)))
    elif rows:
        heading, *lines = table(rows, columns, terminal_width())
        click.echo("\n".join([paint(heading, bold=True), *lines]))
    elif empty:
        click.echo(empty, err=True)


def print_json(value: Any) -> None:
    """Print JSON for people and programs."""
    click.echo(spell_json(value, indent=2))


def spell_json(value: Any, indent: int | None = None) -> str:
    """Spell JSON that people can read, and in which nothing is left that a terminal would obey."""
    lines = json.dumps(value, indent=indent, ensure_ascii=False).split("\n")
    return "\n".join("".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in line) for line in lines)
