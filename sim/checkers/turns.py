"""Whose turn it is when several keys are granted at once, and every one of them counts its own fences.

A fence alone does not say which key it is of; that the server sees to one key after the other does.
"""

from sim.checkers.book import Book, Key
from sim.history import Event, Minted

# A key: its last fence, and how many fences it is to get.
Needs = tuple[tuple[int, int], ...]


class Turns:
    """The fences that were made in one go, from some place on."""

    def __init__(self, book: Book, events: list[Event], place: int) -> None:
        self._book = book
        self._events = events
        self._place = place

    def next_key(self, last: int) -> Key | None:
        """Find the key that is granted now, of those whose last fence this was."""
        due = [key for key in self._book.keys.values() if key.unfenced or key.has_room_for_next()]
        candidates = [key for key in due if key.fence == last]
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        made = self._made()
        for key in candidates:
            others = tuple((other.fence, len(other.unfenced)) for other in due if other is not key)
            if _follows(made, key.fence, len(key.unfenced)) and _adds_up(made[len(key.unfenced) :], others):
                return key
        return candidates[0]

    def _made(self) -> tuple[int, ...]:
        """List the fences from here on, up to the next thing that is no fence; each by what came before it."""
        made: list[int] = []
        for event in self._events[self._place :]:
            if not isinstance(event, Minted):
                break
            made.append(event.last)
        return tuple(made)


def _follows(made: tuple[int, ...], fence: int, count: int) -> bool:
    """Say whether the first fences are those of one key."""
    return made[:count] == tuple(range(fence, fence + count))


def _adds_up(made: tuple[int, ...], needs: Needs) -> bool:
    """Say whether all that was made can be shared out among all who need something, key by key."""
    if not made:
        return not needs
    return any(
        _follows(made, fence, count) and _adds_up(made[count:], (*needs[:place], *needs[place + 1 :]))
        for place, (fence, count) in enumerate(needs)
    )
