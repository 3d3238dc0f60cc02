"""The planted bugs: mistakes that were made in lock services before, or that are one slip away in ours.

Each has to be caught by the simulator. How they get into the code is the business of `planting.py`.
"""

from sim.bugs_on_file import RESTARTS, TRANSACTIONS
from sim.planting import bug

WHO_IS_NEXT = (
    bug(
        "newcomer_overtakes",
        "who comes last stands before who came before",
        (
            "engine.queue:Queue.append",
            "self._claims.append(c)",
            "self._claims.insert(max(self._at, len(self._claims) - 1), c)",
        ),
    ),
    bug(
        "newcomer_takes_the_seat_of_the_stuck",
        "when fences come again, a newcomer is served before those who waited for one",
        ("engine.claim:enqueue", "if r.stuck:", "if r.stuck and r.waiting is None:"),
        ("engine.claim:enqueue", "if r.waiting is None and r.converting is None and fits(r, c):", "if fits(r, c):"),
    ),
    bug(
        "last_come_first_served",
        "the queue is a stack",
        ("engine.serve:_serve", "c = r.waiting.first()", "c = r.waiting.values()[-1]"),
    ),
    bug(
        "nobody_is_next_after_a_release",
        "a release frees the key and serves nobody",
        ("engine.claim:end", "if r.waiting is not None or r.converting is not None:", "if r.converting is not None:"),
    ),
    bug(
        "nobody_is_next_after_an_expiry",
        "a lease runs out and nobody is served",
        (
            "engine.deadline:expire",
            "out)\n        serve(r, now, mint, out)",
            "out)",
        ),
    ),
    bug(
        "nobody_is_next_after_a_hangup",
        "a connection ends and nobody is served",
        ("engine.table:Table.hangup", "serve(r, now, self.mint, out)", "pass"),
    ),
    bug(
        "handed_to_the_dead",
        "what a session held is handed to its own waiters before they go",
        ("engine.table:Table.hangup", "self._withdraw(book, now, touched, out)", "pass"),
        (
            "engine.table:Table.hangup",
            "self._lapse(c, now, touched, out)",
            "self._lapse(c, now, touched, out); serve(touched[c.key], now, self.mint, out)",
        ),
    ),
    bug(
        "stuck_for_good",
        "who could be given no fence is never tried again",
        ("engine.serve:serve", "r.soonest = min(r.soonest, now + FENCE_RETRY_NS)", "pass"),
        ("engine.deadline:expire", "r.soonest = min(r.soonest, now + FENCE_RETRY_NS)", "pass"),
    ),
)

WHO_MAY_HOLD = (
    bug(
        "one_seat_too_many",
        "less or equal, where it is less",
        ("engine.resource:fits", "r.used + c.units <= r.limit", "r.used <= r.limit"),
    ),
    bug(
        "locks_do_not_exclude",
        "modes are not compared",
        ("engine.resource:fits", "not r.mask & CLASH[c.want] and ", ""),
    ),
    bug(
        "limit_mismatch_ignored",
        "a semaphore may be entered with a smaller limit than it has",
        ("engine.claim:enqueue", "if c.limit != r.limit:", "if c.limit > r.limit:"),
    ),
    bug(
        "release_without_proof",
        "any token releases and renews what there is one holder of",
        ("engine.resource:holder", "return sole if sole.token == token else None", "return sole"),
    ),
    bug(
        "release_in_the_wrong_namespace",
        "a semaphore's release goes to the lock of the same name",
        ("wire.line:LineCodec._release_seat", "SEMAPHORE + key", "LOCK + key"),
    ),
    bug(
        "one_waiter_too_many",
        "the limit of waiters is off by one",
        ("engine.claim:_queue", "len(r.waiting) >= waiters_max", "len(r.waiting) > waiters_max"),
    ),
    bug(
        "one_key_too_many",
        "the limit of keys is off by one",
        ("engine.table:Table.enqueue", "len(self.resources) >= self.keys_max", "len(self.resources) > self.keys_max"),
    ),
    bug(
        "keys_are_never_forgotten",
        "idle keys stay for ever",
        ("engine.table:Table.sweep", "if idle[0][0] >= now:", "if idle:"),
    ),
    bug(
        "stats_count_who_has_gone",
        "waiters are counted by how many ever came",
        ("engine.view:view_of", "len(r.waiting or ())", "r.orders"),
    ),
)

