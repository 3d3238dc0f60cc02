"""How the secret of a claim is laid out, and how the protocols show it: as a token, or as a lease id beside a fence.

Text work only; who may show what, and what it proves, is decided elsewhere.
"""

import re
from typing import Final

# A secret is 48 hex digits: 16 of the fence that the claim was first granted with, 16 of salt, and 16 that only a lease
# id shows. The token is the first 32 of them. A lease id is a UUID of version 4, in which a digit and a half are fixed;
# it spends the salt first, so that fence and lease id together give the token.
FENCE_DIGITS: Final = 16
TOKEN_DIGITS: Final = 32

_VARIANT: Final = b"89ab"
_LEASE_ID: Final = re.compile(
    rb"([0-9a-f]{8})-([0-9a-f]{4})-4([0-9a-f]{3})-([89ab])([0-9a-f])([0-9a-f]{2})-([0-9a-f]{12})"
)


def lease_id_of(secret: bytes) -> bytes:
    """Spell the lease id of a secret."""
    salt, rest = secret[16:32], secret[32:48]
    variant = int(rest[:1], 16) & 3
    return b"%b-%b-4%b-%b%b%b-%b" % (
        salt[:8],
        salt[8:12],
        salt[12:15],
        _VARIANT[variant : variant + 1],
        salt[15:],
        rest[1:3],
        rest[3:15],
    )


def secret_of(fence: int, lease_id: bytes) -> bytes | None:
    """Give a secret with this fence and lease id, or None where no secret has such a lease id."""
    found = _LEASE_ID.fullmatch(lease_id)
    if found is None or not 0 < fence < 1 << 64:
        return None
    one, two, three, variant, last, four, five = found.groups()
    return b"%016x%b%b%b%b%x%b%b0" % (fence, one, two, three, last, _VARIANT.index(variant), four, five)


def token_of(fence: int, lease_id: bytes) -> bytes | None:
    """Give the token of the claim with this fence and lease id, or None where there can be none."""
    secret = secret_of(fence, lease_id)
    return None if secret is None else secret[:TOKEN_DIGITS]
