"""Guards for what a lock protects: they refuse the writes of a holder whose time is over.

They know numbers, files and tables; no connection to a lock service may live here.
"""
