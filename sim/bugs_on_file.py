"""The planted bugs of stores that keep what they know: in their transactions, and at a restart.

Each has to be caught by the simulator. How they get into the code is the business of `planting.py`.
"""

from sim.planting import bug

FETCH = "ledger.fetch({claim.key: claim for work in reversed(batch) for claim in claims_of(work)})\n"

TRANSACTIONS = (
    bug(
        "told_before_the_commit",
        "callers hear what their commands came to before it is kept",
        (
            "stores.shelf:Shelf._apply_all",
            "outcome.told.append(apply(table, work, now))",
            "apply(table, work, now).tell(self.sink)",
        ),
    ),
    bug(
        "a_failed_transaction_stays",
        "what could not be kept has happened all the same",
        ("stores.shelf:Shelf._fail", "self._ledger.undo()", "pass"),
    ),
    bug(
        "told_although_it_failed",
        "a commit that fails is taken for one that does not",
        (
            "stores.shelf:Shelf._write",
            "self._backend.commit()",
            "\n    try:\n        self._backend.commit()\n    except StoreFailed:\n        self._backend.rollback()",
        ),
    ),
    bug(
        "a_hangup_is_lost",
        "the end of a connection that falls into a failed transaction is forgotten",
        ("stores.shelf:Shelf._fail", "outcome.again.append(work)", "pass"),
    ),
    bug(
        "nothing_is_tried_again",
        "after a failure, nobody sees to what is due",
        ("stores.shelf:Shelf._note", "if (when := self.next_deadline()) < FOREVER:", "if outcome.fault is None:"),
        ("stores.shelf:Shelf._note", "self._alarm(when)", "self._alarm(self.next_deadline())"),
    ),
    bug(
        "a_renewal_is_not_kept",
        "a renewal changes the lease in memory and not in the file",
        ("engine.table:Table.renew", "(answer is RENEWED or out)", "out"),
    ),
    bug(
        "a_tick_is_not_kept",
        "who was next when a lease ran out is told, and it is not kept",
        (
            "stores.shelf:Shelf._transact",
            "if keeping is not None:",
            "if keeping is not None and not all(isinstance(work, Tick) for work in batch):",
        ),
    ),
    bug(
        "served_in_any_order",
        "commands that came together are served backwards",
        (
            "stores.shelf:Shelf._start",
            "self._owed + self._gathered[: self._batch_max]",
            "(self._owed + self._gathered[: self._batch_max])[::-1]",
        ),
    ),
    bug(
        "the_wait_for_the_file_counts",
        "the time of a transaction is read before it begins, and a lease is used up by waiting for the file",
        (
            "stores.shelf:Shelf._transact",
            "self._backend.begin()\n    now = self._clock()",
            "now = self._clock()\n    self._backend.begin()",
        ),
    ),
    bug(
        "swept_and_claimed_at_once",
        "a key that is forgotten and asked for in one batch begins again with fence 1",
        (
            "stores.shelf:Shelf._transact",
            f"    {FETCH}",
            "",
        ),
        (
            "stores.shelf:Shelf._transact",
            "if any(isinstance(work, Sweep) for work in batch):",
            f"{FETCH}    if any(isinstance(work, Sweep) for work in batch):",
        ),
    ),
    bug(
        "what_was_enqueued_ends_too_late",
        "who releases and enqueues again in one breath is told to be enqueued already",
        ("stores.shelf:Shelf._deliver", "self.sink.foresee(told.news)", "pass"),
    ),
)

RESTARTS = (
    bug(
        "commits_are_not_synced",
        "a commit is in the file, but may not be there after a power cut",
        ("stores.sqlite_schema:prepare", "PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL"),
    ),
    bug(
        "fences_go_with_their_holders",
        "the last fence of a key is kept with who holds it, and forgotten with the key",
        ("stores.records:Ledger.changes", "if kept is None or kept[0] != record.fence:", "if kept is None:"),
    ),
    bug(
        "seats_are_forgotten",
        "at a restart only locks are read, and no semaphores",
        (
            "stores.sqlite:SqliteBackend.load_busy",
            'yield from map(_key_record, self._rows(f"{_KEYS} WHERE document IS NOT NULL", ()))',
            "pass",
        ),
    ),
    bug(
        "the_clock_steps_back",
        "after a restart the server believes the machine's clock, whatever it had kept",
        ("system:not_before", "return lambda: clock() + ahead", "return clock"),
    ),
    bug(
        "the_time_is_not_kept",
        "nothing says how late it was when the server ended",
        (
            "stores.sqlite:SqliteBackend.keep",
            "self._execute(\"UPDATE holdfast_meta SET value = ? WHERE name = 'clock_ns'\", (now,))",
            "pass",
        ),
    ),
    bug(
        "the_dead_wait_on",
        "who waited before a restart is granted the key after it",
        ("engine.restart:survive", "if r.waiting is not None:", "if False:"),
    ),
    bug(
        "a_newcomer_ends_what_is_kept",
        "what was held before a restart is ended by the new connection with the number of the old one",
        ("engine.restart:survive", "c.session = resident", "pass"),
        ("engine.restart:survive", "c.kept = True", "pass"),
    ),
    bug(
        "leases_begin_again_at_a_restart",
        "after a restart whoever holds has a whole lease",
        ("engine.restart:survive", "c.kept = True", "c.kept = True; c.deadline += c.lease_ns"),
    ),
    bug(
        "the_last_commands_are_dropped",
        "a server that stops in good order forgets what it was still to do",
        ("stores.shelf:Shelf.close", "if batch:", "if False:"),
    ),
)
