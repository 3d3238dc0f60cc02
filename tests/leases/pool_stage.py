"""A database through a proxy, and a driver whose connections are counted, for tests of pools and backends.

No expectation lives here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.leases.drivers.mariadb import MariaDbDriver
from holdfast.leases.drivers.port import Times
from holdfast.leases.drivers.postgres import PostgresDriver
from holdfast.leases.opening import open_backend
from holdfast.leases.url import place_of
from tests.leases.proxy import Proxy

SHORT = Times(connect_s=2, statement_s=1, row_s=1)


def driver_of(url: str) -> MariaDbDriver | PostgresDriver:
    place = place_of(url)
    return MariaDbDriver(place) if place.kind == "mariadb" else PostgresDriver(place)


@contextmanager
def through_a_proxy(url: str) -> Iterator[tuple[Proxy, str]]:
    """Prepare the tables, and lead a URL through a proxy."""
    direct: Any = open_backend(url)
    direct.prepare()
    direct.close()
    port = place_of(url).port
    with Proxy(port) as proxy:
        yield proxy, proxy.in_place_of(url, port)
