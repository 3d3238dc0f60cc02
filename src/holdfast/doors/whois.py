"""Who is behind a claim that says nothing of itself: which door, and from where, as far as the connection is there.

Only what is shown is filled in here; who may hold what does not depend on it.
"""

import msgspec

from holdfast.desk import Desk
from holdfast.words import Holder, View, Waiter


def about_peer(door: str, address: object) -> bytes:
    """Spell what is known of a caller of a door: an address, or, as sockets have it, a host and a port."""
    facts = {"door": door}
    if isinstance(address, (tuple, list)) and len(address) > 1:
        host, port = address[:2]
        facts["peer"] = f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
    elif isinstance(address, str) and address:
        facts["peer"] = address
    return msgspec.json.encode(facts)


def introduce(desk: Desk, views: list[View]) -> list[View]:
    """Fill in, in what was copied out for a look, what claims do not say of their callers."""
    for view in views:
        everybody: list[Holder | Waiter] = [*view.holders, *view.queue]
        for seen in everybody:
            if not seen.about and not is_left_behind(seen):
                session = desk.sessions.get(seen.session)
                seen.about = b"" if session is None else session.face.about()
    return views


def is_left_behind(seen: Holder | Waiter) -> bool:
    """Say whether its session is over: another run of the server may have given that number to somebody else."""
    return isinstance(seen, Holder) and seen.kept
