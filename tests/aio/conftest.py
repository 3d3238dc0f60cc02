"""Servers for the lock client: ours on both stores, and a stand-in for the original; and both faces of the client.

No test and no expectation lives here.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.testing.process import ServerProcess
from tests.aio.go_server import GoServer
from tests.aio.lock_faces import FACES


@pytest.fixture(scope="session")
def lock_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Start a server of ours on each store; give their URLs."""
    folder = tmp_path_factory.mktemp("servers")
    started = {}
    urls = {}
    try:
        for store in ("memory", "sqlite"):
            place = folder / store
            place.mkdir()
            option = "memory:" if store == "memory" else f"sqlite:{place / 'holdfast.db'}"
            server = started[store] = ServerProcess("serve", "--store", option, log=place / "log")
            urls[store] = f"http://{server.http_host}:{server.http_port}"
        yield urls
    finally:
        for server in started.values():
            server.end()


@pytest.fixture
def go() -> Iterator[GoServer]:
    with GoServer() as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", "original"])
def lock_url(request: pytest.FixtureRequest) -> str:
    """Give the URL of each server in turn."""
    if request.param == "original":
        original: GoServer = request.getfixturevalue("go")
        return original.url
    urls: dict[str, str] = request.getfixturevalue("lock_servers")
    return urls[request.param]


@pytest.fixture(params=FACES)
def lock_face(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give each face of the lock client in turn."""
    face = FACES[request.param]()
    yield face
    face.close()


@pytest.fixture
def lock_client(lock_face: Any) -> Iterator[Callable[..., Any]]:
    """Make lock clients of the face, which are closed when the test is over."""
    clients = []

    def make(url: str, **named: Any) -> Any:
        clients.append(lock_face.client(url, **named))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
