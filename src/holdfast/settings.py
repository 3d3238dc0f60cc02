"""What one setting is: how its text is read, limited and refused; also how addresses and stores are spelled.

Which settings exist is said elsewhere (`config.py`, drop-in commands); nothing here looks anything up.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import cast
from urllib.parse import unquote

from holdfast.errors import ConfigError

SECOND = 1_000_000_000
SECONDS_MAX = 9_223_372_036  # the most whole seconds whose nanoseconds still fit in 63 bits
COUNT_MAX = 2**63 - 1
BYTES_MAX = 2**30
PORT_MAX = 65_535

TRUE_WORDS = ("true", "yes", "1")
FALSE_WORDS = ("false", "no", "0")


Value = str | int | bool | None


class Kind(Enum):
    """What a setting's text must look like; the value is the placeholder shown in the help."""

    SECONDS = "SECONDS"
    COUNT = "N"
    BYTES = "BYTES"
    BOOLEAN = "BOOLEAN"
    CHOICE = "CHOICE"
    ADDRESS = "HOST:PORT"
    HOST = "HOST"
    STORE = "URL"
    FILE = "FILE"
    TEXT = "TEXT"


@dataclass(frozen=True, slots=True)
class Given:
    """A text that somebody gave for a setting, and where: a flag or an environment variable."""

    text: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting as seen from outside; `field` names the value it becomes, `name` is what people call it."""

    field: str
    name: str
    flag: str
    variable: str
    default: Value
    kind: Kind
    help: str
    group: str
    least: int = 0
    most: int = COUNT_MAX
    choices: tuple[str, ...] = ()
    secret: bool = False

    def expectation(self) -> str:
        """Say what a good value looks like, limits included."""
        match self.kind:
            case Kind.SECONDS:
                return f"a whole number of seconds from {self.least} to {self.most}"
            case Kind.BYTES:
                return f"a whole number of bytes from {self.least} to {self.most}"
            case Kind.COUNT:
                return f"a whole number from {self.least} to {self.most}"
            case Kind.BOOLEAN:
                return "one of " + ", ".join(TRUE_WORDS + FALSE_WORDS)
            case Kind.CHOICE:
                return "one of " + ", ".join(self.choices)
            case Kind.ADDRESS:
                return f'HOST:PORT with a port from 0 to {PORT_MAX} (IPv6 as [HOST]:PORT), or "off"'
            case Kind.HOST:
                return "a host name or an IP address"
            case Kind.STORE:
                return "a store URL"
            case Kind.FILE | Kind.TEXT:
                return "a text that is not empty"

    def refusal(self, given: Given, why: str = "") -> ConfigError:
        """Build the error that names the setting, the value, its source and what was expected."""
        value = "" if self.secret else f", not {given.text!r}"
        text = f"{self.name} must be {self.expectation()}{value} (from {given.source})"
        return ConfigError(f"{text}: {why}" if why else text)

    def read(self, given: Given) -> Value:
        """Turn outside text into the value kept inside, or refuse it."""
        match self.kind:
            case Kind.SECONDS:
                return self._whole(given) * SECOND
            case Kind.COUNT | Kind.BYTES:
                return self._whole(given)
            case Kind.BOOLEAN:
                return self._truth(given)
            case Kind.CHOICE:
                return self._choice(given)
            case _:
                return self._text(given)

    def shown(self) -> str:
        """Spell the default the way a person would type it."""
        if self.default is None or self.default == "":
            return "unset"
        if isinstance(self.default, bool):
            return "true" if self.default else "false"
        if self.kind is Kind.SECONDS:
            return str(cast(int, self.default) // SECOND)
        return str(self.default)

    def _whole(self, given: Given) -> int:
        # `int` alone is too lax: it takes underscores, spaces and the digits of every script.
        if not re.fullmatch(r"[+-]?[0-9]{1,99}", given.text):
            raise self.refusal(given)
        value = int(given.text)
        if not self.least <= value <= self.most:
            raise self.refusal(given)
        return value

    def _truth(self, given: Given) -> bool:
        word = given.text.lower()
        if word not in TRUE_WORDS + FALSE_WORDS:
            raise self.refusal(given)
        return word in TRUE_WORDS

    def _choice(self, given: Given) -> str:
        if given.text not in self.choices:
            raise self.refusal(given)
        return given.text

    def _text(self, given: Given) -> str:
        if given.text == "":
            raise self.refusal(given)
        try:
            if self.kind is Kind.ADDRESS and given.text != "off":
                split_address(given.text)
            if self.kind is Kind.HOST:
                split_address(join_address(given.text, 0))
            if self.kind is Kind.STORE:
                parse_store(given.text)
        except ConfigError as error:
            raise self.refusal(given, error.detail) from error
        return given.text


def split_address(text: str) -> tuple[str, int]:
    """Split HOST:PORT; IPv6 stands in brackets, and a star means every interface and gives an empty host."""
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > PORT_MAX:
        raise ConfigError(f"{text!r} does not end in a port from 0 to {PORT_MAX}")
    if host == "*":
        return "", int(port)
    if bracketed := re.fullmatch(r"\[([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[^\s\[\]]+)?)\]", host):
        return bracketed[1], int(port)
    if ":" in host:
        raise ConfigError(f"the IPv6 host of {text!r} must stand in brackets, as in [::1]:6388")
    # An empty host is refused, not read as "everywhere": it is what an unset shell variable leaves behind.
    if not re.fullmatch(r"[^\s\[\]/*]+", host):
        raise ConfigError(f"{text!r} has no usable host; every interface is spelled *:{port}")
    return host, int(port)


def join_address(host: str, port: int) -> str:
    """Spell an address for `split_address`; a bare IPv6 host gets its brackets."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


@dataclass(frozen=True, slots=True)
class StoreChoice:
    """A store URL, taken apart."""

    scheme: str
    path: str | None = None
    fence_file: str | None = None


# Each store with the options that its URL may carry, and those that are followed by a path.
STORES: dict[str, tuple[str, ...]] = {"sqlite": (), "memory": ("fence",)}
STORES_IN_FILES = ("sqlite",)


def parse_store(url: str) -> StoreChoice:
    """Take a store URL apart; percent signs escape, and the refusal of what is unknown lists what exists."""
    scheme, colon, rest = url.partition(":")
    known = ", ".join(f"{name}:" for name in STORES)
    if not colon or scheme not in STORES:
        raise ConfigError(f"store {url!r} is unknown; there is: {known}")
    text, _, query = rest.partition("?")
    path = unquote(text, errors="surrogateescape") or None
    if path is not None and scheme not in STORES_IN_FILES:
        raise ConfigError(f"store {url!r}: {scheme}: takes no path, but has {text!r}")
    if scheme in STORES_IN_FILES and (path is None or "\0" in path):
        raise ConfigError(f"store {url!r}: {scheme}: needs the path of a file, without a NUL")
    options: dict[str, str] = {}
    for pair in query.split("&") if query else ():
        name, _, value = pair.partition("=")
        if name not in STORES[scheme]:
            raise ConfigError(
                f"store {url!r}: unknown option {name!r}; there is: {', '.join(STORES[scheme]) or 'none'}"
            )
        if name in options:
            raise ConfigError(f"store {url!r}: option {name!r} is given twice")
        options[name] = unquote(value, errors="surrogateescape")
        if not options[name] or "\0" in options[name]:
            raise ConfigError(f"store {url!r}: option {name!r} needs a value without a NUL")
    return StoreChoice(scheme=scheme, path=path, fence_file=options.get("fence"))
