"""How each protocol spells what a client asks and hears: one codec for each, all of the same shape.

No connection, clock or retry lives here; bytes go in and come out.
"""
