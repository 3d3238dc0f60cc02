"""What happens to keys, in words for whoever watches them: told from what the desk sees go by.

Who watches what is in native_watch.py. While nobody does, the desk is not listened to, and this costs nothing.
"""

from collections.abc import Callable
from typing import Final

from holdfast.ports import Observer
from holdfast.words import (
    ENDED,
    GRANTED,
    QUEUED,
    RENEWED,
    Answer,
    Cancel,
    Claim,
    Convert,
    Effect,
    End,
    Ended,
    Granted,
    Group,
    Nudged,
    Reason,
    Renew,
    Request,
    Wait,
)

# Key, what, and, for an end or a conversion that was given up, why.
Change = Callable[[bytes, str, Reason | None], None]

GRANT: Final = "granted"
QUEUE: Final = "queued"
RENEWAL: Final = "renewed"
CONVERSION: Final = "converted"
STAY: Final = "stayed"
END: Final = "ended"


class Changes(Observer):
    """Tells of each change once: an end that was asked for is answered, and is news too where somebody listens."""

    def __init__(self, changed: Change) -> None:
        self._changed = changed
        self._told: tuple[bytes, bytes] = b"", b""  # the last end that was answered: key and token

    def answered(self, command: Request | Wait, answer: Answer, claim: Claim | None) -> None:
        if isinstance(command, Claim):
            self._claimed(command, answer, claim)
        elif isinstance(command, Group):
            self._group_claimed(command, answer)
        elif isinstance(command, Renew):
            if answer is RENEWED:
                self._changed(command.key, RENEWAL, None)
        elif isinstance(command, End):
            if answer is ENDED:
                self._ended(command.key, command.token, command.reason)
        elif claim is not None:
            self._moved(command, answer, claim)

    def _claimed(self, command: Claim, answer: Answer, claim: Claim | None) -> None:
        if claim is not command:
            return  # a ticket that was seen again: nothing has changed
        if answer is GRANTED:
            self._changed(claim.key, GRANT, None)
        elif answer is QUEUED:
            self._changed(claim.key, QUEUE, None)

    def _group_claimed(self, command: Group, answer: Answer) -> None:
        word = {GRANTED: GRANT, QUEUED: QUEUE}.get(answer)
        if word is not None:
            for claim in command.claims:
                self._changed(claim.key, word, None)

    def _moved(self, command: Request | Wait, answer: Answer, claim: Claim) -> None:
        """Tell what became of a claim that was there before."""
        if isinstance(command, Convert):
            if answer is GRANTED:
                self._changed(claim.key, CONVERSION, None)
            elif answer is Answer.CONVERTING:
                self._changed(claim.key, QUEUE, None)
        elif isinstance(command, Wait):
            if answer is GRANTED:
                self._changed(claim.key, RENEWAL, None)
            elif answer is Answer.TIMED_OUT:
                self._changed(claim.key, END, Reason.TIMED_OUT)
        elif isinstance(command, Cancel) and claim.reason is not None:
            self._ended(claim.key, claim.token, claim.reason)

    def _ended(self, key: bytes, token: bytes, reason: Reason) -> None:
        self._told = key, token
        self._changed(key, END, reason)

    def heard(self, effect: Effect) -> None:
        claim = effect.claim
        if isinstance(effect, Granted):
            self._changed(claim.key, CONVERSION if was_converted(claim) else GRANT, None)
        elif isinstance(effect, Ended):
            if not claim.token or self._told != (claim.key, claim.token):
                self._changed(claim.key, END, effect.reason)
        elif not isinstance(effect, Nudged):
            self._changed(claim.key, STAY, effect.reason)


def was_converted(claim: Claim) -> bool:
    """Say whether the last grant was of another mode: the token begins with the fence of the first one."""
    return int(claim.token[:16], 16) != claim.fence
