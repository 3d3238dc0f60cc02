"""`holdfast watch`: what happens to keys, or which deadlocks arise, line by line as it happens.

An event is a hint: what is true of a key now is for `holdfast show` to tell.
"""

from contextlib import suppress
from datetime import datetime
from typing import Any

import click

from holdfast.cli.calling import command, kind_choice, native_only, reached
from holdfast.cli.explain import CYCLE_COLUMNS, cycle_lines, edge_row
from holdfast.cli.listing import JSON, SIMPLE, Column, Row, csv, paint, spell_json, style_options, text

EVENT_COLUMNS = tuple(Column(name, name, text) for name in ("time", "event", "what", "kind", "key", "reason"))
DEADLOCK_COLUMNS = (Column("time", "time", text), *CYCLE_COLUMNS)
COLOURS = {"granted": "green", "queued": "yellow", "ended": "cyan"}
MISSED = "the connection was broken, and events may be missing here"


def watch(
    prefix: str,
    *,
    server: str | None,
    key: str | None,
    kind: str | None,
    deadlocks: bool,
    count: int | None,
    style: str | None,
) -> None:
    """Print what happens to keys as it happens.

    PREFIX watches all keys that begin with it; without one, all keys are watched. Each line is one change: queued,
    granted, renewed, converted or ended, and why. With --json, each line is one JSON object. Ends with Ctrl-C.
    """
    native_only(server, "watch")
    if key is not None and prefix:
        raise click.UsageError("watch keys that begin with PREFIX, or one --key, not both")
    columns = DEADLOCK_COLUMNS if deadlocks else EVENT_COLUMNS
    if style == SIMPLE:
        click.echo(",".join(column.name for column in columns))
    where: dict[str, Any] = {"prefix": prefix} if key is None else {"key": key}
    with reached(server) as client, suppress(KeyboardInterrupt):
        events = client.watch(deadlocks=True) if deadlocks else client.watch(**where, kind=kind)
        for number, event in enumerate(events, 1):
            now = datetime.now().astimezone().isoformat(timespec="milliseconds")
            # Whoever reads it through a pipe should have it at once, which echo sees to.
            for line in lines_of(event, number, now, style):
                click.echo(line)
            if number == count:
                return


def lines_of(event: dict[str, Any], number: int, now: str, style: str | None) -> list[str]:
    """Spell one event; `now` is the time in full, of which people get the part that changes."""
    if style == JSON:
        return [spell_json({"time": now} | event)]
    cycle = event.get("cycle")
    if style == SIMPLE:
        rows: list[Row] = [event] if cycle is None else [edge_row(number, edge) for edge in cycle]
        return csv([{"time": now} | row for row in rows], EVENT_COLUMNS if cycle is None else DEADLOCK_COLUMNS)[1:]
    clock = now[11:23]
    if cycle is not None:
        first, *rest = cycle_lines(cycle)
        return [f"{clock}  {first}", *rest]
    if event.get("event") == "missed":
        return [f"{clock}  {MISSED}"]
    return [f"{clock}  {change(event)}"]


def change(event: dict[str, Any]) -> str:
    """Tell what has happened to a key."""
    what = str(event.get("what"))
    notes = [event.get("reason"), "semaphore" if event.get("kind") == "semaphore" else None]
    shown = ", ".join(text(note) for note in notes if note)
    return f"{paint(f'{text(what):9}', fg=COLOURS.get(what))}  {text(event.get('key'))}" + (
        f"  ({shown})" if shown else ""
    )


def watch_command() -> click.Command:
    """Build the click command."""
    return command(
        "watch",
        watch,
        [
            click.Argument(["prefix"], default=""),
            click.Option(["--key"], help="Watch this key only."),
            kind_choice("Watch only these."),
            click.Option(["--deadlocks"], is_flag=True, help="Watch for deadlocks instead, of all keys."),
            click.Option(["--count", "-c"], type=click.IntRange(1), metavar="N", help="End after so many events."),
            *style_options(),
        ],
    )
