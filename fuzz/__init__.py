"""The fuzzer: bytes that were never meant to be, thrown at the codec and the door of the line protocol.

Only pure Python and a seed; what must hold for any bytes stands in the first line of `line.py`.
"""
