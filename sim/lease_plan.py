"""What the world of one lease trial is like: clients, leases, clocks, a network, and what goes wrong when. From a seed.

Only decisions are made here; `lease_trial.py` carries them out.
"""

import random
from dataclasses import dataclass
from typing import Literal

from holdfast.testing.virtual_server import StoreName

Face = Literal["threads", "loop"]

SECOND = 1_000_000_000
MILLISECOND = SECOND // 1000

# Within these bounds two clocks drift apart by no more than the margin makes up for: 2 % and a little of the lease.
PPM_MAX = 9_900

# Beyond this, the answer to a renewal of a short lease is overdue now and then.
SLOW_NS = 20 * MILLISECOND

FAULTS = (
    "freeze",  # nothing of the process runs: it is stopped, or one of its threads keeps all others from running
    "hang",  # its own code does not go on; where that lives in an event loop, nothing else in there does either
    "partition",
    "partition up",
    "partition down",
    "server killed",
    "server paused",
    "reset",
    "half a reset",
    "lost answers",
    "wall clock",
    "slow link",
    "client killed",
    "broken",
)


FACES: tuple[Face, ...] = ("threads", "loop")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong at an instant, for so long."""

    kind: str
    after_ns: int
    span_ns: int
    who: int  # which client, where it is about one
    count: int = 1


@dataclass(frozen=True, slots=True)
class Want:
    """What one client does with one key, again and again."""

    key: str
    kind: str  # how it asks: lock, read, write, semaphore
    lease_ns: int
    patience_ns: int | None
    rounds: int
    work_ns: int  # for how long it holds
    rest_ns: int
    beat_ns: int | None = None
    manner: str = ""  # what it does while it holds


@dataclass(frozen=True, slots=True)
class Plan:
    """One trial."""

    seed: int
    store: StoreName
    wants: tuple[tuple[Want, ...], ...]  # by client
    faces: tuple[Face, ...]  # by client
    ppm: tuple[int, ...]  # by client
    server_ppm: int
    delay_ns: tuple[int, int]
    commit_ns: tuple[int, int]
    grace_ns: int  # how long the server waits for a client that has lost its connection
    faults: tuple[Fault, ...]
    run_ns: int

    @property
    def is_calm(self) -> bool:
        """Whether nothing goes wrong that could cost anybody a lease."""
        return not self.faults and not self.is_slow

    @property
    def is_slow(self) -> bool:
        """Whether a renewal may take so long, as a rule, that leases are lost over it."""
        return self.delay_ns[1] > SLOW_NS


def draw(seed: int) -> Plan:
    """Draw a plan. Leases are short against what goes wrong, since that is where it matters."""
    dice = random.Random(f"leases {seed}")
    store: StoreName = "memory" if dice.random() < 0.15 else "durable"
    lease_ns = dice.choice((SECOND, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND))
    clients = dice.choice((2, 2, 3, 3, 4, 5))
    keys = ("job", "job", "report")[: dice.choice((1, 2, 3))]
    wants = tuple(
        tuple(_draw_want(dice, dice.choice(keys), lease_ns) for _ in range(dice.choice((1, 1, 1, 2))))
        for _ in range(clients)
    )
    calm = dice.random() < 0.1
    run_ns = lease_ns * dice.choice((3, 6, 10))
    faults = () if calm else _draw_faults(dice, clients, lease_ns, run_ns, store)
    delays = ((0, 0), (0, 0), (0, 2 * MILLISECOND), (MILLISECOND, 20 * MILLISECOND), (0, lease_ns // 8))
    return Plan(
        seed=seed,
        store=store,
        wants=wants,
        faces=tuple(dice.choice(FACES) for _ in range(clients)),
        ppm=tuple(dice.choice((0, 0, PPM_MAX, -PPM_MAX, dice.randint(-PPM_MAX, PPM_MAX))) for _ in range(clients)),
        server_ppm=dice.choice((0, 0, PPM_MAX, -PPM_MAX)),
        delay_ns=delays[dice.choice((0, 1, 2, 3)) if calm else dice.randrange(len(delays))],
        commit_ns=dice.choice(((0, 0), (0, 0), (0, 5 * MILLISECOND))),
        grace_ns=dice.choice((30 * SECOND, lease_ns // 4)),
        faults=faults,
        run_ns=run_ns,
    )


def _draw_want(dice: random.Random, key: str, lease_ns: int) -> Want:
    kind = dice.choice(("lock", "lock", "lock", "write", "read", "semaphore"))
    return Want(
        key=key,
        kind=kind,
        lease_ns=lease_ns if dice.random() < 0.8 else lease_ns * 2,
        patience_ns=dice.choice((None, None, 0, lease_ns, 10 * lease_ns)),
        rounds=dice.choice((1, 2, 4, 8)),
        work_ns=int(lease_ns * dice.choice((0.01, 0.3, 1, 3, 10))),
        rest_ns=int(lease_ns * dice.choice((0, 0.01, 0.5))),
        beat_ns=int(lease_ns * dice.choice((0.5, 1, 2))) if dice.random() < 0.15 else None,
        manner=dice.choice(("", "", "", "renews", "beats", "converts", "looks")),
    )


def _draw_faults(dice: random.Random, clients: int, lease_ns: int, run_ns: int, store: StoreName) -> tuple[Fault, ...]:
    kinds = [kind for kind in FAULTS if store == "durable" or kind != "wall clock"]
    favourite = dice.choice(kinds)  # most trials are about one kind of trouble
    faults = []
    for _ in range(dice.choice((1, 1, 2, 3, 5))):
        span = dice.choice((0.05, 0.3, 0.5, 0.64, 0.7, 0.9, 1.0, 1.1, 1.5, 3, dice.random() * 2))
        faults.append(
            Fault(
                kind=favourite if dice.random() < 0.7 else dice.choice(kinds),
                after_ns=int(run_ns * dice.random() ** dice.choice((1, 1, 5))),  # often just when a lock is asked for
                span_ns=int(lease_ns * span),
                who=dice.randrange(clients),
                count=dice.choice((1, 1, 2, 3, 8)),
            )
        )
    return tuple(sorted(faults, key=lambda fault: fault.after_ns))
