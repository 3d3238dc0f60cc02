"""What every face of the client shares: leases and their time, tickets, renewing, the protocols it speaks.

No lock rule of the service and no event loop may live here; `holdfast.aio` and `holdfast.sync` are the faces.
"""
