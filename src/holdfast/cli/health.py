"""`holdfast ping`, `holdfast stats` and `holdfast break`: is it there, how busy is it, and take that lock away.

What a finding means for whoever operates the server is the business of `doctor.py`.
"""

import time
from typing import Any

import click

from holdfast.cli.calling import Seconds, command, kind_option, native_only, reached, scheme_of, url_of
from holdfast.cli.listing import SIMPLE, Column, Row, print_listing, style_options, text
from holdfast.errors import SPELLINGS, BadRequest

COUNT_MAX = 1_000_000
PING_COLUMNS = (
    Column("server", "server", text),
    Column("count", "count", right=True),
    Column("least ms", "least_ms", right=True),
    Column("median ms", "median_ms", right=True),
    Column("most ms", "most_ms", right=True),
)


def ping(*, server: str | None, count: int, interval_s: float, style: str | None) -> None:
    """Ask whether the servers are there, and how long an answer takes.

    The first answer includes the time to connect, so it is not counted unless it is the only one.
    """
    times: dict[str, list[float]] = {}
    with reached(server) as client:
        for number in range(count + (count > 1)):
            if number > 1:
                time.sleep(interval_s)
            for address, took_s in client.ping().items():
                times.setdefault(address, []).append(took_s * 1000)
    rows = [ping_row(address, took[1:] or took) for address, took in times.items()]
    print_listing(rows, PING_COLUMNS, style)


def ping_row(address: str, took_ms: list[float]) -> Row:
    """Sum up how long answers took."""
    ordered = sorted(took_ms)
    figures = {"least_ms": ordered[0], "median_ms": ordered[len(ordered) // 2], "most_ms": ordered[-1]}
    return {"server": address, "count": len(ordered)} | {name: round(value, 3) for name, value in figures.items()}


def stats(*, server: str | None, style: str | None) -> None:
    """Show how busy the servers are.

    Every server tells of itself what it counts; nested counts are shown with dots between their names.
    """
    if scheme_of(url_of(server)) == "http":
        from holdfast.cli.peek import fetch, targets

        told = {str(target.address): fetch(target, "/v1/stats")[0] for target in targets(server)}
    else:
        with reached(server) as client:
            told = client.stats()
    rows = [
        {"server": address, "name": name, "value": value}
        for address, figures in told.items()
        for name, value in flat(figures)
    ]
    columns = [Column("server", "server", text), Column("name", "name", text), Column("value", "value", text)]
    # Where there is one server, its name on every line tells nobody anything.
    print_listing(rows, columns if len(told) > 1 or style == SIMPLE else columns[1:], style, raw=told)


def flat(figures: dict[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Name each figure in a tree by the way to it; of a list, only its length is told."""
    found: list[tuple[str, Any]] = []
    for name, value in figures.items():
        if isinstance(value, dict):
            found += flat(value, f"{before}{name}.")
        else:
            shown = len(value) if isinstance(value, list) else value
            found.append((before + name, {True: "yes", False: "no"}[shown] if isinstance(shown, bool) else shown))
    return found


def break_(key: str, *, server: str | None, kind: str | None, reason: str, token: str | None) -> None:
    """Take a lock away from whoever holds it.

    The holders are told the reason, and the next in the queue is served at once. This is for locks whose holder hangs
    and goes on renewing; it does not stop the holder, which may still be at work on what the lock protects.
    """
    native_only(server, "break")
    if not reason.strip():
        raise BadRequest("a reason says something: whoever loses the lock will read it")
    kind = kind or "lock"
    with reached(server) as client:
        ended = client.break_(key, reason=reason, kind=kind, token=token)
    if not ended:
        click.echo(f"Nobody holds the {kind} {text(key)}.", err=True)
        click.get_current_context().exit(SPELLINGS["not_held"].exit_code)
    click.echo(f"Took the {kind} {text(key)} away from {ended} {'holder' if ended == 1 else 'holders'}.")


def ping_command() -> click.Command:
    """Build the click command."""
    return command(
        "ping",
        ping,
        [
            click.Option(
                ["--count", "-c"], type=click.IntRange(1, COUNT_MAX), default=1, metavar="N", help="How many times."
            ),
            click.Option(
                ["--interval", "interval_s"],
                type=Seconds(0, 3600),
                default="1",
                metavar="SECONDS",
                help="Time between two.",
            ),
            *style_options(),
        ],
    )


def stats_command() -> click.Command:
    """Build the click command."""
    return command("stats", stats, style_options())


def break_command() -> click.Command:
    """Build the click command."""
    return command(
        "break",
        break_,
        [
            click.Argument(["key"]),
            click.Option(["--reason"], required=True, help="Why; the holder, the log and whoever watches are told."),
            click.Option(["--token"], help="Take it only from the holder with this token."),
            kind_option(),
        ],
    )
