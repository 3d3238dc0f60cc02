"""A stage for commands that look into a server: the command as a user types it, and servers that recite.

No test and no expectation lives here.
"""

import csv
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from click.testing import CliRunner

from holdfast.cli.main import holdfast as program

PATIENCE_S = 30.0
LOOK_AGAIN_S = 0.005

# Where nobody listens: nobody but root may, and nobody does.
NOWHERE = "127.0.0.1:1"


class Urls:
    """The ways to talk to one server."""

    def __init__(self, server, token=""):
        before = f":{token}@" if token else ""
        self.native = f"holdfast://{before}127.0.0.1:{server.port}"
        self.dflock = f"dflock://{before}127.0.0.1:{server.port}"
        self.http = f"http://{before}127.0.0.1:{server.http_port}"


def holdfast(*arguments, server=None, environ=None):
    """Run a command; `server` is what HOLDFAST_SERVER says."""
    variables = {"HOLDFAST_SERVER": server} | (environ or {})
    return CliRunner(env=variables).invoke(program, arguments, prog_name="holdfast", catch_exceptions=False)


def shown(*arguments, server):
    """Run a command that has to succeed; answer what it prints."""
    result = holdfast(*arguments, server=server)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def rows(*arguments, server):
    """Run a listing with --simple; answer its rows as dictionaries."""
    return list(csv.DictReader(shown(*arguments, "--simple", server=server).splitlines()))


def objects(*arguments, server):
    """Run a listing with --json; answer what it says."""
    return json.loads(shown(*arguments, "--json", server=server))


def until(ready):
    """Look again until something is so; answer what it is."""
    for _ in range(int(PATIENCE_S / LOOK_AGAIN_S)):
        if found := ready():
            return found
        threading.Event().wait(LOOK_AGAIN_S)
    raise AssertionError("it never came true")


@contextmanager
def foreign(answers):
    """Be an HTTP server that is not ours: it says by path what it answers, status and body, and nothing else."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = answers.get(self.path.partition("?")[0], (404, b"404 page not found\n"))
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=LOOK_AGAIN_S))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
