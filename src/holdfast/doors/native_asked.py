"""What the native door keeps of a request under way, and of a claim of a session.

Plain records; what becomes of them is decided in native_session.py and native_sight.py.
"""

from holdfast.doors.native_connection import NativeConnection
from holdfast.wire import native_answers as answers
from holdfast.words import Answer, Claim


class Asked:
    """A request that is not answered yet."""

    __slots__ = ("connection", "id", "waits")

    def __init__(self, connection: NativeConnection, id_: int | str) -> None:
        self.connection = connection
        self.id = id_
        self.waits = False  # for somebody else
        connection.in_flight += 1

    @property
    def heard(self) -> bool:
        """Whether there is somebody to hear the answer."""
        return not self.connection.closing

    def reply(self, line: bytes) -> None:
        """Answer, once."""
        connection = self.connection
        connection.in_flight -= 1
        if self.waits:
            connection.waiting -= 1
        connection.say(line)
        connection.finish()

    def refuse(self, why: Answer, claim: Claim | None = None) -> None:
        self.reply(answers.refused(self.id, why, claim))

    def wait(self) -> None:
        """Hear that somebody else has to come to an end first."""
        if not self.waits:
            self.waits = True
            self.connection.wait()


class Own:
    """What is known of one claim of a session."""

    __slots__ = ("asks", "key", "lease_ns", "nudge", "stands", "token")

    def __init__(self, claim: Claim) -> None:
        self.key = claim.key
        self.lease_ns = claim.lease_ns
        self.nudge = False
        self.asks = 0  # how many requests for it are under way
        self.stands = False  # it waits, or is held
        self.token = b""  # while it is held


class Batch:
    """A renewal of many claims, which is answered once."""

    __slots__ = ("left", "renewed")

    def __init__(self, count: int) -> None:
        self.renewed = [False] * count
        self.left = count
