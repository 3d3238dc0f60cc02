"""`holdfast lockserver`: start Holdfast in place of LockServer, with its two variables and its defaults.

A mapping onto `Config` lives here; what a setting may be comes from there, and what it does is the server's business.
"""

import sys
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from holdfast.cli.launch import EXIT_USAGE, launch
from holdfast.config import SETTINGS, Config, split_address
from holdfast.errors import ConfigError
from holdfast.settings import SECOND

ADDRESS_VARIABLE = "LOCKSERVER_ADDR"
ADDRESS_DEFAULT = ":8080"
FILE_VARIABLE = "LOCKSERVER_DB"
FILE_DEFAULT = "./lockserver.db"
NAMED_PORTS = {"http": "80", "https": "443"}

USAGE = f"""\
Usage: holdfast lockserver

Run a server in place of LockServer: its HTTP interface, and locks in an SQLite file.
There are no flags. An empty variable counts as unset.

  {ADDRESS_VARIABLE}  address to listen on; :PORT is every interface (default {ADDRESS_DEFAULT})
  {FILE_VARIABLE}    file of the locks; one that LockServer made is carried on (default {FILE_DEFAULT})

For everything else there is: holdfast serve --help
"""


def load(environ: Mapping[str, str]) -> Config:
    """Make the Config that behaves as the original would with these variables."""
    file = environ.get(FILE_VARIABLE) or FILE_DEFAULT
    if "\0" in file:
        raise ConfigError(f"{FILE_VARIABLE} must be the path of a file, not {file!r}")
    return Config(
        store="sqlite:" + quote(file, errors="surrogateescape"),
        http=go_address(environ.get(ADDRESS_VARIABLE) or ADDRESS_DEFAULT),
        http_api="leases",
        line="off",
        # The original shows it to everybody who looks, so somebody may rely on it.
        http_lease_ids_shown=True,
        http_name_bytes_max=_most("http_name_bytes_max"),
        http_body_bytes_max=_most("http_body_bytes_max"),
        shutdown_timeout_ns=5 * SECOND,
        sweep_interval_ns=SECOND // 2,
        log_operations="all",
        log_format="json",
    )


def go_address(text: str) -> str:
    """Spell an address of Go's `net` package the way our settings have it."""
    host, colon, port = text.rpartition(":")
    if host in ("", "[]"):
        host = "*"
    port = NAMED_PORTS.get(port.lower(), port) or "0"
    try:
        if not colon:
            raise ConfigError("it has no port")
        split_address(f"{host}:{port}")
    except ConfigError as error:
        raise ConfigError(
            f"{ADDRESS_VARIABLE} must be HOST:PORT or :PORT (IPv6 as [HOST]:PORT), not {text!r}: {error.detail}"
        ) from error
    return f"{host}:{port}"


def _most(field: str) -> int:
    """Give the most that a setting may be: the original has no limit there."""
    return SETTINGS[field].most


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the command and answer its exit code."""
    if any(argument in ("-h", "-help", "--help") for argument in arguments):
        sys.stdout.write(USAGE)
        return 0
    if arguments:
        # The original ignores arguments; whoever passes some expects something of them.
        sys.stderr.write(f"holdfast lockserver: unexpected argument: {arguments[0]!r}\n\n{USAGE}")
        return EXIT_USAGE
    return launch(lambda: load(environ))
