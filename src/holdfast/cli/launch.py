"""From a Config to a running server, and from a bad setting to one line and an exit code.

The environment and token files are read here and nowhere below; no flag is understood here.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from holdfast.config import Config
from holdfast.errors import ConfigError

FILE_CHARACTERS_MAX = 1_048_576

STANDARD_FILES = 3

EXIT_CONFIG = 1
EXIT_USAGE = 2


def launch(make_config: Callable[[], Config]) -> int:
    """Run a server until it ends, and answer the exit code of the process."""
    open_standard_files()
    try:
        config = make_config()
        # The server brings the event loop and the logs with it; help and bad settings do not wait for them.
        from holdfast.server import run

        return run(config)
    except ConfigError as error:
        sys.stderr.write(f"holdfast: {error}\n")
        return EXIT_CONFIG


def open_standard_files() -> None:
    """Fill the places of standard files that are closed: the event loop cannot close what else would end up there."""
    while (file := os.open(os.devnull, os.O_RDWR)) < STANDARD_FILES:
        pass
    os.close(file)


def read_file(path: str) -> str:
    """Read a token file as it is; bytes that are not UTF-8 survive, and an endless file does not hang us."""
    with Path(path).open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read(FILE_CHARACTERS_MAX)
