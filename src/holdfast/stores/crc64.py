"""The CRC-64 of ISO 3309, which seals every record of the fence journal.

It finds torn and rotten bytes, never forged ones; nothing here knows what the bytes mean.
"""

_POLYNOMIAL = 0xD800000000000000  # bit-reflected: x^64 + x^4 + x^3 + x + 1
_ALL_ONES = 0xFFFFFFFFFFFFFFFF


def _remainder(byte: int) -> int:
    """Divide one byte, bit by bit, the way the table does it for eight bits at once."""
    for _ in range(8):
        byte = byte >> 1 ^ _POLYNOMIAL if byte & 1 else byte >> 1
    return byte


_TABLE = tuple(_remainder(byte) for byte in range(256))


def crc64(data: bytes) -> int:
    """Return the checksum of `data`; all bits are flipped before and after."""
    crc = _ALL_ONES
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ _ALL_ONES
