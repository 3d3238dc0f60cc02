"""Command lines in the dialect of Go's `flag` package, for commands that stand in for programs written in Go.

Only the dialect is known here; which flags there are, and what their values mean, is the caller's business.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

TRUE_WORDS = frozenset({"1", "t", "T", "true", "TRUE", "True"})
FALSE_WORDS = frozenset({"0", "f", "F", "false", "FALSE", "False"})
DIGITS_MAX = 64

# Go's integer literals: an underscore may stand between digits or after the base prefix, and a leading zero
# alone means octal.
LITERAL = re.compile(
    r"""[+-]?(?:
        0[xX](?P<hex>(?:_?[0-9a-fA-F])+) | 0[bB](?P<binary>(?:_?[01])+) | 0[oO]?(?P<octal>(?:_?[0-7])+)
        | (?P<decimal>0 | [1-9](?:_?[0-9])*)
    )""",
    re.VERBOSE | re.ASCII,
)
BASES = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}


class Type(Enum):
    """What a flag takes; the value is the word for it in the usage text."""

    INT = "int"
    BOOL = ""
    STRING = "string"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag, without its dashes; `default` is only shown."""

    name: str
    type: Type
    default: str
    help: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """Values in plain spelling (decimal integers, true or false), and the arguments after the flags."""

    values: dict[str, str]
    rest: list[str]


class FlagError(Exception):
    """A command line that Go would refuse; the text is what Go would say."""


class HelpAsked(Exception):
    """The command line asks for the usage text."""


def parse(arguments: Sequence[str], flags: Mapping[str, Flag]) -> Parsed:
    """Read flags up to the first argument that is none; the last of a repeated flag wins."""
    values: dict[str, str] = {}
    rest = list(arguments)
    while rest and len(rest[0]) > 1 and rest[0].startswith("-"):
        argument = rest.pop(0)
        if argument == "--":
            break
        name, text = _split(argument)
        flag = flags.get(name)
        if flag is None:
            if name in ("h", "help"):
                raise HelpAsked
            raise FlagError(f"flag provided but not defined: -{name}")
        if text is None and flag.type is Type.BOOL:
            text = "true"
        if text is None:
            if not rest:
                raise FlagError(f"flag needs an argument: -{name}")
            text = rest.pop(0)
        values[name] = _plain(flag, text)
    return Parsed(values, rest)


def usage(program: str, flags: Iterable[Flag]) -> str:
    """Write the usage text, sorted by name, in the layout that Go programs print."""
    lines = [f"Usage of {program}:"]
    for flag in sorted(flags, key=lambda flag: flag.name):
        lines.append(f"  -{flag.name} {flag.type.value}".rstrip())
        default = f" (default {flag.default})" if flag.default else ""
        lines.append(f"    \t{flag.help}{default}")
    return "\n".join(lines) + "\n"


def _split(argument: str) -> tuple[str, str | None]:
    name = argument[2:] if argument.startswith("--") else argument[1:]
    if name.startswith(("-", "=")):
        raise FlagError(f"bad flag syntax: {argument}")
    name, equals, text = name.partition("=")
    return name, text if equals else None


def _plain(flag: Flag, text: str) -> str:
    match flag.type:
        case Type.INT:
            return _plain_int(flag.name, text)
        case Type.BOOL:
            if text not in TRUE_WORDS | FALSE_WORDS:
                raise FlagError(f"invalid boolean value {_quoted(text)} for -{flag.name}: parse error")
            return "true" if text in TRUE_WORDS else "false"
        case Type.STRING:
            return text


def _plain_int(name: str, text: str) -> str:
    found = LITERAL.fullmatch(text)
    if found is None:
        raise FlagError(f"invalid value {_quoted(text)} for flag -{name}: parse error")
    base, digits = next((BASES[group], digits) for group, digits in found.groupdict().items() if digits)
    digits = digits.replace("_", "").lstrip("0") or "0"
    # What has more digits than a binary 64-bit number is out of range in every base.
    value = int(digits, base) if len(digits) <= DIGITS_MAX else 2**DIGITS_MAX
    value = -value if text.startswith("-") else value
    if not -(2**63) <= value < 2**63:
        raise FlagError(f"invalid value {_quoted(text)} for flag -{name}: value out of range")
    return str(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in escaped) + '"'
