"""What lets a person see inside a running server.

Everything here watches; nothing here may change what a lock does.
"""
