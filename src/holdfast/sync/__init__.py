"""The blocking client, generated from `holdfast.aio`.

Nothing here is edited by hand, except what waits on sockets and threads where the original waits on the event loop.
"""
