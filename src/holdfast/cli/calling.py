"""What all commands share that call a server: the option `--server`, opening a client, and saying no with an exit code.

What is asked of the server stands in the commands.
"""

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.durations import UNITS, parse
from holdfast.cli.listing import text
from holdfast.errors import SPELLINGS, BadRequest, HoldfastError, Unavailable

if TYPE_CHECKING:
    from holdfast.sync import Client

SERVER_VARIABLE = "HOLDFAST_SERVER"
SERVER_DEFAULT = "holdfast://127.0.0.1:6388"

KINDS = ("lock", "semaphore")

KNOCK_S_MAX = 5.0


class Seconds(click.ParamType[float]):
    """A length of time between two limits: seconds, or with units as in 1m30s; becomes seconds."""

    name = "seconds"

    def __init__(self, least: float, most: float) -> None:
        self.least = least
        self.most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read it, or say what is wrong with it."""
        if isinstance(value, float):
            return value
        try:
            found = parse(value if value[-1:].isalpha() else f"{value}s") / UNITS["s"]
        except ValueError:
            self.fail(f"{value!r} is no length of time, such as 30, 0.5 or 1m30s", param, ctx)
        if not self.least <= found <= self.most:
            self.fail(f"{value} is not from {self.least:g} to {self.most:g} seconds", param, ctx)
        return found


def server_option() -> click.Option:
    """Say which server is meant."""
    return click.Option(
        ["--server"],
        metavar="URL",
        help=f"Server to call, or several with commas between. [default: {SERVER_DEFAULT}; env: {SERVER_VARIABLE}]",
    )


def kind_option() -> click.Option:
    """Say which of the two things of one name is meant."""
    return click.Option(["--semaphore", "kind"], flag_value="semaphore", help="KEY is a semaphore, not a lock.")


def kind_choice(about: str) -> click.Option:
    """Ask which kind of things is meant, where it may be both."""
    return click.Option(["--kind"], type=click.Choice(KINDS), help=about)


def url_of(server: str | None) -> str:
    """Choose the server: what was said, else what the environment says, else the one on this machine."""
    return server or os.environ.get(SERVER_VARIABLE) or SERVER_DEFAULT


def scheme_of(url: str) -> str:
    """Tell the way of talking that a URL names, TLS or not."""
    scheme = url.partition("://")[0]
    return {"holdfasts": "holdfast", "dflocks": "dflock", "https": "http"}.get(scheme, scheme)


def without_token(url: str) -> str:
    """Spell servers so that they can be shown: what stands before an @ is a secret."""
    shown = []
    for one in url.split(","):
        scheme, mark, rest = one.strip().partition("://")
        shown.append(f"{scheme}{mark}{rest.rpartition('@')[2]}")
    return ",".join(shown)


@contextmanager
def opened(server: str | None, *, name: str = "holdfast", timeout_s: float | None = None) -> Iterator["Client"]:
    """Lend a client of that server."""
    from holdfast.sync import connect

    wishes: dict[str, Any] = {} if timeout_s is None else {"timeout": timeout_s}
    with connect(url_of(server), name=name, **wishes) as client:
        yield client


@contextmanager
def reached(server: str | None, *, timeout_s: float | None = None) -> Iterator["Client"]:
    """Lend a client of servers that are there now.

    A client puts up with a server that is away for a while, as one is that restarts; whoever looks into a server wants
    to hear at once that nobody is there.
    """
    from holdfast.client.url import targets_of

    for target in targets_of(url_of(server), auth=None, tls=None):
        knock(target.address.host, target.address.port)
    with opened(server, timeout_s=timeout_s) as client:
        yield client


def knock(host: str, port: int) -> None:
    """Say no if nobody listens there."""
    import socket

    try:
        socket.create_connection((host, port), KNOCK_S_MAX).close()
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise Unavailable(f"cannot connect to {host}:{port}: {why}") from None


def native_only(server: str | None, what: str) -> None:
    """Refuse what only a server of ours can tell."""
    url = url_of(server)
    if scheme_of(url) in ("dflock", "http"):
        raise BadRequest(
            f"{what} needs the native protocol: call a server of Holdfast by holdfast://, not {without_token(url)}"
        )


def refusing(function: Callable[..., None]) -> Callable[..., None]:
    """Have a command say in one line what went wrong, with the exit code of that kind of trouble."""

    @functools.wraps(function)
    def careful(*arguments: Any, **wishes: Any) -> None:
        try:
            function(*arguments, **wishes)
        except HoldfastError as error:
            refuse(error)
        except BrokenPipeError:
            # Whoever read what we write has had enough, as `head` does; nothing may be flushed into it at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            click.get_current_context().exit(0)

    return careful


def refuse(error: HoldfastError) -> None:
    """Say what went wrong, and leave."""
    # Part of the sentence may be what somebody else has sent us.
    click.echo(f"holdfast: {text(str(error).strip())}", err=True)
    click.get_current_context().exit(SPELLINGS[error.code].exit_code)


def command(
    name: str, callback: Callable[..., None], params: list[click.Parameter], **attributes: Any
) -> click.Command:
    """Build a command that calls a server: its own parameters, `--server`, and the docstring as its help."""
    return click.Command(
        name,
        params=[*params, server_option()],
        callback=refusing(callback),
        help=callback.__doc__,
        **{"context_settings": {"max_content_width": 110, "show_default": True}, **attributes},
    )
