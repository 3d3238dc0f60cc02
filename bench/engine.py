"""`python -m bench.engine`: what one transition of the engine costs, in nanoseconds of this process's CPU time.

The mint is a trivial one, so that the engine alone is measured; doors and stores are measured in other files.
"""

import gc
from collections.abc import Callable
from time import process_time_ns

from bench.tables import table as markdown
from holdfast.engine.document import decode, encode
from holdfast.engine.table import Table
from holdfast.testing.mint import secret_of
from holdfast.words import EX, FOREVER, NL, PR, SECOND, UNLIMITED, Claim, Convert, Effect, End, Mint, Renew

COUNT = 20_000  # of each measurement, in each round
ROUNDS = 7
KEYS = 100  # that the uncontended measurements go around, so that no cache is kinder than life
KEYS_MAX = 5_000
WAITERS = 64  # who queue up where a key is contended
LEASE_NS = 33 * SECOND
NOW = 1_700_000_000 * SECOND

# A measurement sets its stage, and gives back what is to be timed, with the number of transitions in it.
Measurement = Callable[[int], tuple[Callable[[], None], int]]


def trivial_mint(count: int) -> Mint:
    """Make a mint whose stamps are all made beforehand."""
    stamps = iter([(fence, secret_of(fence)) for fence in range(1, count + 1)])

    def mint(_last: int) -> tuple[int, bytes]:
        return next(stamps)

    return mint


def new_table(fences: int) -> Table:
    return Table(trivial_mint(fences), KEYS_MAX, 0, 60 * SECOND)


def claims(count: int, keys: int, want: int = EX, patience_ns: int = FOREVER) -> list[Claim]:
    made = []
    for number in range(count):
        c = Claim(b"orders/%d" % (number % keys), want, 1, UNLIMITED, LEASE_NS, patience_ns)
        c.session, c.ticket = number % 50, number
        made.append(c)
    return made


def uncontended(count: int) -> tuple[Callable[[], None], int]:
    """Take a free key and give it back."""
    table, asks, out = new_table(count), claims(count, KEYS), list[Effect]()

    def run() -> None:
        enqueue, end = table.enqueue, table.end
        for c in asks:
            enqueue(c, NOW, out)
            end(End(c.key, c.token), NOW, out)

    return run, 2 * count


def contended(count: int) -> tuple[Callable[[], None], int]:
    """Join a queue, and hand the key to whoever is next."""
    table, asks, out = new_table(count), claims(count, 1, patience_ns=60 * SECOND), list[Effect]()
    for c in asks[:WAITERS]:
        table.enqueue(c, NOW, out)
    pairs = list(zip(asks, asks[WAITERS:], strict=False))

    def run() -> None:
        enqueue, end = table.enqueue, table.end
        for holder, newcomer in pairs:
            enqueue(newcomer, NOW, out)
            end(End(holder.key, holder.token), NOW, out)

    return run, 2 * len(pairs)


def renewing(count: int) -> tuple[Callable[[], None], int]:
    """Renew leases, a little later each time."""
    table, held, out = new_table(KEYS), claims(KEYS, KEYS), list[Effect]()
    for c in held:
        table.enqueue(c, NOW, out)

    def run() -> None:
        renew = table.renew
        for number in range(count // KEYS):
            now = NOW + number
            for c in held:
                renew(Renew(c.key, c.token, LEASE_NS), now, out)

    return run, count // KEYS * KEYS


def converting(count: int) -> tuple[Callable[[], None], int]:
    """Go up to the strongest mode and down again, beside nobody who minds."""
    table, held, out = new_table(2 * count), claims(KEYS, KEYS, PR), list[Effect]()
    for c in held + claims(2 * KEYS, KEYS, NL)[KEYS:]:
        table.enqueue(c, NOW, out)

    def run() -> None:
        convert = table.convert
        for _ in range(count // KEYS // 2):
            for c in held:
                convert(Convert(c.session, c.ticket, EX), NOW, out)
                convert(Convert(c.session, c.ticket, PR), NOW, out)

    return run, count // KEYS // 2 * KEYS * 2


def expiring(count: int) -> tuple[Callable[[], None], int]:
    """Let leases run out, and grant to who waited for that; four callers on each key."""
    table, out = new_table(count), list[Effect]()
    keys = min(count // 4, KEYS_MAX)
    for c in claims(count, keys):
        table.enqueue(c, NOW, out)

    def run() -> None:
        tick = table.tick
        while (when := table.next_deadline()) < FOREVER:
            tick(when, out)

    return run, count + (count - keys)  # everybody's lease runs out, and all but the first were granted in there


def documents(holders: int) -> tuple[Measurement, Measurement]:
    """Write and read the document of a key with so many holders."""

    def prepared() -> Table:
        table = new_table(holders)
        for c in claims(holders, 1, PR):
            table.enqueue(c, NOW, [])
        return table

    def encoding(count: int) -> tuple[Callable[[], None], int]:
        (r,) = prepared().resources.values()

        def run() -> None:
            for _ in range(count // 10):
                encode(r)

        return run, count // 10

    def decoding(count: int) -> tuple[Callable[[], None], int]:
        (r,) = prepared().resources.values()
        document = encode(r)

        def run() -> None:
            for _ in range(count // 10):
                decode(r.key, document)

        return run, count // 10

    return encoding, decoding


ENCODING_1, DECODING_1 = documents(1)
ENCODING_10, DECODING_10 = documents(10)

MEASUREMENTS: dict[str, Measurement] = {
    "enqueue and end, uncontended": uncontended,
    f"enqueue and end, {WAITERS} waiting": contended,
    "renew": renewing,
    "convert, up and down": converting,
    "expire and grant": expiring,
    "encode, 1 holder": ENCODING_1,
    "decode, 1 holder": DECODING_1,
    "encode, 10 holders": ENCODING_10,
    "decode, 10 holders": DECODING_10,
}


def measure(measurement: Measurement, count: int = COUNT, rounds: int = ROUNDS) -> float:
    """Give the nanoseconds of one transition in the best round: what disturbs a process only ever adds to it."""
    best = float("inf")
    for _ in range(rounds):
        run, transitions = measurement(count)
        gc.collect()
        started = process_time_ns()
        run()
        best = min(best, (process_time_ns() - started) / transitions)
    return best


def main() -> None:
    rows = [(name, f"{measure(measurement):,.0f}") for name, measurement in MEASUREMENTS.items()]
    print(markdown(["one transition", "ns"], rows))


if __name__ == "__main__":
    main()
