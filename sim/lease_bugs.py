"""Planted bugs of leases: how a client, or a server, can come to believe what is not so any more.

Each has to be caught by the lease trials. How they get into the code is the business of `planting.py`.
"""

from sim.planting import bug

BELIEFS = (
    bug(
        "counted_from_the_answer",
        "a lease counts from when its grant was heard, not from before it was asked for",
        ("client.core:Acquiring._granted", "self.sent_at = self.asked_at", "self.sent_at = now"),
    ),
    bug(
        "renewed_from_the_answer",
        "a lease counts from when its renewal was heard",
        ("client.steward:Steward._confirmed", "sent_at=sent_at", "sent_at=self.keeper.clock()"),
    ),
    bug(
        "found_again_as_new",
        "a grant that is found again by its ticket counts as a whole lease",
        (
            "client.core:Acquiring._granted",
            "self.left_ns = min(self.lease_ns, *(grant.left_ns or 0 for grant in grants))",
            "self.left_ns = self.lease_ns",
        ),
    ),
    bug(
        "no_margin",
        "clocks are taken to run at one speed",
        (
            "client.lease:Lease._margin_of",
            "default_margin_ns(lease_ns) if self._margin_given_ns is None else self._margin_given_ns",
            "0",
        ),
    ),
    bug(
        "held_until_told",
        "held is what was told last, not what the clock says",
        ("client.lease:Lease.state", "if left > 0:", "if not self._lost_told:"),
    ),
    bug(
        "a_late_renewal_resurrects",
        "a renewal that is heard too late makes a lost lease live again",
        ("client.lease:Lease.confirm", "if not self.held:\n        return False", "self._over = None"),
    ),
    bug(
        "a_refused_renewal_counts",
        "a server that does not know the claim any more is taken to have renewed it",
        ("client.steward:Steward._renewed", "if renewed:", "if renewed is not None:"),
    ),
    bug(
        "a_hung_holder_is_renewed",
        "a holder that gives no sign of life keeps its lock",
        ("client.lease:Lease.beats", "return self.beat_ns is None or", "return True or"),
    ),
    bug(
        "given_back_and_still_held",
        "who gives a lock back relies on it until that is answered",
        ("client.lease:Lease.release", "self._over = State.RELEASED", "pass"),
    ),
)

NOTICES = (
    bug(
        "told_after_the_deadline",
        "a loss is told when the server has given the lock away",
        ("client.lease:Lease.next_notice_at", "return self.deadline if", "return self.deadline + self.lease_ns if"),
    ),
    bug(
        "danger_is_not_told",
        "a loss comes out of the blue",
        (
            "client.lease:Lease.notices",
            "self._danger_told = True\n        return (Notice.DANGER,)",
            "self._danger_told = True",
        ),
    ),
    bug(
        "renewed_once_too_rarely",
        "a renewal that failed is not tried again",
        ("client.steward:Steward._again", "kept.try_at = now + min", "kept.try_at = now + kept.lease.lease_ns + min"),
    ),
)

SERVERS = (
    bug(
        "a_lease_ends_early",
        "the server takes a tenth off every lease",
        ("engine.claim:renew", "deadline = now + how.lease_ns", "deadline = now + how.lease_ns * 9 // 10"),
        ("engine.claim:renew", "if how.shortens or deadline > c.deadline:", "if True:"),
    ),
    bug(
        "gone_with_its_session",
        "a session that nobody comes back for takes its leases with it",
        ("doors.native_session:NativeSession.tick", "keep_held=not self.releases", "keep_held=False"),
    ),
)

BUGS = {bug.name: bug for bug in (*BELIEFS, *NOTICES, *SERVERS)}
