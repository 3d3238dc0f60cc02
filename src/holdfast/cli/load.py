"""`holdfast load`: put a service under the load of LockServer's own tool, through either door, and judge what it did.

The command line and the report live here; the load itself is `load_run.py`, and is loaded when a run begins.
"""

import ipaddress
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from holdfast.cli.durations import parse, spell
from holdfast.cli.load_verdicts import Verdict, judge
from holdfast.errors import ConfigError
from holdfast.settings import join_address, split_address

if TYPE_CHECKING:
    from holdfast.cli.load_caller import Caller
    from holdfast.cli.load_run import Plan, Tally

EXIT_OK = 0
EXIT_BROKEN = 1

HOUR = 3_600_000_000_000
MINUTE = 60_000_000_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
CLIENTS_MAX = 10_000
HTTP_PORT = 80


class Duration(click.ParamType[int]):
    """A length of time between two limits, as Go writes it; becomes nanoseconds."""

    name = "duration"

    def __init__(self, least: int, most: int) -> None:
        self.least = least
        self.most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it, or say what is wrong with it."""
        try:
            ns = parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not self.least <= ns <= self.most:
            self.fail(f"{value} is not from {spell(self.least)} to {spell(self.most)}", param, ctx)
        return ns


@dataclass(frozen=True, slots=True)
class Target:
    """Where to, and by which door."""

    door: str
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def target_of(text: str) -> Target:
    """Read http://HOST:PORT as the HTTP door and HOST:PORT as the line door; raises ValueError."""
    if "://" not in text:
        try:
            host, port = split_address(text)
        except ConfigError as error:
            raise ValueError(error.detail) from error
        return _checked(Target("line", host, port))
    parts = urlsplit(text)
    if parts.scheme != "http":
        raise ValueError(f"{parts.scheme}:// is no door; there is http://HOST:PORT, and HOST:PORT for the line door")
    if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username is not None:
        raise ValueError(f"{text!r} is more than http://HOST:PORT")
    return _checked(Target("http", parts.hostname or "", HTTP_PORT if parts.port is None else parts.port))


def _checked(target: Target) -> Target:
    if not target.host or not target.port:
        raise ValueError("the target needs a host and a port that can be called")
    return target


def load(target: str, *, yes_not_loopback: bool, no_progress: bool, **wishes: Any) -> None:
    """Put a lock service under load, and judge whether it kept its promises.

    TARGET is http://HOST:PORT for the HTTP door, or HOST:PORT for the line door. Callers acquire a lock, hold it, write
    to what it protects and release it; some hold on for longer than their lease. Lengths of time are written as in
    800ms, 20s or 1m30s. The exit code is 1 when a promise was broken.
    """
    try:
        found = target_of(target)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="TARGET") from error
    if not found.is_loopback and not yes_not_loopback:
        raise click.UsageError(f"{found.host} is not this machine: say --yes-not-loopback if its load is yours to make")
    if not wishes["lock"].strip() or not wishes["lock"].isprintable():
        raise click.BadParameter("a lock needs a name of printable characters", param_hint="--lock")
    click.get_current_context().exit(_run(found, wishes, progress=sys.stderr.isatty() and not no_progress))


def _run(target: Target, wishes: dict[str, Any], *, progress: bool) -> int:
    """Run the load, report, and answer the exit code."""
    import asyncio

    from holdfast.cli.load_run import Plan, Run

    plan = Plan(**{name: value for name, value in wishes.items() if name != "seed"})
    make_caller, plan = _callers(target, plan)
    click.echo(f"holdfast load, {target.door} door of {join_address(target.host, target.port)}")
    run = Run(plan, make_caller, random.Random(wishes["seed"]))
    tally = asyncio.run(run.go(_tell if progress else None))
    verdicts = judge(tally.holds, tally.resource)
    click.echo(report(plan, tally, verdicts))
    return EXIT_OK if all(verdict.kept for verdict in verdicts) else EXIT_BROKEN


def _callers(target: Target, plan: "Plan") -> "tuple[Callable[[str], Caller], Plan]":
    """Say how to make a caller for that door, and what the plan becomes there."""
    from dataclasses import replace

    from holdfast.cli.load_http import HttpCaller
    from holdfast.cli.load_line import LineCaller, whole_seconds

    if target.door == "http":
        return lambda owner: HttpCaller(target.host, target.port, owner), plan
    # What that door cannot count must not be expected of it either.
    slower = replace(plan, ttl_ns=whole_seconds(plan.ttl_ns) * SECOND)
    return lambda owner: LineCaller(target.host, target.port, owner), slower


