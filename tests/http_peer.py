"""A caller of the HTTP door for tests of a real server: one request at a time, JSON both ways.

No expectation lives here.
"""

import http.client
import json
from typing import Any

WAIT_S_MAX = 20


class Reply:
    """What came back."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.text = response.read().decode()

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class HttpPeer:
    """One connection, which is kept for as long as the server keeps it."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S_MAX)

    def __enter__(self) -> "HttpPeer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Send a request and wait for its answer; an underscore in the name of a header is a dash."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, path, None if body is None else json.dumps(body), named)
        return Reply(self._connection.getresponse())

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, **headers)

    def acquire(self, name: str, owner: str = "w1", ttl_ms: int = 60_000, query: str = "", **headers: str) -> Reply:
        return self.ask("POST", f"/v1/locks/{name}/acquire{query}", {"owner_id": owner, "ttl_ms": ttl_ms}, **headers)

    def release(self, lease: dict[str, Any]) -> Reply:
        proof = {name: lease[name] for name in ("owner_id", "lease_id", "fencing_token")}
        return self.ask("POST", f"/v1/locks/{lease['lock_name']}/release", proof)

    def renew(self, lease: dict[str, Any], extend_by_ms: int = 60_000) -> Reply:
        proof = {name: lease[name] for name in ("owner_id", "lease_id", "fencing_token")}
        return self.ask("POST", f"/v1/locks/{lease['lock_name']}/renew", proof | {"extend_by_ms": extend_by_ms})

    def metric(self, name: str) -> float:
        """Read one sample from the page of metrics."""
        for line in self.get("/metrics").text.splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        raise KeyError(name)
