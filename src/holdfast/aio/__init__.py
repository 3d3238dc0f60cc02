"""The client for asyncio, written by hand; the blocking client is generated from it.

Only what awaits may live here: leases, retries and protocols are in `holdfast.client`.
"""