def _tell(tally: "Tally") -> None:
    """Write the progress line."""
    click.echo(
        f"  {tally.acquire_success} acquired, {tally.acquire_fail} refused, {tally.release_success} released, "
        f"{tally.resource.rejected_count} stale, {tally.errors} errors",
        err=True,
    )


def report(plan: "Plan", tally: "Tally", verdicts: list[Verdict]) -> str:
    """Lay out what was done, how long it took, and the verdicts."""
    last = max(tally.resource.last.values(), default=0)
    lines = [
        f"duration={spell(plan.duration_ns)} clients={plan.clients} lock={plan.lock} ttl={spell(plan.ttl_ns)}",
        f"acquire_success={tally.acquire_success}",
        f"acquire_fail={tally.acquire_fail}" + (f" store_busy={tally.store_busy}" if tally.store_busy else ""),
        f"release_success={tally.release_success}",
        f"writes_accepted={tally.resource.accepted_count}",
        f"stale_rejected={tally.resource.rejected_count}",
        f"last_token={last}",
        f"errors={tally.errors}" + (f" first: {tally.first_error}" if tally.first_error else ""),
        "",
        *_latencies(tally),
    ]
    if tally.full:
        lines.append("The run ended early: no more grants can be remembered for the verdicts.")
    if tally.unfinished:
        lines.append("Callers had to be cut off: the server kept them waiting.")
    for verdict in verdicts:
        lines.append(f"{'ok    ' if verdict.kept else 'BROKEN'} {verdict.promise}")
        lines += [f"       {text}" for text in verdict.evidence]
    return "\n".join(lines)


def _latencies(tally: "Tally") -> list[str]:
    from holdfast.cli.load_run import percentile

    lines = [f"{'ms':<8} {'count':>9} {'per s':>9} {'p50':>9} {'p90':>9} {'p99':>9} {'p99.9':>9} {'max':>9}"]
    for name, kept in tally.latencies.items():
        if not kept:
            continue
        samples = sorted(kept)
        figures = [percentile(samples, share) / MILLISECOND for share in (0.5, 0.9, 0.99, 0.999, 1.0)]
        rate = len(samples) * SECOND / max(1, tally.took_ns)
        lines.append(f"{name:<8} {len(samples):>9} {rate:>9.0f} " + " ".join(f"{figure:>9.2f}" for figure in figures))
    return [*lines, ""]


def command() -> click.Command:
    """Build the click command."""
    params: list[click.Parameter] = [
        click.Argument(["target"]),
        click.Option(["--lock"], default="hotlock", help="Name of the lock."),
        click.Option(
            ["--clients"],
            type=click.IntRange(1, CLIENTS_MAX),
            default=50,
            help="How many callers, each with a connection.",
        ),
        _duration("--duration", "20s", MILLISECOND, HOUR, "How long to go on."),
        _duration("--ttl", "800ms", MILLISECOND, 10 * MINUTE, "Length of a lease; whole seconds on the line door."),
        _duration("--hold", "30ms", 0, 10 * MINUTE, "How long a caller holds the lock."),
        _duration("--jitter", "30ms", 0, 10 * MINUTE, "Up to how much longer it holds it."),
        click.Option(
            ["--failrate"],
            type=click.FloatRange(0, 1),
            default=0.03,
            help="Share of holds that outlast their lease.",
        ),
        click.Option(["--own-locks"], is_flag=True, help="Give each caller a lock of its own."),
        click.Option(["--seed"], type=int, help="Make the choices of the callers repeatable."),
        click.Option(["--no-progress"], is_flag=True, help="Keep quiet until the end, on a terminal too."),
        click.Option(["--yes-not-loopback"], is_flag=True, help="Allow a target that is not this machine."),
    ]
    return click.Command(
        "load",
        params=params,
        callback=load,
        help=load.__doc__,
        context_settings={"max_content_width": 110, "show_default": True},
    )


def _duration(flag: str, default: str, least: int, most: int, about: str) -> click.Option:
    name = flag.removeprefix("--") + "_ns"
    return click.Option([flag, name], type=Duration(least, most), default=default, help=about)
