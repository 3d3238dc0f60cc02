"""`holdfast dflockd` and `holdfast lockserver`: servers that take the place of others.

Their command lines are the originals', and read by parsers of their own; this only hands them over.
"""

import os

import click


class RawCommand(click.Command):
    """A command that leaves its whole command line, dashes and all, to somebody else's parser."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments as they are."""
        ctx.args = list(args)
        return []


def dflockd() -> None:
    """Run a server in place of dflockd, with its own flags."""
    from holdfast.cli import dflockd as original

    ctx = click.get_current_context()
    ctx.exit(original.main(ctx.args, os.environ))


def lockserver() -> None:
    """Run a server in place of LockServer, with its own variables."""
    from holdfast.cli import lockserver as original

    ctx = click.get_current_context()
    ctx.exit(original.main(ctx.args, os.environ))


def dflockd_command() -> click.Command:
    """Build the click command."""
    return RawCommand("dflockd", callback=dflockd, help=dflockd.__doc__, add_help_option=False)


def lockserver_command() -> click.Command:
    """Build the click command."""
    return RawCommand("lockserver", callback=lockserver, help=lockserver.__doc__, add_help_option=False)
