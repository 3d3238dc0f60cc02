"""What all commands on leases in a database share: the option `--backend`, opening it, and how a row is shown.

What is asked of the database stands in the commands.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.calling import refusing
from holdfast.cli.listing import Column, Row, plain, seconds, text

if TYPE_CHECKING:
    from holdfast.leases import words

BACKEND_VARIABLE = "HOLDFAST_BACKEND"
EXAMPLE = "mariadb://user:password@host/database"

# Columns that every listing of leases has first, and those that tell how long it will last.
WHO_COLUMNS = (
    Column("lock", "lock", text),
    Column("pid", "pid", text, right=True),
    Column("node", "node", text),
    Column("operation", "operation", text),
)
TIME_COLUMNS = (
    Column("fence", "fence", plain, right=True),
    Column("held for", "age_s", seconds, right=True),
    Column("left", "left_s", seconds, right=True),
    Column("state", "state", text),
)

HELD = "held"
LAPSED = "lapsed"


def backend_option() -> click.Option:
    """Say which database is meant."""
    return click.Option(
        ["--backend"],
        metavar="URL",
        help=f"Database that keeps the leases, as in {EXAMPLE}. [env: {BACKEND_VARIABLE}]",
    )


def url_of(backend: str | None) -> str:
    """Choose the database: what was said, else what the environment says."""
    url = backend or os.environ.get(BACKEND_VARIABLE)
    if not url:
        raise click.UsageError(f"no database is named: give --backend URL, or set {BACKEND_VARIABLE}, as in {EXAMPLE}")
    return url


@contextmanager
def opened(backend: str | None) -> Iterator["words.Backend"]:
    """Lend a way to the leases."""
    from holdfast.leases.opening import open_backend

    with closing(open_backend(url_of(backend))) as found:
        yield found


def command(name: str, callback: Callable[..., None], params: list[click.Parameter]) -> click.Command:
    """Build a command on leases: its own parameters, `--backend`, and the docstring as its help."""
    return click.Command(
        name,
        params=[*params, backend_option()],
        callback=refusing(callback),
        help=callback.__doc__,
        context_settings={"max_content_width": 110, "show_default": True},
    )


def spelled(key: bytes) -> str:
    """Spell a key so that it can be given to a command again, whatever is in it."""
    return key.decode("utf-8", "surrogateescape")


def row_of(lease: "words.Row") -> Row:
    """Make a row for a listing of what the table says."""
    return {
        "lock": spelled(lease.key),
        "pid": lease.pid,
        "node": lease.node,
        "operation": lease.holder.get("operation"),
        "fence": lease.fence,
        "age_s": round(lease.age_us / 1e6, 3),
        "left_s": round(max(0, lease.left_us) / 1e6, 3),
        "state": LAPSED if lease.lapsed else HELD,
        "lock_id": lease.lock_id,
    }


def owner_of(lease: "words.Row") -> str:
    """Name who has a lock, in a sentence."""
    operation: Any = lease.holder.get("operation")
    return f"{text(lease.node)} pid {lease.pid}" + (f" ({text(operation)})" if operation else "")
