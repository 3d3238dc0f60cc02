"""The counter that gives every grant its fence, and the mint that turns a fence into a stamp.

Who deserves a grant is decided elsewhere; nothing here knows keys or claims, and no file is touched here.
"""

from binascii import hexlify
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from holdfast.errors import FenceUnavailable
from holdfast.ports import Dice

FENCE_MAX: Final = 2**64 - 1  # never given out: the numbers end below it instead of starting again at zero
DENSE_MAX: Final = 2**63 - 1  # the highest that databases can write down

_BLOCK: Final = 256  # secrets prepared in one go: those of all fences that differ in their lowest byte only
_LOW_BYTES: Final = bytes(range(_BLOCK))
_SALT_BYTES: Final = 16
_CUT: Final = Struct("48s" * _BLOCK)


class Fences:
    """Count upwards; at `ceiling`, go on only when `extend` has made a higher one durable."""

    __slots__ = ("_ceiling", "_extend", "_last")

    def __init__(self, seed: int, ceiling: int = FENCE_MAX, extend: Callable[[int], int] | None = None) -> None:
        self._last = seed
        self._ceiling = ceiling
        self._extend = extend

    @property
    def last(self) -> int:
        """The highest number used up so far, or the seed."""
        return self._last

    def next(self) -> int:
        """Return the next fence, or raise FenceUnavailable."""
        fence = self._last + 1
        if fence >= FENCE_MAX:
            raise FenceUnavailable("the fences are used up")
        # The number is gone even if the disk fails below: part of its record may have been written.
        self._last = fence
        if fence >= self._ceiling:
            self._ceiling = self._raised(fence)
        return fence

    def _raised(self, fence: int) -> int:
        """Return a new ceiling above `fence`."""
        if self._extend is None:
            raise FenceUnavailable(f"fence {fence} lies above the ceiling {self._ceiling}")
        try:
            ceiling = self._extend(fence)
        except OSError as error:
            raise FenceUnavailable(f"the fence file cannot be written: {error}") from error
        assert ceiling > fence
        return ceiling


class Mint:
    """Make the stamp of a grant: its fence, and the secret that proves it.

    The secret is 48 hex digits: 16 spell the fence, so that secrets sort like their fences; 32 are random.
    """

    __slots__ = ("_dice", "_fences", "_ready")

    def __init__(self, fences: Fences, dice: Dice) -> None:
        self._fences = fences
        self._dice = dice
        self._ready: Iterator[tuple[int, bytes]] = iter(())

    def __call__(self, last: int) -> tuple[int, bytes]:
        """Return fence and secret for a key whose last fence was `last`, or raise FenceUnavailable."""
        fences = self._fences
        for stamp in self._ready:
            fence = stamp[0]
            # What lies ready is a proposal; the counter decides. A number that others used up is passed over.
            if fence > fences._last:
                fences._last = fence
                assert fence > last
                return stamp
        stamp = self._prepare()
        assert stamp[0] > last
        return stamp

    def _prepare(self) -> tuple[int, bytes]:
        """Take the next fence the careful way; lay ready what follows it in its block below the ceiling."""
        fence = self._fences.next()
        first = fence % _BLOCK
        secrets = self._secrets_of_block(fence // _BLOCK)[first:]
        stop = min(fence - first + _BLOCK, self._fences._ceiling)
        # Both are walked in C, pair by pair; that is a good part of the speed.
        self._ready = zip(range(fence, stop), secrets, strict=False)
        return next(self._ready)

    def _secrets_of_block(self, block: int) -> tuple[bytes, ...]:
        """Return the secrets of all fences of a block.

        All 256 are made together, at half the price of one by one: put the low byte of each fence before its
        random bytes, spell everything in hex with gaps between the secrets, fill each gap with the upper
        digits that the fences of a block share, and cut.
        """
        raw = bytearray(self._dice.roll(_BLOCK * (1 + _SALT_BYTES)))
        raw[:: 1 + _SALT_BYTES] = _LOW_BYTES
        digits = b" " + hexlify(raw, b" ", -(1 + _SALT_BYTES))
        return _CUT.unpack(digits.replace(b" ", b"%014x" % block))


class DenseMint:
    """Make stamps whose fences are counted for each key on its own: one more than the last, without gaps.

    It is for stores that keep the last fence of every key for ever.
    """

    __slots__ = ("_dice", "_ready")

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._ready: list[bytes] = []

    def __call__(self, last: int) -> tuple[int, bytes]:
        """Return fence and secret for a key whose last fence was `last`, or raise FenceUnavailable."""
        fence = last + 1
        if fence > DENSE_MAX:
            raise FenceUnavailable("the fences of this key are used up")
        if not self._ready:
            digits = hexlify(self._dice.roll(_BLOCK * _SALT_BYTES))
            self._ready = [digits[at : at + 2 * _SALT_BYTES] for at in range(0, len(digits), 2 * _SALT_BYTES)]
        return fence, b"%016x" % fence + self._ready.pop()
