"""`holdfast serve`: one option for each field of `Config`, made from its definition.

No setting is named here; to add one, add a field to `Config`.
"""

import os
from itertools import groupby

import click

from holdfast import __version__
from holdfast.cli.launch import launch, read_file
from holdfast.config import SETTINGS, load
from holdfast.settings import Kind, Setting


class SettingOption(click.Option):
    """An option that hands on raw text: `load` judges flags and variables with the same words."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        flag: str = setting.flag
        metavar: str | None = placeholder(setting)
        if setting.kind is Kind.BOOLEAN:
            flag, metavar = f"{flag}/--no-{flag.removeprefix('--')}", None
        super().__init__([flag, setting.name], help=explain(setting), metavar=metavar, default=None)


class ServeCommand(click.Command):
    """A command whose help lists the options under the headings of the settings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section for each group, then what is not a setting."""
        options = [option for option in self.get_params(ctx) if isinstance(option, SettingOption)]
        for group, members in groupby(options, key=lambda option: option.setting.group):
            _write_section(ctx, formatter, group, list(members))
        _write_section(ctx, formatter, "Other", [p for p in self.get_params(ctx) if p not in options])


def _write_section(
    ctx: click.Context, formatter: click.HelpFormatter, heading: str, params: list[click.Parameter]
) -> None:
    records = [record for param in params if (record := param.get_help_record(ctx)) is not None]
    with formatter.section(heading):
        formatter.write_dl(records, col_max=28)


def placeholder(setting: Setting) -> str:
    """Name the kind of text that a flag takes."""
    return "|".join(setting.choices) if setting.kind is Kind.CHOICE else setting.kind.value


def explain(setting: Setting) -> str:
    """Write the help of one setting, with its default and its variable."""
    return f"{setting.help} [default: {setting.shown()}; env: {setting.variable}]"


def serve(**options: str | bool | None) -> None:
    """Run a lock server until it is told to stop.

    Each setting is a flag or an environment variable, and the flag wins. Durations are whole seconds.
    """
    flags = {name: _text(value) for name, value in options.items() if value is not None}
    click.get_current_context().exit(launch(lambda: load(flags, os.environ, read_file)))


def _text(value: str | bool) -> str:
    return value if isinstance(value, str) else str(value).lower()


def command() -> click.Command:
    """Build the click command."""
    params: list[click.Parameter] = [SettingOption(setting) for setting in SETTINGS.values()]
    made = ServeCommand(
        "serve",
        params=params,
        callback=serve,
        help=serve.__doc__,
        context_settings={"max_content_width": 110},
    )
    return click.version_option(__version__, prog_name="holdfast", message="%(prog)s %(version)s")(made)
