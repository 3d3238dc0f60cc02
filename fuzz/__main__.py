"""`python -m fuzz`: throw bytes at the server's protocols and the client's for a while, and say whether anything broke.

Only the command line and the loop live here.
"""

import argparse
import io
import random
import sys
import time
import traceback
from itertools import count, islice

from fuzz import client, native
from fuzz.frames import pieces, stream
from fuzz.line import GREETING, check_codec, check_door
from holdfast.observe.logs import configure
from holdfast.wire.line import LineCodec
from holdfast.words import SECOND

SECONDS = 10.0
FAILURES_MAX = 3


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; answer the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Bytes that were never meant to be.")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"how long to look (default {SECONDS:g})")
    parser.add_argument("--seed", type=int, default=0, help="where chance begins")
    parser.add_argument("--cases", type=int, help="stop after that many cases")
    parser.add_argument("--case", type=int, help="try this one case only")
    options = parser.parse_args(arguments)
    configure("error", "json", io.StringIO())
    numbers = count() if options.case is None else [options.case]
    failed = tried = 0
    end = time.monotonic() + options.seconds
    for number in islice(numbers, options.cases):
        if tried and time.monotonic() >= end:
            break
        tried += 1
        failed += not try_case(options.seed, number)
        if failed == FAILURES_MAX:
            break
    print(f"{tried} cases from seed {options.seed}, {failed} findings")
    print(f"{tried - failed} passed, {failed} failed")
    return 1 if failed else 0


def try_case(seed: int, number: int) -> bool:
    """Make the bytes of one case and throw them; say whether everything held."""
    dice = random.Random(f"{seed}/{number}")
    data = stream(dice)
    try:
        _throw_frames(dice, data)
        data = native.HELLO + native.stream(dice)
        _throw_lines(dice, data)
        client.try_dialects(dice, pieces)
    except Exception:  # noqa: BLE001  whatever comes out is what we are looking for
        print(f"seed {seed}, case {number} (replay it with --seed {seed} --case {number}): {data!r}")
        print(traceback.format_exc())
        return False
    return True


def _throw_frames(dice: random.Random, data: bytes) -> None:
    authenticated = dice.random() < 0.2
    if authenticated and dice.random() < 0.7:
        data = GREETING + data
    cuts = pieces(dice, data)
    codec = LineCodec(33 * SECOND)
    lines = [line.rstrip(b"\r") for line in data.split(b"\n")]
    for at in range(len(lines) - 2):
        check_codec(codec, lines[at], lines[at + 1], lines[at + 2])
    check_door(data, cuts, authenticated=authenticated)


def _throw_lines(dice: random.Random, data: bytes) -> None:
    for line in data.split(b"\n"):
        native.check_codec(line)
    native.check_door(data, pieces(dice, data))


if __name__ == "__main__":
    sys.exit(main())
