"""What the tests of virtual time share: a world with one client that speaks the line protocol by hand.

Nothing here says what should happen.
"""

from holdfast.client.ports import Address
from holdfast.testing.world import World
from holdfast.words import SECOND

ADDRESS = Address("world", 6388)


def dial(world: World, name: str = "a", seconds: float = 5):
    """Connect a client by hand."""
    program = world.program(name)
    return program.world().network.dial(ADDRESS, program.clock() + round(seconds * SECOND))


def hear(world: World, stream, name: str = "a", seconds: float = 5) -> bytes:
    """Wait for something to be said."""
    return stream.receive(world.program(name).clock() + round(seconds * SECOND))


def ask(world: World, stream, text: str, name: str = "a") -> bytes:
    """Send a request of the line protocol, spelled with bars, and wait for an answer."""
    stream.send(b"".join(part.strip().encode() + b"\n" for part in text.split("|")))
    return hear(world, stream, name)
