"""The `holdfast` command and its subcommands.

Nothing heavy may be imported here: what a subcommand needs to run is imported when it runs.
"""

import os

import click

from holdfast import __version__
from holdfast.cli import dflockd as stand_in
from holdfast.cli import load, serve
from holdfast.cli import lockserver as stand_in_of_lockserver


class RawCommand(click.Command):
    """A command that leaves its whole command line, dashes and all, to somebody else's parser."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments as they are."""
        ctx.args = list(args)
        return []


@click.group()
@click.version_option(__version__, prog_name="holdfast", message="%(prog)s %(version)s")
def holdfast() -> None:
    """One lock service for everything that must not happen twice at once."""


@holdfast.command("dflockd", cls=RawCommand, add_help_option=False)
@click.pass_context
def dflockd(ctx: click.Context) -> None:
    """Run a server in place of dflockd, with its own flags."""
    ctx.exit(stand_in.main(ctx.args, os.environ))


@holdfast.command("lockserver", cls=RawCommand, add_help_option=False)
@click.pass_context
def lockserver(ctx: click.Context) -> None:
    """Run a server in place of LockServer, with its own variables."""
    ctx.exit(stand_in_of_lockserver.main(ctx.args, os.environ))


holdfast.add_command(serve.command())
holdfast.add_command(load.command())


def main() -> None:
    """Be the program."""
    holdfast(prog_name="holdfast")
