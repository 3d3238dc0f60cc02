"""`holdfast leases clear-stale` and `holdfast leases shed`: freeing at once what dead processes have left.

Which processes are dead, and how that is proved, is known in `leases/identity.py`; nothing is judged here.
"""

import os

import click

from holdfast.cli.leases_backend import command, opened, owner_of, spelled
from holdfast.cli.listing import text

# What systemd tells to a command of ExecStopPost: how the service ended.
RESULT_VARIABLE = "SERVICE_RESULT"


def clear_stale(*, backend: str | None) -> None:
    """Free what dead processes of this machine have left.

    Only a process that is dead for certain counts: one of this machine, since it was started. Whatever cannot be known
    is taken for alive, and its leases run out by themselves.
    """
    freed = free(backend, pid=None)
    click.echo("\n".join(freed) or "Dead processes have left nothing.")


def shed(*, backend: str | None, unit: str | None, pid: int | None) -> None:
    """Free what a service has left that is dead now; for ExecStopPost= in its unit.

    Others need not wait for the leases to run out then. It looks for all processes of this machine that are dead for
    certain, so workers of the service are found too, and what is alive is left alone, whoever calls this.
    """
    result = os.environ.get(RESULT_VARIABLE)
    about = "".join([text(unit) if unit else "", f" ({text(result)})" if result else ""]).strip()
    for line in free(backend, pid=pid) or ["nothing to free"]:
        click.echo(f"{about}: {line}" if about else line)


def free(backend: str | None, *, pid: int | None) -> list[str]:
    """Free what is left of dead processes, or of one of them; say of each lock that it was."""
    from holdfast.leases.stale import stale_among

    with opened(backend) as leases:
        rows = [row for row in leases.list() if pid in (None, row.pid)]
        stale = set(stale_among(rows))
        # One by one: a row may have changed hands meanwhile, and then it is not told of.
        return [
            f"freed {text(spelled(row.key))}, which {owner_of(row)} had"
            for row in rows
            for hold in stale
            if (hold.key, hold.lock_id) == (row.key, row.lock_id) and leases.clear([hold])
        ]


def clear_stale_command() -> click.Command:
    """Build the click command."""
    return command("clear-stale", clear_stale, [])


def shed_command() -> click.Command:
    """Build the click command."""
    return command(
        "shed",
        shed,
        [
            click.Option(["--unit"], metavar="UNIT", help="The unit that has ended, for the log."),
            click.Option(
                ["--pid"], type=click.IntRange(1), metavar="PID", help="Free only what this process has left."
            ),
        ],
    )
