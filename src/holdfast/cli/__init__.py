"""The commands that people type.

Only command lines are understood here; what they start lives in the server, and no lock rule is known.
"""
