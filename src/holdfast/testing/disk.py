"""A disk of paper for the fence journal: it tears writes, loses them, refuses them, and logs all.

It knows pieces and syncs only; what a journal should make of the remains is its user's business.
"""

from collections.abc import Callable


class PowerCut(BaseException):
    """The machine is gone in the middle of a call; nobody in the process can catch that."""


def overlay(content: bytes, offset: int, piece: bytes) -> bytes:
    """Return `content` with `piece` written over it; a gap before the piece reads as zeros."""
    head = content[:offset].ljust(offset, b"\0")
    return head + piece + content[offset + len(piece) :] if piece else content


class PaperDisk:
    """One file, in two versions: what is durable, and what has been written since and may vanish."""

    def __init__(self, content: bytes = b"") -> None:
        self.durable = content
        self.pending: list[tuple[int, bytes]] = []
        self.log: list[str] = []
        self.refused: set[str] = set()  # names of calls that fail
        self.torn_bytes = 0  # how much of a refused write reaches the file all the same
        self.calls_left: int | None = None  # writes and syncs until the power goes
        self.locked = False

    @property
    def content(self) -> bytes:
        """What a reader sees while the machine runs."""
        content = self.durable
        for offset, piece in self.pending:
            content = overlay(content, offset, piece)
        return content

    def power_cut(self, step: int = 1) -> set[bytes]:
        """Return all contents that the next start may find: of each pending piece, any beginning or any end.

        Among several pending pieces that is a great many, so a `step` above 1 looks at some of them only.
        """
        contents = {self.durable}
        for offset, piece in self.pending:
            cuts = [*range(0, len(piece), step), len(piece)]
            remains = [(offset, piece[:cut]) for cut in cuts] + [(offset + cut, piece[cut:]) for cut in cuts]
            contents = {overlay(content, at, rest) for content in contents for at, rest in remains}
        return contents

    def remains(self, choose: Callable[[int], int]) -> bytes:
        """Return one of those contents; `choose(most)` picks a number from 0 to `most`."""
        content = self.durable
        for offset, piece in self.pending:
            cut = choose(len(piece))
            at, rest = (offset, piece[:cut]) if choose(1) else (offset + cut, piece[cut:])
            content = overlay(content, at, rest)
        return content

    def _call(self, name: str) -> None:
        self.log.append(name)
        if name in self.refused:
            raise OSError(5, f"paper refuses to {name}")

    def _spend_power(self) -> None:
        if self.calls_left is None:
            return
        if self.calls_left == 0:
            raise PowerCut
        self.calls_left -= 1

    def open(self, path: str) -> int:
        self._call("open")
        if self.locked:
            raise BlockingIOError("held")
        self.locked = True
        return 7

    def read(self, file: int, bytes_max: int) -> bytes:
        self._call("read")
        return self.content[:bytes_max]

    def write(self, file: int, offset: int, data: bytes) -> None:
        if "write" in self.refused:
            self.pending.append((offset, data[: self.torn_bytes]))
        self._call("write")
        # A write that the cut falls into is one that has been made and was never synced.
        self.pending.append((offset, data))
        self._spend_power()

    def sync(self, file: int) -> None:
        self._call("sync")
        self._spend_power()
        self.durable, self.pending = self.content, []

    def sync_directory(self, path: str) -> None:
        self._call("sync_directory")

    def close(self, file: int) -> None:
        self._call("close")
        self.locked = False
