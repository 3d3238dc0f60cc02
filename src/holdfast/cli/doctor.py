"""`holdfast doctor`: is this machine fit for a server, is the server well, and if not, what is to be done?

Here the findings are collected and printed; what is examined stands in the other files of the doctor.
"""

import os
from collections.abc import Iterable, Mapping
from itertools import groupby
from textwrap import wrap
from typing import Any

import click

from holdfast.cli.calling import SERVER_VARIABLE, command
from holdfast.cli.doctor_findings import Finding, State
from holdfast.cli.launch import read_file
from holdfast.cli.listing import Column, paint, print_listing, style_options, terminal_width, text
from holdfast.cli.serve import SettingOption
from holdfast.config import SETTINGS, Config, ConfigError, cautions, load

EXIT_BAD = 1
COLUMNS = tuple(Column(name, name, text) for name in ("part", "state", "found", "advice"))
COLOURS = {State.OK: "green", State.NOTE: "cyan", State.WARNING: "yellow", State.BAD: "red"}
WIDTH = 9
INDENT = WIDTH + 2

# What of a server's settings the doctor can tell without it; all others come from the environment, as for the server.
EXAMINED = ("store", "line", "http", "connections_max")


def doctor(*, server: str | None, style: str | None, strict: bool, **flags: str | None) -> None:
    """Examine this machine and the server, and say what to do.

    Looks at the settings, the clock, the file system of the store, limits, ports, versions, and the server if it can be
    reached. Settings are read from flags and the environment, as `holdfast serve` reads them; run it as the user that
    runs the server. The exit code is 1 if something is bad, and with --strict also if there is a warning.
    """
    found = examine(server, {name: value for name, value in flags.items() if value is not None})
    rows = [{"part": one.part, "state": one.state.value, "found": one.found, "advice": one.advice} for one in found]
    if style is None:
        click.echo("\n".join(report(found)))
    else:
        print_listing(rows, COLUMNS, style)
    click.get_current_context().exit(verdict(found, strict=strict))


def examine(server: str | None, flags: Mapping[str, str]) -> list[Finding]:
    """Look at everything."""
    from holdfast.cli import doctor_clock, doctor_files, doctor_machine, doctor_server

    config, found = settings(flags)
    found += doctor_clock.findings(doctor_clock.read())
    found += doctor_files.findings(config.store)
    found += doctor_machine.limits(config)
    found += doctor_machine.ports(config)
    found += doctor_machine.versions()
    expected = bool(server or os.environ.get(SERVER_VARIABLE))
    return found + doctor_server.findings(server, expected=expected)


def settings(flags: Mapping[str, str]) -> tuple[Config, list[Finding]]:
    """Read the settings as a server would; where it would refuse them, the defaults have to do."""
    try:
        config = load(flags, os.environ, read_file)
    except ConfigError as error:
        advice = "Correct it: a server would not start. What follows is told of the defaults."
        return Config(), [Finding("settings", State.BAD, str(error), advice)]
    risky = [Finding("settings", State.WARNING, one, "See docs/operate/settings.md.") for one in cautions(config)]
    return config, risky or [Finding("settings", State.OK, "a server would take them")]


def report(found: Iterable[Finding]) -> list[str]:
    """Lay the findings out for people, part by part."""
    found = list(found)
    room = terminal_width() - INDENT
    lines = []
    for part, members in groupby(found, key=lambda one: one.part):
        lines.append(paint(part, bold=True))
        for one in members:
            mark = paint(f"  {one.state.value:{WIDTH}}", fg=COLOURS[one.state])
            first, *rest = [line for told in (one.found, one.advice) if told for line in wrap(text(told), room)]
            lines += [mark + first, *(" " * INDENT + line for line in rest)]
    return [*lines, "", summary(found)]


def summary(found: list[Finding]) -> str:
    """Say in a line how it stands."""
    bad, warnings = (sum(one.state is state for one in found) for state in (State.BAD, State.WARNING))
    if not bad and not warnings:
        return "All is well."
    parts = [
        f"{bad} bad" if bad else "",
        f"{warnings} {'warning' if warnings == 1 else 'warnings'}" if warnings else "",
    ]
    return f"{' and '.join(filter(None, parts))}."


def verdict(found: list[Finding], *, strict: bool) -> int:
    """Choose the exit code."""
    failing = (State.BAD, State.WARNING) if strict else (State.BAD,)
    return EXIT_BAD if any(one.state in failing for one in found) else 0


def doctor_command() -> click.Command:
    """Build the click command."""
    params: list[click.Parameter] = [SettingOption(SETTINGS[name]) for name in EXAMINED]
    strict: Any = click.Option(["--strict"], is_flag=True, help="Let warnings count for the exit code, too.")
    return command("doctor", doctor, [*params, strict, *style_options()])
