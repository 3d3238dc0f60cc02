"""A stage for commands on leases: a prepared database, rows in it, and processes that are alive or dead for certain.

No test and no expectation lives here.
"""

import os
import subprocess
import threading
from contextlib import contextmanager
from itertools import count

from holdfast.leases.identity import identity_of
from holdfast.leases.opening import open_backend
from holdfast.leases.words import Ask, Got, Hold
from tests.cli import look_stage
from tests.cli.look_stage import until

BLINK_US = 1_000
LEASE_US = 60_000_000
# Longer than the least time between two looks of somebody who watches.
PAUSE_S = 0.07
PROGRAM = ["sleep", "600"]


class Database:
    """A database with locks in it."""

    def __init__(self, url):
        self.url = url
        self.backend = open_backend(url)
        self._numbers = count(1)

    def close(self):
        self.backend.close()

    def prepare(self):
        self.backend.prepare()
        return self

    def take(self, key, *, node="sf-7", pid=26407, process="", lease_us=LEASE_US, **holder):
        """Take a lock as some process; answers what gives it back."""
        hold = Hold(key.encode(), f"id-{next(self._numbers)}")
        told = {"node": node, "pid": pid} | ({"operation": "Cluster maintenance"} | holder) | {"id": hold.lock_id}
        ask = Ask(
            key=hold.key,
            lock_id=hold.lock_id,
            holder=told,
            node=node,
            pid=pid,
            process=process,
            lease_us=lease_us,
        )
        until(lambda: isinstance(self.backend.acquire(ask), Got))
        return hold

    def lapse(self, key, **who):
        """Take a lock, and let it lapse."""
        hold = self.take(key, lease_us=BLINK_US, **who)
        until(lambda: self.row(key).lapsed)
        return hold

    def release(self, hold):
        assert self.backend.release([hold]) == [True]

    def row(self, key):
        return next((row for row in self.backend.list() if row.key == key.encode()), None)

    def keys(self):
        return [row.key.decode() for row in self.backend.list()]


def holdfast(*arguments, backend=None, environ=None):
    """Run a command; `backend` is what HOLDFAST_BACKEND says."""
    return look_stage.holdfast(*arguments, environ={"HOLDFAST_BACKEND": backend} | (environ or {}))


def shown(*arguments, backend, environ=None):
    """Run a command that has to succeed; answers the lines that it prints."""
    result = holdfast(*arguments, backend=backend, environ=environ)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


@contextmanager
def coming_and_going(database, key):
    """Take a lock and give it back, again and again, for as long as the block lasts."""
    over = threading.Event()

    def come_and_go():
        while not over.is_set():
            hold = database.take(key)
            over.wait(PAUSE_S)
            database.release(hold)
            over.wait(PAUSE_S)

    worker = threading.Thread(target=come_and_go)
    worker.start()
    try:
        yield
    finally:
        over.set()
        worker.join()


@contextmanager
def alive():
    """Start some process; answers its pid and its identity."""
    with subprocess.Popen(PROGRAM) as process:
        try:
            yield process.pid, identity_of(process.pid)
        finally:
            process.kill()


def dead():
    """Give the pid and the identity of a process that is gone."""
    with alive() as who:
        return who


def myself():
    return os.getpid(), identity_of(os.getpid())
