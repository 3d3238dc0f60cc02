"""The lock rules: pure transitions on one key, and the table that finds the key.

Everything that decides who holds what is here; nothing here knows a clock, a socket or who asks.
"""
