"""`holdfast watch` and `holdfast top`: what happens to keys as it happens, and a listing that stays up to date.

Both end with Ctrl-C, or after a number of events or pictures, so that scripts can use them.
"""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

import click

from holdfast.cli.calling import Seconds, command, native_only, opened, url_of, without_token
from holdfast.cli.explain import cycle_lines
from holdfast.cli.listing import JSON, SIMPLE, Column, csv, style_options, table, terminal_width, text
from holdfast.cli.look import COLUMNS, in_use, key_rows, views_of

EVENT_COLUMNS = tuple(Column(name, name, text) for name in ("time", "event", "what", "kind", "key"))
HOME, CLEAR_REST, CLEAR_TO_END_OF_LINE = "\x1b[H", "\x1b[J", "\x1b[K"
OTHER_SCREEN, FIRST_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
ROWS_WITHOUT_SCREEN = 1000


def watch(
    prefix: str,
    *,
    server: str | None,
    key: str | None,
    kind: str | None,
    deadlocks: bool,
    count: int,
    style: str | None,
) -> None:
    """Print what happens to keys as it happens.

    PREFIX watches all keys that begin with it. Each line is one change: granted, ended, queued, renewed or converted.
    With --json, each line is one JSON object.
    """
    native_only(server, "watch")
    if style == SIMPLE:
        click.echo(",".join(column.name for column in EVENT_COLUMNS))
    where = {"key": key} if key is not None else {"prefix": prefix}
    with opened(server) as client, suppress(KeyboardInterrupt):
        wishes: dict[str, Any] = {"deadlocks": True} if deadlocks else {**where, "kind": kind}
        for number, event in enumerate(client.watch(**wishes), 1):
            print_event(event, style)
            if number == count:
                return


def print_event(event: dict[str, Any], style: str | None) -> None:
    """Print one event; whoever reads it should have it at once."""
    row = {"time": datetime.now().astimezone().isoformat(timespec="milliseconds"), **event}
    if style == JSON:
        click.echo(json.dumps(row, ensure_ascii=False))
    elif event.get("event") == "deadlock":
        for line in cycle_lines(event.get("cycle", [])):
            click.echo(line)
    elif style == SIMPLE:
        click.echo(csv([row], EVENT_COLUMNS)[1])
    else:
        shown = [row["time"][11:23], f"{text(event.get('what') or event.get('event')):9}", text(event.get("key"))]
        click.echo("  ".join(shown) + ("  (semaphore)" if event.get("kind") == "semaphore" else ""))
    sys.stdout.flush()


def top(prefix: str, *, server: str | None, kind: str | None, interval_s: float, count: int) -> None:
    """Show who holds what, again and again; who holds for longest stands first.

    PREFIX shows only keys that begin with it. Ends with Ctrl-C.
    """
    on_screen = sys.stdout.isatty()
    if on_screen:
        click.echo(OTHER_SCREEN, nl=False)
    try:
        with suppress(KeyboardInterrupt):
            for number, lines in enumerate(_pictures(server, prefix, kind, on_screen=on_screen), 1):
                _draw(lines, on_screen=on_screen)
                if number == count:
                    break
                time.sleep(interval_s)
    finally:
        if on_screen:
            click.echo(FIRST_SCREEN, nl=False)


def _pictures(server: str | None, prefix: str, kind: str | None, *, on_screen: bool) -> Iterator[list[str]]:
    while True:
        views = [view for view in views_of(server, prefix, kind) if in_use(view)]
        height = click.get_terminal_size()[1] if on_screen else ROWS_WITHOUT_SCREEN
        yield picture(views, without_token(url_of(server)), height, terminal_width())


def picture(views: list[dict[str, Any]], url: str, height: int, width: int) -> list[str]:
    """Draw everything once, in so many lines at most."""
    rows = [row for view in views for row in key_rows(view)]
    rows.sort(key=lambda row: -(row.get("held_s") or 0.0))
    held, waiting = sum("state" in row for row in rows), sum(view.get("waiting", 0) for view in views)
    now = datetime.now().strftime("%H:%M:%S")
    lines = [f"{url}  {now}  {len(views)} keys in use, {held} holders, {waiting} waiting", ""]
    room = max(1, height - 4)
    lines += table(rows[:room], COLUMNS, width)
    return lines + ([f"and {len(rows) - room} more"] if len(rows) > room else [])


def _draw(lines: list[str], *, on_screen: bool) -> None:
    if not on_screen:
        click.echo("\n".join([*lines, ""]))
        return
    click.echo(HOME + "".join(f"{line}{CLEAR_TO_END_OF_LINE}\n" for line in lines) + CLEAR_REST, nl=False)
    sys.stdout.flush()


def _count_option(what: str) -> click.Option:
    return click.Option(
        ["--count", "-c"], type=click.IntRange(0), default=0, metavar="N", help=f"End after so many {what}."
    )


def _kind_choice() -> click.Option:
    return click.Option(["--kind"], type=click.Choice(["lock", "semaphore"]), help="Only these.")


def watch_command() -> click.Command:
    """Build the click command."""
    return command(
        "watch",
        watch,
        [
            click.Argument(["prefix"], default=""),
            click.Option(["--key"], help="Watch this key only."),
            _kind_choice(),
            click.Option(["--deadlocks"], is_flag=True, help="Watch for deadlocks instead, of all keys."),
            _count_option("events"),
            *style_options(),
        ],
    )


def top_command() -> click.Command:
    """Build the click command."""
    return command(
        "top",
        top,
        [
            click.Argument(["prefix"], default=""),
            _kind_choice(),
            click.Option(
                ["--interval", "interval_s"],
                type=Seconds(0.1, 3600),
                default="2",
                metavar="SECONDS",
                help="Between two pictures.",
            ),
            _count_option("pictures"),
        ],
    )
