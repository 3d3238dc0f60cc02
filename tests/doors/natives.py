"""Short ways to say what tests of the native door say often, and to write down what its callers hear.

No expectation lives here.
"""

from typing import Any

from holdfast.testing.native_stage import Line, NativeCaller, ticket


def named(name: str) -> str:
    """Make the ticket of a claim, or of a member of a group: `a#1`."""
    name, mark, number = name.partition("#")
    return ticket(name) + mark + number


def short(line: Line) -> str:
    """Spell the least that tells one answer or event from another."""
    word = str(line.get("answer") or line.get("error") or line["event"])
    names = [one["ticket"] for one in line["claims"]] if "claims" in line else [line.get("ticket", "")]
    told = [word, *(name.partition("-")[0] + name.partition("#")[1] + name.partition("#")[2] for name in names if name)]
    return " ".join([*told, *([line["reason"]] if "reason" in line else [])])


def heard(caller: NativeCaller) -> list[str]:
    return [short(line) for line in caller.lines()]


def ask(caller: NativeCaller, op: str, name: str = "", **fields: Any) -> str:
    """Ask; the answer has come at once, and nothing else has."""
    return short(caller.call(op, **({"ticket": named(name)} if name else {}), **fields))


def post(caller: NativeCaller, op: str, name: str, **fields: Any) -> list[str]:
    """Ask, and tell all that was heard at once."""
    caller.post(op, ticket=named(name), **fields)
    return heard(caller)