HOW_LONG = (
    bug(
        "lease_ends_early",
        "half a lease is given",
        ("engine.resource:grant", "now + c.lease_ns", "now + c.lease_ns // 2"),
    ),
    bug(
        "lease_never_ends",
        "a lease is forgotten",
        ("engine.resource:grant", "now + c.lease_ns", "now + (1 << 62)"),
    ),
    bug(
        "renewal_changes_nothing",
        "a renewal is confirmed, and the lease runs out as before",
        ("engine.claim:renew", "c.deadline = deadline", "pass"),
    ),
    bug(
        "renewal_from_nothing",
        "a renewal is confirmed though nothing is held",
        ("engine.claim:renew", "return NOT_HELD", "return RENEWED"),
    ),
    bug(
        "renewal_after_the_end",
        "a renewal comes too late, but before anybody noticed, and is confirmed",
        ("engine.table:Table.renew", "if r.soonest <= now:", "if r.soonest <= now < 0:"),
    ),
    bug(
        "release_after_the_end",
        "a release comes too late, but before anybody noticed, and is confirmed",
        ("engine.table:Table.end", "if r.soonest <= now:", "if r.soonest <= now < 0:"),
    ),
    bug(
        "second_phase_starts_no_lease",
        "the lease of an enqueued claim is not started again by the wait for it",
        ("engine.claim:wait", "c.deadline = now + c.lease_ns", "pass"),
    ),
    bug(
        "patience_ignored",
        "a waiter waits for ever",
        ("engine.claim:_queue", "now + c.patience_ns", "now + (1 << 62)"),
    ),
    bug(
        "patience_halved",
        "a waiter is sent away too early",
        ("engine.claim:_queue", "now + c.patience_ns", "now + c.patience_ns // 2"),
    ),
    bug(
        "a_try_waits",
        "with no patience at all one still waits for the next tick",
        ("engine.claim:_queue", "if c.patience_ns == 0:", "if c.patience_ns < 0:"),
    ),
    bug(
        "nobody_sets_the_alarm",
        "the store does not say when it has to be woken",
        ("stores.memory:MemoryStore.submit", "self._alarm(self._alarm_at)", "pass"),
    ),
    bug(
        "only_the_first_deadline_wakes",
        "a deadline that comes later and is due sooner is slept through",
        ("engine.table:Table.enqueue", "if r.soonest < r.wake:", "if r.wake == FOREVER:"),
    ),
)

FENCES = (
    bug(
        "fences_from_the_clock",
        "a start believes the clock and not the fence file",
        ("stores.journal:Journal._begin", "floor = max(survey.ceiling, clock_ns)", "floor = clock_ns"),
    ),
    bug(
        "ceiling_not_synced",
        "a new ceiling is used before it is durable",
        ("stores.journal:Journal.extend", "self._disk.sync(self._file)", "pass"),
    ),
    bug(
        "the_good_slot_is_overwritten",
        "the fence file has one slot only",
        ("stores.journal:_offset", "(sequence - 1) % 2", "0"),
    ),
    bug(
        "a_failed_write_counts",
        "fences go on although the new ceiling could not be written",
        (
            "stores.fence:Fences._raised",
            'raise FenceUnavailable(f"the fence file cannot be written: {error}") from error',
            "return fence + 1_000_000",
        ),
    ),
    bug(
        "fences_above_the_ceiling",
        "fences are laid ready beyond what the fence file has promised",
        ("stores.fence:Mint._prepare", "min(fence - first + _BLOCK, self._fences._ceiling)", "fence - first + _BLOCK"),
    ),
)

