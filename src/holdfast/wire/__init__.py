"""Codecs: bytes to commands and answers to bytes, in both directions, without any input or output."""
