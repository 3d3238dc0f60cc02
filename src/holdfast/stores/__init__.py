"""Stores: where the truth about who holds what is kept. They know commands and effects, never a protocol."""
