"""Stages for the client and servers for the lock client: ours on both stores, and a stand-in for the original.

Each comes in both faces of the client. No test and no expectation lives here.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.testing.process import ServerProcess
from tests.aio import client_faces
from tests.aio.client_faces import Stage, VirtualStage
from tests.aio.go_server import GoServer
from tests.aio.lock_faces import FACES


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ServerProcess]]:
    """Start a server of ours on each store."""
    folder = tmp_path_factory.mktemp("servers")
    started = {}
    try:
        for store in ("memory", "sqlite"):
            place = folder / store
            place.mkdir()
            option = "memory:" if store == "memory" else f"sqlite:{place / 'holdfast.db'}"
            started[store] = ServerProcess("serve", "--store", option, log=place / "log")
        yield started
    finally:
        for server in started.values():
            server.end()


@pytest.fixture(scope="session")
def lock_servers(servers: dict[str, ServerProcess]) -> dict[str, str]:
    """Give the URLs of servers of ours, by their stores."""
    return {store: f"http://{server.http_host}:{server.http_port}" for store, server in servers.items()}


@pytest.fixture(params=client_faces.FACES)
def face(request: pytest.FixtureRequest) -> str:
    """Name each face of the client in turn."""
    return str(request.param)


@pytest.fixture
def stage(face: str) -> Iterator[VirtualStage]:
    """Give a stage in virtual time, whose server speaks our own protocol."""
    stage = VirtualStage(face)
    with stage.world:
        yield stage


@pytest.fixture(params=["holdfast", "dflock"])
def virtual_stage(request: pytest.FixtureRequest, face: str) -> Iterator[VirtualStage]:
    """Give a stage in virtual time for each protocol that can be spoken there."""
    stage = VirtualStage(face, request.param)
    with stage.world:
        yield stage


# What a client may speak, and on which store the server that it speaks to keeps its claims.
PLACES = ("holdfast virtual", "dflock virtual", "holdfast sqlite", "dflock memory", "http memory", "http sqlite")


@pytest.fixture(params=PLACES)
def any_stage(request: pytest.FixtureRequest, face: str) -> Iterator[Stage]:
    """Give a stage for each protocol: in virtual time, and on real servers with each store."""
    scheme, _, store = str(request.param).partition(" ")
    if store == "virtual":
        virtual = VirtualStage(face, scheme)
        with virtual.world:
            yield virtual
        return
    server: ServerProcess = request.getfixturevalue("servers")[store]
    host, port = (server.http_host, server.http_port) if scheme == "http" else (server.host, server.port)
    yield Stage(face, f"{scheme}://{host}:{port}")


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
