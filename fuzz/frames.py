"""Where bytes to throw come from: valid frames, and what chance makes of them.

Nothing is judged here, and nothing is sent.
"""

import random
from collections.abc import Callable

from holdfast.testing.line_stage import token

SPACES = (
    b" ",
    b"\t",
    b"\v",
    b"\xc2\x85",
    b"\xc2\xa0",
    b"\xe1\x9a\x80",
    b"\xe2\x80\x83",
    b"\xe2\x80\xa8",
    b"\xe3\x80\x80",
)
NUMBERS = (
    b"0", b"1", b"2", b"+1", b"-0", b"-1", b"007", b"1.0", b"1_0", b"0x1", b"\xd9\xa1", b"", b"1e3",
    b"9223372036", b"9223372037", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809",
    b"0" * 60 + b"1", b"9" * 250,
)  # fmt: skip
KEYS = (
    b"job",
    b"job-2",
    b"pool",
    b"_",
    b"",
    b"a b",
    b"\xff\xfe",
    b"\0",
    b"\xc2\xa0",
    b"k" * 256,
    b"k" * 257,
    b"lock:job",
)
COMMANDS = (
    b"l",
    b"sl",
    b"r",
    b"sr",
    b"n",
    b"sn",
    b"e",
    b"se",
    b"w",
    b"sw",
    b"ping",
    b"stats",
    b"auth",
    b"L",
    b"",
    b"barrier",
)
TOKENS = (*(token(number).encode() for number in range(1, 6)), b"x", b"0" * 32, token(1).upper().encode(), b"")
SURPRISES = (b"\r", b"\n", b"\r\n", b"\n\n\n", b"\0", b"\x1c", b"\xff", b"a" * 256, b"a" * 300, *SPACES)

Mutation = Callable[[random.Random, bytes], bytes]


def frame(dice: random.Random) -> bytes:
    """Make one frame, valid more often than not."""
    words = [
        dice.choice(NUMBERS if dice.random() < 0.3 else NUMBERS[:3]) for _ in range(dice.choice((0, 1, 1, 2, 2, 3)))
    ]
    command = dice.choice(COMMANDS if dice.random() < 0.3 else COMMANDS[:10])
    if command.endswith((b"r", b"n")):
        words = [dice.choice(TOKENS), *words[:1]]
    key = dice.choice(KEYS if dice.random() < 0.3 else KEYS[:3])
    space = dice.choice(SPACES) if dice.random() < 0.2 else b" "
    end = b"\r\n" if dice.random() < 0.1 else b"\n"
    return command + end + key + end + space.join(words) + end


def stream(dice: random.Random) -> bytes:
    """Make what one caller might send: a few frames, and some of the time something that went wrong with them."""
    data = b"".join(frame(dice) for _ in range(dice.randint(1, 12)))
    for _ in range(dice.choice((0, 0, 1, 2, 5))):
        data = dice.choice(MUTATIONS)(dice, data)
    return data


def pieces(dice: random.Random, data: bytes) -> list[bytes]:
    """Cut bytes somewhere."""
    cuts = sorted(dice.randint(0, len(data)) for _ in range(dice.randint(0, 8)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if start < end]


def _flip_a_bit(dice: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    if changed:
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def _put_in(dice: random.Random, data: bytes) -> bytes:
    at = dice.randint(0, len(data))
    return data[:at] + dice.choice(SURPRISES) + data[at:]


def _take_out(dice: random.Random, data: bytes) -> bytes:
    at = dice.randint(0, len(data))
    return data[:at] + data[at + dice.choice((1, 1, 2, 10)) :]


def _say_twice(dice: random.Random, data: bytes) -> bytes:
    start, end = sorted((dice.randint(0, len(data)), dice.randint(0, len(data))))
    return data[:end] + data[start:end] + data[end:]


def _mix_lines(dice: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    dice.shuffle(lines)
    return b"\n".join(lines)


def _make_noise(dice: random.Random, data: bytes) -> bytes:
    at = dice.randint(0, len(data))
    return data[:at] + dice.randbytes(dice.randint(1, 40)) + data[at:]


MUTATIONS: tuple[Mutation, ...] = (_flip_a_bit, _put_in, _take_out, _say_twice, _mix_lines, _make_noise)
