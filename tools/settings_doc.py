"""Write the tables of settings in the documentation from the definitions in the code.

`python -m tools.settings_doc` brings the pages up to date, and a test says when they are not; no setting is named here.
"""

import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from holdfast.cli import dflockd
from holdfast.config import SETTINGS
from holdfast.settings import COUNT_MAX, Kind, Setting

FOLDER = Path("docs/operate")
WHOLE_NUMBERS = (Kind.SECONDS, Kind.COUNT, Kind.BYTES)
UNITS = {Kind.SECONDS: " s", Kind.BYTES: " bytes"}

# Between these lines of a page stands the table; what is around it is written by hand.
BEGIN = "<!-- The table is made by `python -m tools.settings_doc`. -->"
END = "<!-- The table ends. -->"


def row(cells: Iterable[str]) -> str:
    """Write one row of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table(headings: list[str], rows: Iterable[Iterable[str]]) -> str:
    """Write a whole table."""
    return "\n".join([row(headings), row(["---"] * len(headings)), *map(row, rows)])


def values(setting: Setting) -> str:
    """Say briefly what a setting takes."""
    if setting.most == COUNT_MAX and setting.kind is Kind.COUNT:
        return f"{setting.least} or more"
    if setting.kind in WHOLE_NUMBERS:
        return f"{setting.least} to {setting.most}{UNITS.get(setting.kind, '')}"
    if setting.kind is Kind.CHOICE:
        return ", ".join(f"`{word}`" for word in setting.choices)
    return setting.kind.value.lower() if setting.kind is not Kind.BOOLEAN else "true or false"


def default(setting: Setting) -> str:
    """Show the default as code, and the lack of one in plain words."""
    return setting.shown() if setting.shown() == "unset" else f"`{setting.shown()}`"


def serve_tables() -> str:
    """Write the settings of `holdfast serve`, a table for each group."""
    parts = []
    for group, members in groupby(SETTINGS.values(), key=lambda setting: setting.group):
        rows = [[f"`{s.flag}`", f"`{s.variable}`", default(s), values(s), s.help] for s in members]
        parts.append(f"## {group}\n\n" + table(["flag", "variable", "default", "takes", "meaning"], rows))
    return "\n\n".join(parts)


def dflockd_table() -> str:
    """Write the flags of `holdfast dflockd`, with the name that each goes by in `holdfast serve`."""
    rows = []
    for setting in dflockd.TABLE:
        ours = SETTINGS.get(setting.field)
        serve = f"`{ours.flag}`" if ours else dflockd.COUNTERPARTS.get(setting.name, "")
        rows.append([f"`{setting.flag}`", f"`{setting.variable}`", default(setting), values(setting), serve])
    rows.append(["`--version`", "", "", "", "`--version`"])
    return table(["flag", "variable", "default", "takes", "in `holdfast serve`"], rows)


PAGES = {"settings.md": serve_tables, "dflockd.md": dflockd_table}


def renewed(page: str, content: str) -> str:
    """Put `content` between the two marks of a page."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"the page lacks the lines {BEGIN!r} and {END!r}, in this order")
    return f"{before}{BEGIN}\n\n{content}\n\n{END}{after}"


def main(folder: Path = FOLDER) -> int:
    """Bring every page up to date; answer the exit code."""
    for name, make in PAGES.items():
        page = folder / name
        page.write_text(renewed(page.read_text(encoding="utf-8"), make()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
