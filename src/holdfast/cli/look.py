"""`holdfast ls` and `holdfast show`: who holds what, and who waits for it.

Rows are made of what a server tells of a key; nothing is asked twice, and nothing is judged.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from holdfast.cli.calling import command, kind_choice, kind_option, reached, scheme_of, url_of
from holdfast.cli.listing import JSON, SIMPLE, Column, Row, print_json, print_listing, seconds, style_options, text

Look = Callable[[], list[dict[str, Any]]]

MODES = {"EX": "exclusive", "PR": "shared"}

COLUMNS = (
    Column("lock", "lock", text),
    Column("pid", "pid", text, right=True),
    Column("node", "node", text),
    Column("operation", "operation", text),
    Column("mode", "mode", text),
    Column("held for", "held_s", seconds, right=True),
    Column("renews in", "renews_in_s", seconds, right=True),
    Column("waiters", "waiters", right=True),
)
# Scripts get the four columns that such listings have always had first, and everything else behind them.
CSV_COLUMNS = (
    *COLUMNS[:4],
    *(Column(name, name) for name in ("kind", "mode", "units", "limit", "fence", "held_s", "renews_in_s", "waiters")),
)

HOLDER_COLUMNS = (
    *COLUMNS[1:5],
    Column("client", "client", text),
    Column("fence", "fence", text, right=True),
    *COLUMNS[5:7],
)
WAITER_COLUMNS = (
    Column("#", "place", text, right=True),
    *COLUMNS[1:4],
    Column("client", "client", text),
    Column("wants", "mode", text),
    Column("waits for", "waits_s", seconds, right=True),
    Column("gives up in", "gives_up_in_s", seconds, right=True),
)
SHOW_CSV_COLUMNS = tuple(
    Column(name, name)
    for name in (
        *("lock", "pid", "node", "operation", "kind", "state", "place", "mode", "units", "fence", "client", "door"),
        *("held_s", "renews_in_s", "waits_s", "gives_up_in_s"),
    )
)


def node_of(caller: dict[str, Any]) -> Any:
    """Name where a caller is, or at least what it is called."""
    return caller.get("host") or caller.get("owner") or caller.get("peer") or caller.get("door")


def mode_of(mode: str | None, units: int | None, view: dict[str, Any]) -> str | None:
    """Say how something is held: seats of a semaphore, else exclusively, shared, or as the mode's own name."""
    if view.get("kind") == "semaphore":
        return f"{units} of {view['limit']}" if "limit" in view else f"{units}"
    return None if mode is None else MODES.get(mode, mode)


