"""Who may do what over HTTP: bearer tokens, and the rights that each has to the keys under a prefix.

How a token reaches us, and what is told to those without one, is the business of the doors.
"""

import hmac
from dataclasses import dataclass
from typing import Final, Literal, get_args

import msgspec

from holdfast.errors import ConfigError

Right = Literal["read", "hold", "break"]

ALL_RIGHTS: Final[frozenset[Right]] = frozenset(get_args(Right))

ALLOWED: Final = 200
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403

SETTING: Final = "http_tokens_file"


class TokenEntry(msgspec.Struct, forbid_unknown_fields=True):
    """One token as it stands in the file."""

    name: str
    token: str
    rights: dict[str, list[Right]]


class TokensFile(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file."""

    tokens: list[TokenEntry]


@dataclass(frozen=True, slots=True)
class Bearer:
    """Somebody with a token. Prefixes come longest first, so that the first one that fits decides."""

    name: str
    token: bytes
    rights: tuple[tuple[str, frozenset[Right]], ...]

    def may(self, right: Right, key_name: str) -> bool:
        for prefix, rights in self.rights:
            if key_name.startswith(prefix):
                return right in rights
        return False


class Rights:
    """All tokens of a server. Where there are none, everybody may do everything."""

    def __init__(self, bearers: list[Bearer]) -> None:
        self._bearers = bearers

    @classmethod
    def load(cls, text: str | None, *, auth_token: str | None = None) -> "Rights":
        """Read the file of tokens, if there is one, and add the one that may do everything; raises ConfigError."""
        bearers = [] if text is None else _read(text)
        if auth_token is not None:
            plain = Bearer("auth_token", auth_token.encode("utf-8", "surrogateescape"), (("", ALL_RIGHTS),))
            if any(bearer.token == plain.token for bearer in bearers):
                raise _bad("a token in it is also the auth_token, which may do everything")
            bearers.append(plain)
        return cls(bearers)

    def allows(self, authorization: str | None, right: Right | None, key_name: str = "") -> int:
        """Judge an Authorization header: 200, 401 for no known token, 403 for one that lacks the right.

        Without a right, any known token does.
        """
        if not self._bearers:
            return ALLOWED
        bearer = self.find(authorization)
        if bearer is None:
            return UNAUTHORIZED
        return ALLOWED if right is None or bearer.may(right, key_name) else FORBIDDEN

    def find(self, authorization: str | None) -> Bearer | None:
        """Compare with every token, also when none was sent: the time must not tell how close somebody came."""
        shown = _token_shown(authorization or "")
        found = None
        for bearer in self._bearers:
            if hmac.compare_digest(bearer.token, shown):
                found = bearer
        return found


def _token_shown(authorization: str) -> bytes:
    """Take the token out of a header, whose bytes came in as Latin-1; nothing, where it is no bearer token."""
    scheme, _, token = authorization.strip(" \t").partition(" ")
    if scheme.lower() != "bearer":
        return b""
    try:
        return token.strip(" \t").encode("latin-1")
    except UnicodeEncodeError:
        return b""


def _read(text: str) -> list[Bearer]:
    try:
        entries = msgspec.json.decode(text.encode("utf-8", "surrogateescape"), type=TokensFile).tokens
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(str(error)) from error
    if not entries:
        # An empty list would open the door to everybody, which is hardly what a file of tokens is for.
        raise _bad("it lists no tokens")
    for number, entry in enumerate(entries):
        _check(entry, number, entries[:number])
    return [_bearer(entry) for entry in entries]


def _check(entry: TokenEntry, number: int, before: list[TokenEntry]) -> None:
    """Refuse an entry that cannot work as it was meant. The token itself is never repeated."""
    where = f"tokens[{number}]"
    if not entry.name:
        raise _bad(f"{where}: the name is empty")
    where = f"{where} ({entry.name!r})"
    if not entry.token:
        raise _bad(f"{where}: the token is empty")
    if any(map(str.isspace, entry.token)) or not entry.token.isprintable():
        raise _bad(f"{where}: the token has white space or control characters in it")
    if any(other.name == entry.name for other in before):
        raise _bad(f"{where}: another one has the same name")
    if any(other.token == entry.token for other in before):
        raise _bad(f"{where}: another one has the same token")


def _bearer(entry: TokenEntry) -> Bearer:
    longest_first = sorted(entry.rights.items(), key=lambda item: -len(item[0]))
    rights = tuple((prefix, frozenset(rights)) for prefix, rights in longest_first)
    return Bearer(entry.name, entry.token.encode("utf-8"), rights)


def _bad(detail: str) -> ConfigError:
    return ConfigError(f"{SETTING}: {detail}")
