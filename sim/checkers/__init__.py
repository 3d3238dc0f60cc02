"""The checkers: pure functions of a history, each with one thing to say about it.

None of them imports the service; what is right is read from the protocol's description.
"""
