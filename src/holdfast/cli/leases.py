"""`holdfast leases`: looking after leases that are kept in a database, and who has which.

What dead processes leave is the business of `leases_dead.py`, and what happens as it happens that of `leases_watch.py`.
"""

from typing import Any, cast

import click

from holdfast.cli.leases_backend import TIME_COLUMNS, WHO_COLUMNS, command, opened, owner_of, row_of
from holdfast.cli.leases_dead import clear_stale_command, shed_command
from holdfast.cli.leases_watch import watch_command
from holdfast.cli.listing import print_listing, style_options, text
from holdfast.errors import SPELLINGS


def init(*, backend: str | None) -> None:
    """Make the table of the locks, or bring it up to date.

    What is held stays held. A table that Shaken Fist has made is taken over in place; stop its daemons before.
    """
    with opened(backend) as leases:
        # Whatever a URL opens can do that; of other backends it is not asked.
        done = cast("Any", leases).prepare()
    click.echo("\n".join(done) or "The table is as it has to be.")


def list_(prefix: str, *, backend: str | None, style: str | None) -> None:
    """List who has which lock.

    PREFIX lists only keys that begin with it. "left" is what is left of the lease if nobody refreshes it; a lock that
    has lapsed is free for whoever comes first. `holdfast admin lock list` shows the same as Shaken Fist does.
    """
    with opened(backend) as leases:
        rows = [row_of(lease) for lease in leases.list()]
    rows = [row for row in rows if row["lock"].startswith(prefix)]
    print_listing(rows, (*WHO_COLUMNS, *TIME_COLUMNS), style, empty="Nobody has any lock.")


def break_(key: str, *, backend: str | None, lock_id: str | None) -> None:
    """Take a lock away from whoever has it.

    Anybody may take it at once, while its holder finds out at its next refresh, which may be 20 seconds later, and
    works on until then. So end the holder first, if you can. What the lock protects is safe if it refuses old fences.
    """
    from holdfast.leases.words import Hold

    wanted = key.encode("utf-8", "surrogateescape")
    with opened(backend) as leases:
        found = [lease for lease in leases.list() if lease.key == wanted and lock_id in (None, lease.lock_id)]
        broken = leases.clear([Hold(lease.key, lease.lock_id) for lease in found]) if found else 0
    if not broken:
        click.echo(f"Nobody has the lock {text(key)}.", err=True)
        click.get_current_context().exit(SPELLINGS["not_held"].exit_code)
    click.echo(f"Took the lock {text(key)} away from {owner_of(found[0])}.")


def leases_command() -> click.Command:
    """Build the group."""
    prefix = click.Argument(["prefix"], default="")
    breaking = [
        click.Argument(["key"]),
        click.Option(["--lock-id"], help="Take it only from the holder with this id, as `list --json` shows it."),
    ]
    members = [
        command("init", init, []),
        command("list", list_, [prefix, *style_options()]),
        watch_command(),
        command("break", break_, breaking),
        clear_stale_command(),
        shed_command(),
    ]
    about = "Look after cluster locks in a database: `leases list`, and five more."
    return click.Group("leases", commands=members, help=about)
