"""A real database on which minutes pass at once: the leases in its rows age together with the clocks of its callers.

Processes of it are machines of paper, or real ones. No expectation lives here.
"""

import subprocess
import sys
from contextlib import contextmanager

from holdfast.leases.cluster_lock import ClusterLock
from holdfast.leases.opening import open_backend
from holdfast.testing.clock import HandClock
from tests.leases.asking import statement
from tests.leases.paper import Machine
from tests.leases.proxy import Proxy
from tests.leases.servers import DATABASE

AGES = {
    "mariadb": "UPDATE cluster_locks SET expires_at = expires_at - INTERVAL %s MICROSECOND "
    "WHERE expires_at > '1971-01-01'",
    "postgres": "UPDATE cluster_locks SET expires_at = expires_at - %s * interval '1 microsecond' "
    "WHERE expires_at > '1971-01-01'",
}

# A holder whose main loop hangs, and whose refresher goes on.
HOLDER = """
import sys, time
from holdfast.leases import ClusterLock

lock = ClusterLock("cluster", op="Cluster maintenance", backend=sys.argv[1])
assert lock.acquire()
print(lock.fence, flush=True)
time.sleep(600)
"""


class SlowStage:
    """A prepared database, and processes under one time."""

    def __init__(self, kind, url, server):
        self.url = url
        self.port = server.port
        self.clock = HandClock()
        self.backend = open_backend(url)
        self.backend.prepare()
        self._ages = AGES[kind]
        self._connection = server.connect(DATABASE)
        self._opened = [self.backend]

    def close(self):
        for backend in self._opened:
            backend.close()
        self._connection.close()

    def process(self):
        """Make a process."""
        return SlowMachine(self)

    def ages(self, ns):
        """Let time pass for what is in the table."""
        statement(self._connection, self._ages, ns // 1000)

    def run(self, sql, *values):
        """Do something to the table behind everybody's back."""
        return statement(self._connection, sql, *values)

    def row(self, key=b"cluster/"):
        return next((row for row in self.backend.list() if row.key == key), None)

    def left_s(self, key=b"cluster/"):
        return self.row(key).left_us / 1e6

    @contextmanager
    def away(self):
        """Give a process whose way to the database can be cut, and the way."""
        with Proxy(self.port) as proxy:
            backend = open_backend(proxy.in_place_of(self.url, self.port))
            self._opened.append(backend)
            try:
                yield SlowMachine(self, backend), proxy
            finally:
                backend.close()


class SlowMachine(Machine):
    """A process of paper on a real database."""

    def __init__(self, stage, backend=None):
        super().__init__(stage.clock)
        self.stage = stage
        self.backend = backend or stage.backend

    def lock(self, *names, **options):
        return ClusterLock(*(names or ("cluster",)), backend=self.backend, world=self.world, **options)

    def passes(self, seconds):
        """Let time pass here and in the table, and the refresher work at each instant at which something is due."""
        end = self.clock.now + round(seconds * 1e9)
        while (due := self.host.turn()) <= end:
            self._until(max(due, self.clock.now + 1))
        self._until(max(end, self.clock.now))
        self.host.turn()

    def _until(self, instant):
        before = self.clock.now
        self.clock.advance_to(instant)
        self.stage.ages(instant - before)


@contextmanager
def real_holder(url, program=HOLDER):
    """Start a real process that has the lock; it is killed at the end, if it still lives."""
    with subprocess.Popen([sys.executable, "-c", program, url], stdout=subprocess.PIPE, text=True) as process:
        try:
            fence = int(process.stdout.readline())
            yield process, fence
        finally:
            process.kill()
