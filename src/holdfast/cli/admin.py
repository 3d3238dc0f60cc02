"""`holdfast admin lock list`: who holds which cluster lock, in the very form in which Shaken Fist's command shows it.

The same list in the form of all our other listings is `holdfast leases list`, in `leases.py`.
"""

import json
from collections.abc import Sequence
from typing import Any

import click

from holdfast.cli.leases_backend import LAPSED, TIME_COLUMNS, WHO_COLUMNS, command, opened, row_of
from holdfast.cli.listing import JSON, SIMPLE, Column, Row, csv, seconds, text, width_of

PRETTY = "pretty"
NOBODY = "None"


def shown(value: Any) -> str:
    """Show a cell; what is missing is spelled as it always was."""
    return NOBODY if value is None else text(value)


COLUMNS = tuple(Column(column.name, column.name, shown) for column in WHO_COLUMNS)
WIDE_COLUMNS = (
    *COLUMNS,
    Column("age", "age_s", seconds),
    Column("time left", "left_s", seconds),
    Column("fence", "fence", shown),
    Column("state", "state", shown),
)


def lock_list(*, backend: str | None, style: str, wide: bool) -> None:
    """List the locks: which, and by which process of which node, for what.

    A lock whose holder has let its lease lapse stays in the list until somebody takes it; --wide tells which those are.
    """
    with opened(backend) as leases:
        found = leases.list()
    rows = [row_of(lease) for lease in found]
    if style == JSON:
        told = {row["lock"]: dict(lease.holder) for row, lease in zip(rows, found, strict=True)}
        if wide:
            for row in rows:
                told[row["lock"]] |= times_of(row)
        click.echo(json.dumps(told, indent=4, sort_keys=True))
    elif style == SIMPLE:
        every = [{name: NOBODY if value is None else value for name, value in row.items()} for row in rows]
        columns = (*WHO_COLUMNS, *TIME_COLUMNS) if wide else WHO_COLUMNS
        click.echo("\n".join(csv(every, columns)))
    else:
        click.echo("\n".join(framed(rows, WIDE_COLUMNS if wide else COLUMNS)))


def times_of(row: Row) -> dict[str, Any]:
    """Tell of a lock what --wide adds."""
    return {name: row[name] for name in ("age_s", "left_s", "fence")} | {"lapsed": row["state"] == LAPSED}


def framed(rows: Sequence[Row], columns: Sequence[Column]) -> list[str]:
    """Draw a table with a frame, its cells in the middle; without rows there are the headings alone."""
    lines = [[column.heading for column in columns]]
    lines += [[column.show(row.get(column.name)) for column in columns] for row in rows]
    widths = [max(width_of(line[place]) for line in lines) for place in range(len(columns))]
    border = "+".join(["", *("-" * (width + 2) for width in widths), ""])
    heading, *cells = ["|".join(["", *map(centred, line, widths), ""]) for line in lines]
    return [border, heading, border, *cells, border]


def centred(cell: str, width: int) -> str:
    """Put a cell in the middle; of an odd rest, an even cell has more before it, and an odd one behind it."""
    rest = width - width_of(cell)
    before = rest // 2 + (rest % 2 and width_of(cell) % 2 == 0)
    return f" {' ' * before}{cell}{' ' * (rest - before)} "


def admin_command() -> click.Command:
    """Build the group of groups that the original has."""
    listing = command(
        "list",
        lock_list,
        [
            click.Option(["--pretty", "style"], flag_value=PRETTY, default=True, help="Print a table, as without any."),
            click.Option(["--simple", "style"], flag_value=SIMPLE, help="Print CSV with a line of headings."),
            click.Option(["--json", "style"], flag_value=JSON, help="Print JSON: an object for each lock."),
            click.Option(["--wide"], is_flag=True, help="Add age, time left, fence, and whether the lease has lapsed."),
        ],
    )
    lock = click.Group("lock", commands=[listing], help="Cluster locks in a database.")
    return click.Group(
        "admin", commands=[lock], help="Show cluster locks as Shaken Fist's command line does: `admin lock list`."
    )
