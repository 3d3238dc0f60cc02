"""A mint that anybody can predict, and that runs dry on demand.

For tests and measurements only: its secrets are none.
"""

from holdfast.errors import FenceUnavailable
from holdfast.words import SECRET_BYTES


class CountingMint:
    """Counts up from `start`; raises FenceUnavailable for as long as it is `dry`."""

    def __init__(self, start: int = 1) -> None:
        self.next = start
        self.dry = False
        self._left: int | None = None

    def __call__(self, last: int) -> tuple[int, bytes]:
        if self._left == 0:
            self.dry, self._left = True, None
        if self.dry:
            raise FenceUnavailable
        if self._left is not None:
            self._left -= 1
        fence = self.next
        assert fence > last
        self.next = fence + 1
        return fence, secret_of(fence)

    def dry_after(self, count: int) -> None:
        """Give out `count` more fences, then be dry."""
        self._left = count


def secret_of(fence: int) -> bytes:
    """Spell the secret that a counting mint gives out with this fence."""
    return b"%0*x" % (SECRET_BYTES, fence << 128)
