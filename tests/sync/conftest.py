"""Servers for the lock client: ours on both stores, and a stand-in for the original; and both faces of the client.

No test and no expectation lives here.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.testing.process import ServerProcess
from tests.sync.faces import FACES
from tests.sync.go_server import GoServer


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
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
def url(request: pytest.FixtureRequest) -> str:
    """Give the URL of each server in turn."""
    if request.param == "original":
        original: GoServer = request.getfixturevalue("go")
        return original.url
    urls: dict[str, str] = request.getfixturevalue("ours")
    return urls[request.param]


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give each face of the client in turn."""
    face = FACES[request.param]()
    yield face
    face.close()


@pytest.fixture
def connect(face: Any) -> Iterator[Callable[..., Any]]:
    """Make clients of the face, which are closed when the test is over."""
    clients = []

    def make(url: str, **named: Any) -> Any:
        clients.append(face.client(url, **named))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
