"""How the server logs: text for a person at a terminal, one JSON object a line for everything else.

No message is written here, and nothing on the path of a successful request may call in here.
"""

import contextlib
import logging
from typing import Any, TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class Tolerant:
    """A stream whose lines get lost where it is full, broken or not there: the work that they tell of must go on."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        # ValueError is how Python says that a file has been closed.
        with contextlib.suppress(OSError, ValueError):
            if self._stream is not None:
                self._stream.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            if self._stream is not None:
                self._stream.flush()


def configure(level: str, fmt: str, stream: TextIO | None) -> None:
    """Send all logs of this process to `stream`; `auto` means text on a terminal and JSON elsewhere.

    A process that was started without a standard error has no stream.
    """
    terminal = stream is not None and stream.isatty()
    as_text = fmt == "text" or (fmt == "auto" and terminal)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *(_text(colours=terminal) if as_text else _json()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, Tolerant(stream))),
        cache_logger_on_first_use=False,
    )


def get_logger(**context: Any) -> FilteringBoundLogger:
    """Make a logger whose lines carry `context`; it may be made before `configure` is called."""
    return cast(FilteringBoundLogger, structlog.get_logger(**context))


def _text(*, colours: bool) -> list[Processor]:
    plain = structlog.dev.plain_traceback
    return [_visible, structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=plain)]


def _json() -> list[Processor]:
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=_spell)]


def _visible(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escape texts with control characters, so that a caller cannot write a line of its own into the log."""
    for name, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[name] = ascii(value)
    return event


def _spell(value: object) -> str:
    """Spell what JSON has no word for; keys of locks are bytes."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else repr(value)
