"""What a seed decides before anything happens: how many callers on how few keys, which limits, which faults.

Nothing happens here; the world and the callers carry the plan out.
"""

import random
from dataclasses import dataclass, replace

from sim.history import Rules

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Plan:
    """The frame of one run."""

    rules: Rules
    callers: int
    locks: tuple[bytes, ...]
    semaphores: tuple[tuple[bytes, int], ...]  # name and usual limit
    leases_s: tuple[int, ...]
    patiences_s: tuple[int, ...]
    steps: int
    haste: float  # how seldom time passes
    pipelining: float  # how likely a caller sends on before it has been answered
    chopping: float  # how likely bytes arrive in pieces
    mistakes: float  # how likely a request is malformed
    slowness: float  # how likely a caller stops reading for a while
    rudeness: float  # how likely a caller leaves without a word
    trouble: float  # how likely a step is a fault of the machine
    restarts: int  # how often the server may crash or stop
    fence_range: int  # fences that one write to the fence file pays for
    secondhand: float  # how likely a caller uses a token that it was not given
    eagerness: float = 1.0  # how likely a store of transactions goes on at once


def draw(dice: random.Random) -> Plan:
    """Draw a plan. Most are small, since small worlds are where things meet."""
    locks = tuple(b"job-%d" % n for n in range(dice.choice((1, 1, 1, 2, 3))))
    # One name is used for a lock and for a semaphore: they are two keys all the same.
    names = (b"job-0", b"pool")[: dice.choice((0, 0, 1, 2))]
    crowd = dice.random()
    # Once in a while far more callers than a key counts one by one.
    callers = 60 if crowd > 0.99 else 2 + int(28 * crowd**4)
    return Plan(
        rules=draw_rules(dice),
        callers=callers,
        locks=locks,
        semaphores=tuple((name, dice.choice((1, 2, 2, 3))) for name in names),
        leases_s=dice.choice(((1, 2), (1, 2, 5), (2, 10), (20, 30))),
        patiences_s=dice.choice(((0, 1, 2), (0, 3, 10), (1, 2, 3), (10, 60), (2, 60))),
        steps=dice.choice((60, 150, 300, 600, 900)),
        haste=dice.choice((0.80, 0.90, 0.95)),
        pipelining=dice.choice((0.0, 0.0, 0.2, 0.6)),
        chopping=dice.choice((0.0, 0.1, 0.6)),
        mistakes=dice.choice((0.0, 0.02, 0.1)),
        slowness=dice.choice((0.0, 0.02, 0.1)),
        rudeness=dice.choice((0.0, 0.02, 0.1)),
        trouble=dice.choice((0.0, 0.01, 0.03)),
        restarts=dice.choice((0, 0, 1, 2, 3)),
        fence_range=dice.choice((1, 2, 5, 20)),
        secondhand=dice.choice((0.0, 0.05, 0.15)),
    )


def on_file(plan: Plan, dice: random.Random) -> Plan:
    """Put the same world on a store of transactions. Where it can be full of keys, each command has one of its own."""
    crowded = plan.rules.keys_max < len(plan.locks) + len(plan.semaphores)
    batch_max = 1 if crowded else dice.choice((1, 2, 5, 1_000))
    rules = replace(plan.rules, store="sqlite", fence_file=False, batch_max=batch_max)
    return replace(plan, rules=rules, eagerness=dice.choice((1.0, 0.9, 0.6, 0.3)))


def draw_rules(dice: random.Random) -> Rules:
    """Draw the settings of the server, with limits so small that they are met."""
    return Rules(
        release_on_disconnect=dice.random() < 0.7,
        keys_max=dice.choice((2, 100, 100, 100)),
        waiters_max=dice.choice((0, 0, 0, 1, 2)),
        idle_max_ns=dice.choice((0, 1, 5, 60)) * SECOND,
        lease_default_ns=dice.choice((1, 3, 8)) * SECOND,
        read_timeout_ns=dice.choice((2, 10, 23)) * SECOND,
        idle_timeout=dice.random() < 0.15,
        write_timeout_ns=dice.choice((0, 1, 5)) * SECOND,
        pending_bytes_max=dice.choice((100, 4096, 4096, 65_536)),
        auth_token=b"open sesame" if dice.random() < 0.1 else None,
        fence_file=dice.random() < 0.6,
    )
