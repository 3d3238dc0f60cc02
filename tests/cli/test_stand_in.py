"""Servers in the place of others get their command line untouched, and their exit code is ours."""

import pytest

from holdfast.cli import dflockd, lockserver
from tests.cli.look_stage import holdfast

LINE = ["--", "-port=0", "--help", "---", "x", "--server", ""]


@pytest.mark.parametrize(("name", "original"), [("dflockd", dflockd), ("lockserver", lockserver)])
def test_the_whole_line_is_handed_on_as_it_is_with_the_environment(name, original, monkeypatch):
    heard = []

    def main(arguments, environ):
        heard.append((list(arguments), environ["ANYTHING"]))
        return 7

    monkeypatch.setattr(original, "main", main)
    assert holdfast(name, *LINE, environ={"ANYTHING": "goes"}).exit_code == 7
    assert heard == [(LINE, "goes")]


@pytest.mark.parametrize("name", ["dflockd", "lockserver"])
def test_a_server_is_started_with_what_its_original_would_understand(name, started):
    variable = {"dflockd": "DFLOCKD_PORT", "lockserver": "LOCKSERVER_ADDR"}[name]
    value = {"dflockd": "7777", "lockserver": "127.0.0.1:7777"}[name]
    assert holdfast(name, environ={variable: value}).exit_code == 0
    (config,) = started
    assert {"dflockd": config.line, "lockserver": config.http}[name] == "127.0.0.1:7777"


def test_each_is_listed_with_what_it_is():
    told = holdfast("--help").stdout
    assert "in place of dflockd" in told
    assert "in place of LockServer" in told
