"""`holdfast explain` and `holdfast deadlocks`: why a key is not to be had, and who waits for each other in a circle.

The server finds out; here it is put into words.
"""

from typing import Any

import click

from holdfast.cli.calling import command, kind_option, native_only, reached
from holdfast.cli.listing import JSON, SIMPLE, Column, Row, print_json, print_listing, seconds, style_options, text
from holdfast.cli.look import MODES, headline, node_of

EXIT_DEADLOCK = 1

WISH_COLUMNS = tuple(
    Column(name, name)
    for name in ("key", "kind", "place", "pid", "node", "operation", "want", "waits_s", "deadlocked", "behind")
)
CYCLE_COLUMNS = tuple(
    Column(name, name) for name in ("cycle", "pid", "node", "key", "kind", "behind_pid", "behind_node")
)


def caller(one: dict[str, Any]) -> str:
    """Name a caller."""
    told = text(node_of(one) or "somebody")
    told += f" pid {one['pid']}" if "pid" in one else ""
    told += f" ({text(one['operation'])})" if one.get("operation") else ""
    return told + (", gone," if one.get("kept") else "")


def thing(one: dict[str, Any]) -> str:
    """Name what is waited for."""
    return f"{one.get('kind', 'lock')} {text(one['key'])}"


def mode(name: str | None, one: dict[str, Any]) -> str:
    """Say how it is held or wanted."""
    if one.get("kind") == "semaphore":
        return f"{one.get('units', 1)} {'seat' if one.get('units', 1) == 1 else 'seats'}"
    return MODES.get(name or "", name or "")


def _for(ms: int | None) -> str:
    return seconds((ms or 0) / 1000)


def explain(key: str, *, server: str | None, kind: str | None, style: str | None) -> None:
    """Explain why a key is not to be had at once.

    Tells who holds it, who waits and behind whom, what those wait for themselves, and whether that goes in a circle.
    """
    native_only(server, "explain")
    with reached(server) as client:
        told = client.explain(key, kind=kind or "lock")
    if style == JSON:
        print_json(told)
    elif style == SIMPLE:
        wishes = [*told.get("queue", ()), *told.get("chain", ())]
        print_listing([wish_row(wish) for wish in wishes], WISH_COLUMNS, style)
    else:
        for line in explanation_lines(told):
            click.echo(line)


def explanation_lines(told: dict[str, Any]) -> list[str]:
    """Put an explanation into words."""
    lines = [headline(told)]
    lines += [holder_line(holder, told) for holder in told.get("holders", ())]
    if told.get("queue"):
        lines += ["", "queue:", *(wish_line(wish, place) for place, wish in enumerate(told["queue"], 1))]
    if told.get("chain"):
        lines += ["", "and those wait elsewhere:", *(wish_line(wish, None) for wish in told["chain"])]
    for cycle in told.get("cycles", ()):
        lines += ["", *cycle_lines(cycle)]
    return lines


def holder_line(holder: dict[str, Any], view: dict[str, Any]) -> str:
    """Tell of one who holds."""
    how = mode(holder.get("mode"), {**holder, "kind": view.get("kind")})
    told = f"  {caller(holder)} holds it, {how}, for {_for(holder.get('since_ms'))}"
    told += f"; the lease ends in {_for(holder['left_ms'])}" if "left_ms" in holder else ""
    return told + (f"; wants {mode(holder['converting_to'], {})}" if holder.get("converting_to") else "")


def wish_line(wish: dict[str, Any], place: int | None) -> str:
    """Tell of one who waits, and behind whom."""
    before = f"  {place}. " if place is not None else "  "
    wants = f"wants {thing(wish)}" if place is None else "wants it"
    told = f"{before}{caller(wish)} {wants}, {mode(wish.get('want'), wish)}, for {_for(wish.get('since_ms'))}"
    if wish.get("left_ms") is not None:
        told += f", and gives up in {_for(wish['left_ms'])}"
    told += "; not waiting yet" if wish.get("blocked") is False else ""
    told += "; DEADLOCKED" if wish.get("deadlocked") else ""
    behind = wish.get("behind") or []
    return told + (": " + " and ".join(hindrance(one) for one in behind) if behind else "")


def hindrance(one: dict[str, Any]) -> str:
    """Tell who is in the way."""
    return f"behind {caller(one)}" if one.get("ahead") else f"{caller(one)} holds it"


def cycle_lines(cycle: list[dict[str, Any]]) -> list[str]:
    """Tell of a circle."""
    lines = [f"deadlock of {len(cycle)}:"]
    lines += [f"  {caller(edge)} waits for {thing(edge)}: {hindrance(edge['behind'])}" for edge in cycle]
    return lines


def wish_row(wish: dict[str, Any]) -> Row:
    """Make a row of one who waits."""
    return {
        "key": wish["key"],
        "kind": wish.get("kind"),
        "place": wish.get("before", 0) + 1,
        "pid": wish.get("pid"),
        "node": node_of(wish),
        "operation": wish.get("operation"),
        "want": wish.get("want"),
        "waits_s": (wish.get("since_ms") or 0) / 1000,
        "deadlocked": "yes" if wish.get("deadlocked") else "no",
        "behind": "; ".join(hindrance(one) for one in wish.get("behind", ())),
    }


def deadlocks(*, server: str | None, style: str | None) -> None:
    """List who waits for each other in a circle, so that nobody of them can go on.

    The exit code is 1 if there is such a circle. To resolve one, end one of its parts, or take a lock away from it with
    `holdfast break`.
    """
    native_only(server, "deadlocks")
    with reached(server) as client:
        cycles = client.deadlocks()
    if style in (JSON, SIMPLE):
        rows = [edge_row(number, edge) for number, cycle in enumerate(cycles, 1) for edge in cycle]
        print_listing(rows, CYCLE_COLUMNS, style, raw=cycles)
    elif not cycles:
        click.echo("No deadlock.")
    for cycle in cycles if style is None else ():
        click.echo("\n".join(cycle_lines(cycle)))
    if cycles:
        click.get_current_context().exit(EXIT_DEADLOCK)


def edge_row(number: int, edge: dict[str, Any]) -> Row:
    """Make a row of one part of a circle."""
    behind = edge["behind"]
    return {
        "cycle": number,
        "pid": edge.get("pid"),
        "node": node_of(edge),
        "key": edge["key"],
        "kind": edge.get("kind"),
        "behind_pid": behind.get("pid"),
        "behind_node": node_of(behind),
    }


def explain_command() -> click.Command:
    """Build the click command."""
    return command("explain", explain, [click.Argument(["key"]), kind_option(), *style_options()])


def deadlocks_command() -> click.Command:
    """Build the click command."""
    return command("deadlocks", deadlocks, style_options())
