"""`holdfast leases watch`: which locks are taken, given back, lost to somebody else, line by line as it is seen.

It compares one list with the next. What happens and is undone between two of them is not seen.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.calling import Seconds
from holdfast.cli.leases_backend import command, opened, owner_of, row_of, spelled
from holdfast.cli.listing import JSON, SIMPLE, Column, csv, paint, spell_json, style_options, text
from holdfast.errors import Unavailable

if TYPE_CHECKING:
    from holdfast.leases import words

NAMES = ("time", "what", "lock", "pid", "node", "operation", "fence")
EVENT_COLUMNS = tuple(Column(name, name, text) for name in NAMES)
# However often locks are given back, there is no look sooner than this.
REST_S_LEAST = 0.05
COLOURS = {"taken": "green", "freed": "cyan", "lapsed": "yellow"}

Table = Mapping[bytes, "words.Row"]
Change = tuple[str, "words.Row", "words.Row | None"]


def watch(prefix: str, *, backend: str | None, interval_s: float, count: int | None, style: str | None) -> None:
    """Print what happens to locks as it is seen.

    PREFIX watches only keys that begin with it. The list is read again and again; where the database tells when a lock
    is given back, as PostgreSQL does, at once then. Each line is a change: taken, freed or lapsed. Ends with Ctrl-C.
    """
    if style == SIMPLE:
        click.echo(",".join(column.name for column in EVENT_COLUMNS))
    with opened(backend) as leases, suppress(KeyboardInterrupt):
        found = changes(tables(leases.list, lambda: rest(leases, interval_s)), prefix)
        for number, change in enumerate(found, 1):
            now = datetime.now().astimezone().isoformat(timespec="milliseconds")
            click.echo(line_of(*change, now, style))
            if number == count:
                return


def rest(leases: "words.Backend", seconds: float) -> None:
    """Wait for the next look; where the database tells that a lock was given back, until then."""
    time.sleep(REST_S_LEAST)
    wait: Callable[[float], Any] = getattr(leases, "wait_any", time.sleep)
    wait(seconds - REST_S_LEAST)


def tables(look: Callable[[], Sequence["words.Row"]], rest: Callable[[], Any]) -> Iterator[Table]:
    """Look again and again. A database that is away is told of once, and waited for; not so at the first look."""
    yield {row.key: row for row in look()}
    away = False
    while True:
        rest()
        try:
            seen = {row.key: row for row in look()}
        except Unavailable as error:
            if not away:
                click.echo(f"holdfast: {text(str(error))}; waiting for it", err=True)
            away = True
            continue
        away = False
        yield seen


def changes(seen: Iterator[Table], prefix: str) -> Iterator[Change]:
    """Compare each table with the one before."""
    before = next(seen)
    for after in seen:
        for key in sorted(before.keys() | after.keys()):
            if spelled(key).startswith(prefix) and (change := change_of(before.get(key), after.get(key))) is not None:
                yield change
        before = after


def change_of(old: "words.Row | None", new: "words.Row | None") -> Change | None:
    """Say what has happened to one lock: what, to whom, and who had it before."""
    if new is None:
        return None if old is None else ("freed", old, None)
    if old is None or old.lock_id != new.lock_id:
        return "taken", new, old
    return ("lapsed", new, None) if new.lapsed and not old.lapsed else None


def line_of(what: str, row: "words.Row", before: "words.Row | None", now: str, style: str | None) -> str:
    """Spell one change; `now` is the time in full, of which people get the part that changes."""
    told = {"time": now, "what": what} | {name: value for name, value in row_of(row).items() if name != "state"}
    if style == JSON:
        return spell_json(told)
    if style == SIMPLE:
        return csv([told], EVENT_COLUMNS)[1]
    owner = f"by {owner_of(row)}, fence {row.fence}" if what == "taken" else owner_of(row)
    if before is not None:
        owner += f"; before, {owner_of(before)} had it" + (" until it lapsed" if before.lapsed else "")
    return f"{now[11:23]}  {paint(f'{what:6}', fg=COLOURS[what])}  {text(spelled(row.key))}  {owner}"


def watch_command() -> click.Command:
    """Build the click command."""
    return command(
        "watch",
        watch,
        [
            click.Argument(["prefix"], default=""),
            click.Option(
                ["--interval", "interval_s"],
                type=Seconds(REST_S_LEAST, 3600),
                default="1",
                metavar="SECONDS",
                help="Time between two looks.",
            ),
            click.Option(["--count", "-c"], type=click.IntRange(1), metavar="N", help="End after so many changes."),
            *style_options(),
        ],
    )
