"""`holdfast top`: who holds what, on a screen that stays up to date.

How a row comes about is told in `look.py`; here they are put in order and drawn.
"""

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

import click

from holdfast.cli.calling import Seconds, command, kind_choice, url_of, without_token
from holdfast.cli.listing import paint, table, terminal_width
from holdfast.cli.look import COLUMNS, in_use, key_rows, looking

HOME, CLEAR_REST, CLEAR_TO_END_OF_LINE = "\x1b[H", "\x1b[J", "\x1b[K"
OTHER_SCREEN, FIRST_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
ROWS_WITHOUT_SCREEN = 1000
# The line on top, the empty one below it, the headings, and the line that counts what is not shown.
LINES_AROUND = 4


def top(prefix: str, *, server: str | None, kind: str | None, interval_s: float, count: int | None) -> None:
    """Show who holds what, and keep it up to date; who has held for longest stands first.

    PREFIX shows only keys that begin with it. Ends with Ctrl-C.
    """
    on_screen = sys.stdout.isatty()
    with suppress(KeyboardInterrupt), screen(on_screen=on_screen), looking(server, prefix, kind) as look:
        number = 0
        while True:
            height = shutil.get_terminal_size().lines if on_screen else ROWS_WITHOUT_SCREEN
            lines = picture([view for view in look() if in_use(view)], without_token(url_of(server)), height)
            draw(lines, on_screen=on_screen)
            number += 1
            if number == count:
                return
            time.sleep(interval_s)


@contextmanager
def screen(*, on_screen: bool) -> Iterator[None]:
    """Draw on a screen of our own, and leave what was there before as it was."""
    if not on_screen:
        yield
        return
    click.echo(OTHER_SCREEN + HIDE_CURSOR, nl=False)
    try:
        yield
    finally:
        click.echo(SHOW_CURSOR + FIRST_SCREEN, nl=False)


def picture(views: list[dict[str, Any]], url: str, height: int) -> list[str]:
    """Draw everything once, in so many lines at most."""
    rows = [row for view in views for row in key_rows(view)]
    rows.sort(key=lambda row: -(row.get("held_s") or 0.0))
    held, waiting = sum("state" in row for row in rows), sum(view.get("waiting", 0) for view in views)
    now = datetime.now().strftime("%H:%M:%S")
    room = max(1, height - LINES_AROUND)
    headings, *shown = table(rows[:room], COLUMNS, terminal_width())
    lines = [
        f"{url}  {now}  {len(views)} {'key' if len(views) == 1 else 'keys'} in use, {held} held, {waiting} waiting",
        "",
        paint(headings, bold=True),
        *shown,
    ]
    return lines + ([f"and {len(rows) - room} more"] if len(rows) > room else [])


def draw(lines: list[str], *, on_screen: bool) -> None:
    """Bring a picture to the screen, over the one before; without a screen, below it."""
    if on_screen:
        # The last line has no end: on the last row of a screen, that would scroll.
        body = "\n".join(f"{line}{CLEAR_TO_END_OF_LINE}" for line in lines)
        click.echo(f"{HOME}{body}{CLEAR_REST}", nl=False)
    else:
        click.echo("\n".join([*lines, ""]))


def top_command() -> click.Command:
    """Build the click command."""
    interval = Seconds(0.1, 3600)
    return command(
        "top",
        top,
        [
            click.Argument(["prefix"], default=""),
            kind_choice("Show only these."),
            click.Option(
                ["--interval", "interval_s"],
                type=interval,
                default="2",
                metavar="SECONDS",
                help="Time between two pictures.",
            ),
            click.Option(["--count", "-c"], type=click.IntRange(1), metavar="N", help="End after so many pictures."),
        ],
    )
