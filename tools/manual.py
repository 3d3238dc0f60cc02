"""Write the manual page from the commands themselves: what `--help` tells, for `man holdfast`.

`python -m tools.manual` brings the page up to date, and a test says when it is not; no command is named here.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from holdfast import __version__
from holdfast.cli.calling import SERVER_DEFAULT, SERVER_VARIABLE
from holdfast.cli.leases_backend import BACKEND_VARIABLE
from holdfast.cli.main import SECTIONS, holdfast
from holdfast.errors import SPELLINGS

PAGE = Path("man/holdfast.1")

# Click's sign that the lines of a paragraph are to stay as they are.
AS_IS = "\b"

SYNOPSIS = r"""
.B holdfast
.I COMMAND
.RI [ OPTIONS ]
.RI [ ARGUMENTS ]
"""

SEE_ALSO = "The protocols, the guide and the pages for operators are in the folder docs of Holdfast's sources."


def escaped(text: str) -> str:
    """Spell a text so that it is shown as it is."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


def prose(text: str) -> str:
    """Spell running text; what stands between backticks becomes bold."""
    return re.sub(r"`([^`]+)`", r"\\fB\1\\fP", escaped(text))


def paragraphs(text: str) -> Iterator[str]:
    """Lay out a help text."""
    for paragraph in text.split("\n\n"):
        lines = [line.strip() for line in paragraph.strip("\n").split("\n")]
        if lines[0] == AS_IS:
            yield "\n".join([".PP", ".nf", *map(prose, lines[1:]), ".fi"])
        else:
            yield f".PP\n{prose(' '.join(lines).strip())}"


def item(name: str, text: str) -> str:
    """Lay out what is explained."""
    return f".TP\n\\fB{escaped(name)}\\fP\n{prose(text)}"


def command(name: str, found: click.Command) -> Iterator[str]:
    """Tell of one command; of a group, of each of its commands."""
    if isinstance(found, click.Group):
        for member, inner in found.commands.items():
            yield from command(f"{name} {member}", inner)
        return
    above = click.Context(holdfast, info_name="holdfast")
    ctx = click.Context(found, info_name=name, parent=above, **found.context_settings)
    pieces = " ".join(escaped(piece) for piece in found.collect_usage_pieces(ctx))
    yield f".SS {escaped(name)}\n\\fBholdfast {escaped(name)}\\fP {pieces}"
    yield from paragraphs(found.help or "")
    group = ""
    for param in found.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is None or not record[1] or record[0] == "--help":
            continue
        heading = param.setting.group if hasattr(param, "setting") and found.name == "serve" else group
        if heading != group:
            yield f".PP\n\\fI{escaped(heading)}\\fP"
            group = heading
        yield item(*record)


def exit_status() -> Iterator[str]:
    """Tell what the exit codes mean that are more than yes and no."""
    names: dict[int, list[str]] = {}
    for code, spelling in SPELLINGS.items():
        names.setdefault(spelling.exit_code, []).append(code.replace("_", " "))
    names.setdefault(1, []).append("a finding of `doctor`, `deadlocks` or `load`")
    names[2] = ["a command line that is not understood"]
    yield item("0", "It was done.")
    for number, members in sorted(names.items()):
        yield item(str(number), f"{', '.join(members).capitalize()}.")


def page() -> str:
    """Write the whole page."""
    ctx = click.Context(holdfast, info_name="holdfast")
    what, _, rest = (holdfast.help or "").partition("\n\n")
    parts = [
        f'.TH HOLDFAST 1 "" "holdfast {__version__}" "User Commands"',
        ".nh\n.ad l",  # a command or an address must not be torn apart
        f".SH NAME\nholdfast \\- {prose(what.strip().rstrip('.').replace('One', 'one', 1))}",
        f".SH SYNOPSIS{SYNOPSIS.rstrip()}",
        ".SH DESCRIPTION",
        *paragraphs(rest),
    ]
    for heading, members in SECTIONS.items():
        parts.append(f".SH {escaped(heading.upper())}")
        for name in members:
            found = holdfast.get_command(ctx, name)
            assert found is not None
            parts += command(name, found)
    parts.append(".SH ENVIRONMENT")
    parts.append(item(SERVER_VARIABLE, f"The server to call, unless --server names one. [default: {SERVER_DEFAULT}]"))
    parts.append(item(BACKEND_VARIABLE, "The database that keeps leases, unless --backend names one."))
    parts += [".SH EXIT STATUS", *exit_status(), f".SH SEE ALSO\n{prose(SEE_ALSO)}"]
    return "\n".join(parts) + "\n"


def main(path: Path = PAGE) -> int:
    """Bring the page up to date; answer the exit code."""
    path.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