def _s(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _caller_row(caller: dict[str, Any], view: dict[str, Any], mode: str | None) -> Row:
    return {
        "lock": view["key"],
        "kind": view.get("kind", "lock"),
        "limit": view.get("limit"),
        "pid": caller.get("pid"),
        "node": node_of(caller),
        "operation": caller.get("operation"),
        "client": caller.get("client"),
        "door": caller.get("door"),
        "mode": mode_of(mode, caller.get("units"), view),
        "units": caller.get("units"),
        "fence": caller.get("fence"),
        "waiters": view.get("waiting"),
    }


def holder_rows(view: dict[str, Any]) -> list[Row]:
    """Make a row of each holder of a key."""
    rows = []
    for place, holder in enumerate(view.get("holders", ())):
        row = _caller_row(holder, view, holder.get("mode"))
        row |= {"state": "holds", "held_s": _s(holder.get("since_ms")), "renews_in_s": _s(holder.get("left_ms"))}
        if "converting_to" in holder:
            row["mode"] = f"{row['mode']}, wants {mode_of(holder['converting_to'], None, {})}"
        # Rows of one key share a queue, and whoever adds the column up should count it once.
        row["waiters"] = 0 if place else view.get("waiting")
        rows.append(row)
    return rows


def waiter_rows(view: dict[str, Any]) -> list[Row]:
    """Make a row of each who waits for a key, in order."""
    rows = []
    for place, waiter in enumerate(view.get("queue", ()), 1):
        row = _caller_row(waiter, view, waiter.get("want"))
        row |= {"state": "waits", "place": place}
        row |= {"waits_s": _s(waiter.get("since_ms")), "gives_up_in_s": _s(waiter.get("left_ms"))}
        rows.append(row)
    return rows


def key_rows(view: dict[str, Any]) -> list[Row]:
    """Make rows of a key: one for each holder, or one that says that there is none."""
    nobody = {"lock": view["key"], "kind": view.get("kind", "lock"), "limit": view.get("limit")}
    return holder_rows(view) or [nobody | {"waiters": view.get("waiting")}]


def in_use(view: dict[str, Any]) -> bool:
    """Tell whether anybody holds a key or waits for it."""
    return bool(view.get("holders") or view.get("waiting"))


@contextmanager
def looking(server: str | None, prefix: str, kind: str | None) -> Iterator[Look]:
    """Lend a way to see all keys that begin so, as often as wanted; servers that are not ours tell what they can."""
    if scheme_of(url_of(server)) == "http":
        from holdfast.cli.peek import views_over_http

        yield lambda: views_over_http(server, prefix, kind)
        return
    with reached(server) as client:
        if scheme_of(url_of(server)) == "dflock":
            from holdfast.cli.peek import views_of_stats

            yield lambda: views_of_stats(client.stats().values(), prefix, kind)
        else:
            yield lambda: list(client.keys(prefix, kind=kind))


def ls(prefix: str, *, server: str | None, kind: str | None, everything: bool, style: str | None) -> None:
    """List who holds what.

    PREFIX lists only keys that begin with it. A row is a holder; a key that several hold has several rows. "renews in"
    is what is left of the lease: when it gets to zero, the next waiter is served.
    """
    with looking(server, prefix, kind) as look:
        views = [view for view in look() if everything or in_use(view)]
    rows = [row for view in views for row in key_rows(view)]
    columns = CSV_COLUMNS if style == SIMPLE else COLUMNS
    print_listing(rows, columns, style, raw=views, empty="Nobody holds or waits for anything.")


def show(key: str, *, server: str | None, kind: str | None, style: str | None) -> None:
    """Show one key: who holds it, and the queue.

    Who waits because it wants to hold in another mode stands first in the queue, as it is served first. Only over
    holdfast:// a server tells who waits, and not just how many.
    """
    view = view_of(key, server, kind or "lock")
    if style == JSON:
        print_json(view)
        return
    holders, waiters = holder_rows(view), waiter_rows(view)
    if style == SIMPLE:
        print_listing([*holders, *waiters], SHOW_CSV_COLUMNS, style)
        return
    click.echo(headline(view))
    for heading, rows, columns in (("held by", holders, HOLDER_COLUMNS), ("queue", waiters, WAITER_COLUMNS)):
        if rows:
            click.echo(f"\n{heading}:")
            print_listing(rows, columns, style)


def view_of(key: str, server: str | None, kind: str) -> dict[str, Any]:
    """Ask for one key, in the way that its server knows."""
    nobody: dict[str, Any] = {"key": key, "kind": kind, "waiting": 0, "holders": []}
    scheme = scheme_of(url_of(server))
    if scheme == "http":
        from holdfast.cli.peek import view_over_http

        return view_over_http(server, key, kind) or nobody
    if scheme == "dflock":
        with looking(server, key, kind) as look:
            return next((view for view in look() if view["key"] == key), nobody)
    with reached(server) as client:
        return client.show(key, kind=kind)


def headline(view: dict[str, Any]) -> str:
    """Say in a line how it stands with a key."""
    held = view.get("held", len(view.get("holders", ())))
    waiting = f", {view['waiting']} waiting" if "waiting" in view else ""
    kind = view.get("kind", "lock")
    if kind == "semaphore" and "limit" in view:
        used = sum(holder.get("units", 1) for holder in view.get("holders", ()))
        state = f"{used} of {view['limit']} seats taken"
    else:
        state = "held" if held == 1 else f"held by {held}" if held else "free"
    return f"{kind} {text(view['key'])}: {state}{waiting}"


def ls_command() -> click.Command:
    """Build the click command."""
    return command(
        "ls",
        ls,
        [
            click.Argument(["prefix"], default=""),
            kind_choice("List only these."),
            click.Option(["--all", "everything"], is_flag=True, help="List idle keys that are still known, too."),
            *style_options(),
        ],
    )


def show_command() -> click.Command:
    """Build the click command."""
    return command("show", show, [click.Argument(["key"]), kind_option(), *style_options()])
