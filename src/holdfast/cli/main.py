"""The `holdfast` command: which subcommands there are, and where each one lives.

Nothing else may be imported here: a subcommand is loaded when it runs, and what it needs when it needs it.
"""

from importlib import import_module

import click

from holdfast import __version__

# In the order of the help: under each heading the subcommands, and the functions that build them.
SECTIONS: dict[str, dict[str, str]] = {
    "Under a lock": {
        "run": "holdfast.cli.run:command",
    },
    "Who holds what": {
        "ls": "holdfast.cli.look:ls_command",
        "show": "holdfast.cli.look:show_command",
        "explain": "holdfast.cli.explain:explain_command",
        "deadlocks": "holdfast.cli.explain:deadlocks_command",
        "top": "holdfast.cli.top:top_command",
        "watch": "holdfast.cli.watch:watch_command",
    },
    "Looking after a server": {
        "ping": "holdfast.cli.health:ping_command",
        "stats": "holdfast.cli.health:stats_command",
        "doctor": "holdfast.cli.doctor:doctor_command",
        "break": "holdfast.cli.health:break_command",
        "load": "holdfast.cli.load:command",
    },
    "Locks in a database": {
        "leases": "holdfast.cli.leases:leases_command",
        "admin": "holdfast.cli.admin:admin_command",
    },
    "Being a server": {
        "serve": "holdfast.cli.serve:command",
        "dflockd": "holdfast.cli.stand_in:dflockd_command",
        "lockserver": "holdfast.cli.stand_in:lockserver_command",
    },
    "Your shell": {
        "completion": "holdfast.cli.completion:completion_command",
    },
}
PLACES = {name: place for members in SECTIONS.values() for name, place in members.items()}


class Commands(click.Group):
    """The subcommands, each loaded when somebody asks for it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name them in the order of the help."""
        return list(PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one."""
        if cmd_name not in PLACES:
            return None
        module, _, function = PLACES[cmd_name].partition(":")
        made: click.Command = getattr(import_module(module), function)()
        return made

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each heading; what a subcommand does is told whole, and not cut to fit a line."""
        width = max(map(len, PLACES))
        for heading, members in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), self._about(ctx, name)) for name in members])

    def _about(self, ctx: click.Context, name: str) -> str:
        found = self.get_command(ctx, name)
        assert found is not None
        return found.get_short_help_str(limit=1_000)


@click.group(cls=Commands)
@click.version_option(__version__, prog_name="holdfast", message="%(prog)s %(version)s")
def holdfast() -> None:
    """One lock service for everything that must not happen twice at once.

    The server to call is given by --server or HOLDFAST_SERVER, as in holdfast://127.0.0.1:6388. `holdfast COMMAND
    --help` tells more of each command, and `man holdfast` of all.
    """


def main() -> None:
    """Be the program."""
    holdfast(prog_name="holdfast")
