"""What a caller says about a lock, checked and put into the client's own units; and how it introduces itself.

Nothing is asked of a server here. What cannot be is refused with BadRequest, which names the option.
"""

import os
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from holdfast.client.asks import Member, Want
from holdfast.client.lease import default_margin_ns
from holdfast.errors import BadRequest

SECOND: Final = 1_000_000_000
SECONDS_MAX: Final = 1_000_000_000.0  # some 31 years
KEY_BYTES_MAX: Final = 1024
LIMIT_MAX: Final = 1_000_000_000
VALUE_BYTES_MAX: Final = 64
MODES: Final = ("NL", "CR", "CW", "PR", "PW", "EX")
NAME_BYTES_MAX: Final = 64
# What is shown of whoever asks, and how many bytes of it.
TEXT_BYTES_MAX: Final = 128
OPERATION_BYTES_MAX: Final = 256

Seconds = float | timedelta

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# Control characters, and halves of characters, which UTF-8 does not have.
_UNFIT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def span_ns(value: Seconds, what: str, *, least: float = 0.0) -> int:
    """Read a length of time; `what` names it in a refusal. What is not nothing does not become nothing."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise BadRequest(f"{what} must be a number of seconds or a timedelta, not {value!r}")
    if not least <= seconds <= SECONDS_MAX:
        raise BadRequest(f"{what} must be from {least:g} to {SECONDS_MAX:g} s, not {seconds!r}")
    return max(round(seconds * SECOND), 1 if seconds > 0 else 0)


def optional_ns(value: Seconds | None, what: str, *, least: float = 0.0) -> int | None:
    """Read a length of time that may be for ever."""
    return None if value is None else span_ns(value, what, least=least)


def _whole(value: object, what: str, most: int, why: str) -> None:
    """Check a number of things."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise BadRequest(f"{what} must be a whole number from 1 to {why}, not {value!r}")


def _check_text(text: object, what: str, most: int, *, least: int = 0) -> None:
    """Check what is shown to whoever looks."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else b""
    if not isinstance(text, str) or not least <= len(raw) <= most or _UNFIT.search(text):
        raise BadRequest(f"{what} must be a text of {least} to {most} bytes in UTF-8 without control characters")


class AsBefore:
    """Stands for a patience that was given with the lock."""


AS_BEFORE: Final = AsBefore()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All that a lock can be asked for with. The functions are the caller's own."""

    lease_ns: int
    patience_ns: int | None = None
    margin_ns: int = 0
    mode: str = "EX"
    limit: int | None = None
    units: int = 1
    beat_ns: int | None = None
    on_danger: Callable[[Any], object] | None = None
    on_lost: Callable[[Any], object] | None = None
    on_contended: Callable[[Any], object] | None = None
    cancel_on_lost: bool = False
    operation: str | None = None
    refuse_deadlock: bool = False

    def want(self, key: str, ticket: str, about: dict[str, str], members: tuple[Member, ...] = ()) -> Want:
        """Say to a server what is wanted."""
        if self.operation is not None:
            about = about | {"operation": self.operation}
        return Want(
            key=key,
            ticket=ticket,
            lease_ns=self.lease_ns,
            mode=self.mode,
            limit=self.limit,
            units=self.units,
            nudge=self.on_contended is not None,
            refuse_deadlock=self.refuse_deadlock,
            about=about,
            members=members,
        )

    def with_mode(self, mode: str) -> "Options":
        """Want the same in another mode."""
        return replace(self, mode=mode)


def options_of(
    *,
    lease: Seconds,
    patience: Seconds | None,
    margin: Seconds | None,
    mode: str,
    limit: int | None,
    units: int,
    beat_timeout: Seconds | None,
    on_danger: Callable[[Any], object] | None,
    on_lost: Callable[[Any], object] | None,
    on_contended: Callable[[Any], object] | None,
    cancel_on_lost: bool,
    operation: str | None,
    deadlock: str | None,
) -> Options:
    """Check what a caller says."""
    lease_ns = span_ns(lease, "lease", least=0.001)
    margin_ns = default_margin_ns(lease_ns) if margin is None else span_ns(margin, "margin")
    if margin_ns >= lease_ns:
        raise BadRequest(f"a margin of {margin_ns / SECOND:g} s leaves nothing of a lease of {lease_ns / SECOND:g} s")
    check_mode(mode)
    if limit is not None:
        _whole(limit, "limit", LIMIT_MAX, str(LIMIT_MAX))
    _whole(units, "units", limit or 1, f"the limit of {limit or 1}")
    if deadlock not in (None, "refuse"):
        raise BadRequest(f'deadlock must be "refuse" or None, not {deadlock!r}')
    if operation is not None:
        _check_text(operation, "operation", OPERATION_BYTES_MAX)
    return Options(
        lease_ns=lease_ns,
        patience_ns=optional_ns(patience, "patience"),
        margin_ns=margin_ns,
        mode=mode,
        limit=limit,
        units=units,
        beat_ns=optional_ns(beat_timeout, "beat_timeout", least=0.001),
        on_danger=on_danger,
        on_lost=on_lost,
        on_contended=on_contended,
        cancel_on_lost=cancel_on_lost,
        operation=operation,
        refuse_deadlock=deadlock == "refuse",
    )


def check_key(key: str) -> str:
    """Refuse what names nothing."""
    if not isinstance(key, str):
        raise BadRequest(f"a key is a text, not {key!r}")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise BadRequest(f"the key {key[:80]!r} cannot be written in UTF-8") from None
    if not 0 < size <= KEY_BYTES_MAX:
        raise BadRequest(f"a key has 1 to {KEY_BYTES_MAX} bytes in UTF-8, not {size}")
    return key


def check_mode(mode: str) -> str:
    """Refuse what is no mode."""
    if mode not in MODES:
        raise BadRequest(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    return mode


def check_value(value: bytes | None) -> bytes | None:
    """Refuse a value that no key keeps."""
    if value is not None and not isinstance(value, bytes):
        raise BadRequest(f"a value is bytes, not {value!r}")
    if value is not None and len(value) > VALUE_BYTES_MAX:
        raise BadRequest(f"a value has at most {VALUE_BYTES_MAX} bytes, not {len(value)}")
    return value


def check_name(name: str | None) -> str:
    """Say what a client calls itself; without a name, what the program is called."""
    if name is None:
        import sys

        return shown(os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python", NAME_BYTES_MAX)
    _check_text(name, "name", NAME_BYTES_MAX, least=1)
    return name


def shown(text: str, most: int = TEXT_BYTES_MAX) -> str:
    """Cut a text so that a server takes it."""
    raw = _CONTROL.sub("?", text).encode("utf-8", "replace")
    return raw[:most].decode("utf-8", "ignore") or "?"


def host_name() -> str:
    """Say which machine this is."""
    return shown(socket.gethostname())


def about_thread() -> dict[str, str]:
    """Tell which thread asks, for those who look who holds what."""
    name = threading.current_thread().name
    if len(name) <= TEXT_BYTES_MAX // 4 and name.isprintable() and name:
        return {"thread": name}
    return {"thread": shown(name)}
