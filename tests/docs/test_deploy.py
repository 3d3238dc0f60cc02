"""What deploy/ starts is started here, and its numbers fit those of the settings.

The unit and the container file themselves are checked by the programs that read them, where those are installed.
"""

import json
import re
import shlex
import sys
from configparser import ConfigParser

import pytest

from bench.servers import running
from holdfast.config import SETTINGS, Config
from holdfast.words import SECOND
from tests.docs.pages import PORT, ROOT, read
from tests.docs.wire import calling

STATE = "/var/lib/holdfast"
# What clients read, and what `holdfast run` tells its command.
CLIENT_VARIABLES = {
    *("HOLDFAST_SERVER", "HOLDFAST_KEY", "HOLDFAST_FENCE", "HOLDFAST_DEADLINE", "HOLDFAST_DEADLINE_AT"),
    *("HOLDFAST_BACKEND", "HOLDFAST_NODE"),
}
UNITS = ["deploy/systemd/holdfast.service", "deploy/systemd/holdfast-leases-example.service"]
PAGES = [*UNITS, *(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))]


@pytest.fixture
def unit():
    parser = ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parser.optionxform = str
    parser.read_string(read("deploy/systemd/holdfast.service"))
    return parser["Service"]


@pytest.fixture
def image():
    return dict(re.findall(r"^([A-Z]+) (.*)$", read("deploy/container/Dockerfile"), flags=re.MULTILINE))


def serves(arguments, folder):
    """Start the server as the command line says, but for its port and its folder, and take a lock from it."""
    here = [argument.replace(STATE, str(folder)) for argument in arguments]

    def command(port):
        return [sys.executable, "-m", "holdfast", *(argument.replace(PORT, str(port)) for argument in here)]

    with running("deployed", command) as server, calling(server.port) as caller:
        answer = caller.ask("l", "job", "0 30")
    return answer.startswith("ok ") and (folder / "fence").exists()


def test_the_unit_starts_a_server_with_a_fence_file(unit, tmp_path):
    program, *arguments = shlex.split(unit["ExecStart"])
    assert program == "/opt/holdfast/bin/holdfast"
    assert serves([*arguments, "--line", f"127.0.0.1:{PORT}"], tmp_path)


def test_the_container_starts_a_server_with_a_fence_file(image, tmp_path):
    assert json.loads(image["ENTRYPOINT"]) == ["/opt/holdfast/bin/holdfast"]
    assert image["VOLUME"] == STATE
    assert serves(json.loads(image["CMD"]), tmp_path)


def test_the_unit_keeps_the_folder_of_the_fence_file(unit):
    assert f"/var/lib/{unit['StateDirectory']}" == STATE


def test_the_unit_waits_longer_for_a_stop_than_the_server_does(unit):
    assert int(unit["TimeoutStopSec"]) * SECOND > Config().shutdown_timeout_ns


def test_the_unit_allows_a_file_for_each_connection(unit):
    assert int(unit["LimitNOFILE"]) > Config().connections_max


@pytest.mark.parametrize("page", PAGES)
def test_a_variable_that_is_named_is_a_setting(page):
    known = {setting.variable for setting in SETTINGS.values()} | CLIENT_VARIABLES
    assert set(re.findall(r"\bHOLDFAST_[A-Z_]+\b", read(page))) <= known