SESSIONS = (
    bug(
        "kept_after_the_end",
        "what a connection held stays held although it must not",
        ("desk:Desk.close", "keep_held=not self.release_on_disconnect", "keep_held=True"),
    ),
    bug(
        "released_although_it_is_to_be_kept",
        "what a connection held is released although it must not",
        ("desk:Desk.close", "keep_held=not self.release_on_disconnect", "keep_held=False"),
    ),
    bug(
        "sessions_never_end",
        "a connection that is gone keeps its place in every queue",
        ("doors.line:LineConnection.connection_lost", "self._desk.close(self._session, self._clock())", "pass"),
    ),
    bug(
        "waiters_outlive_their_session",
        "where held claims outlive the connection, its waiters do too",
        ("engine.table:Table.hangup", "self._withdraw(book, now, touched, out)", "pass"),
    ),
    bug(
        "a_released_phase_stays",
        "after a release one is already enqueued, for ever",
        ("desk:Desk.foresee", "isinstance(effect, Ended) and effect.claim.tracked", "False"),
    ),
    bug(
        "a_newer_phase_goes",
        "an old token ends what was enqueued anew",
        ("desk:Desk._phase_ended", "phase is None or phase.ticket != claim.ticket", "phase is None"),
        ("desk:Desk._forget", "session.phases[key].ticket == ticket", "ticket"),
    ),
    bug(
        "a_phase_can_be_waited_for_twice",
        "the second phase does not use up the first",
        ("desk:Desk._resolve", "if isinstance(request, WaitFor):", "if False:"),
    ),
    bug(
        "the_blocked_hear_nothing_at_the_end",
        "a server that finishes leaves blocked requests without an answer",
        ("desk:Desk.drain", "list(session.awaited)", "()"),
    ),
    bug(
        "served_to_the_end",
        "a server that finishes goes on to serve",
        ("desk:Desk.submit", "if self.draining:", "if False:"),
    ),
    bug(
        "news_that_comes_in_the_middle_is_lost",
        "whoever is told something and asks for more at once causes news that nobody hears",
        (
            "desk:Desk.news",
            "self._news.extend(effects)\n    if self._telling:\n        return",
            "if self._telling:\n        return\n    self._news.extend(effects)",
        ),
    ),
)

CONNECTIONS = (
    bug(
        "lost_behind_a_slow_peer",
        "what waits behind a peer that did not read is forgotten",
        ("doors.line:LineConnection.resume_writing", "self._carry_on()", "pass"),
    ),
    bug(
        "answered_twice",
        "a reply is written twice",
        (
            "doors.line:LineConnection.answer",
            "self._out.append(wire.reply_to(request, answer, claim))",
            "self._out += [wire.reply_to(request, answer, claim)] * 2",
        ),
    ),
    bug(
        "answered_backwards",
        "replies to requests that came together leave in the wrong order",
        ("doors.line:LineConnection._flush", 'b"".join(out)', 'b"".join(reversed(out))'),
    ),
    bug(
        "blocked_requests_are_overtaken",
        "a connection goes on behind a request that is blocked",
        (
            "doors.line:LineConnection._pump",
            "if self._busy or self._paused or self._closing:\n            break",
            "if self._paused or self._closing:\n            break",
        ),
    ),
    bug(
        "nothing_behind_a_blocked_request",
        "what was sent behind a blocked request is forgotten",
        ("doors.line:LineConnection._go_on", "self._carry_on()", "pass"),
    ),
    bug(
        "a_long_line_is_forgiven",
        "behind a line that is too long the connection goes on, and reads its rest as something else",
        (
            "doors.line:LineConnection._drain_line",
            "self._refuse(wire.LINE_TOO_LONG, self._clock())",
            "self._draining_line = False",
        ),
    ),
    bug(
        "a_line_may_take_for_ever",
        "nobody minds a peer that never finishes a line",
        ("doors.line:LineConnection._read_by", "self._deadline = deadline", "self._deadline = FOREVER"),
    ),
    bug(
        "cut_off_while_blocked",
        "the time for reading runs while a request is blocked",
        (
            "doors.line:LineConnection.tick",
            "FOREVER if self._busy or self._paused else ",
            "",
        ),
    ),
    bug(
        "a_slow_peer_may_take_for_ever",
        "nobody minds a peer that does not read",
        ("doors.line:LineConnection.pause_writing", "if timeout_ns:", "if timeout_ns < 0:"),
    ),
)

BUGS = {
    planted.name: planted
    for planted in (*WHO_IS_NEXT, *WHO_MAY_HOLD, *HOW_LONG, *FENCES, *SESSIONS, *CONNECTIONS, *TRANSACTIONS, *RESTARTS)
}
