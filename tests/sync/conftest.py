"""A server of ours for the blocking face. No test and no expectation lives here."""

from collections.abc import Iterator

import pytest

from holdfast.testing.process import ServerProcess


@pytest.fixture(scope="session")
def servers_of_ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a server of ours; give its URL."""
    with ServerProcess("serve", "--store", "memory:", log=tmp_path_factory.mktemp("server") / "log") as server:
        yield f"holdfast://127.0.0.1:{server.port}"
