"""`holdfast top`: the picture, how it fits on a screen, and that the screen is left as it was."""

import re
import shlex
import signal
import subprocess
import sys

import pytest

from holdfast.cli.top import draw, picture
from holdfast.sync import connect
from tests.cli.look_stage import shown
from tests.cli.run_user import environment
from tests.cli.terminal_stage import CTRL_C, PROMPT, Person

TOP = [sys.executable, "-m", "holdfast", "top"]


def view(key, *held_ms, waiting=0):
    holders = [{"pid": 7, "host": "db-1", "mode": "EX", "units": 1, "since_ms": ms} for ms in held_ms]
    return {"key": key, "kind": "lock", "holders": holders, "waiting": waiting}


def keys(lines):
    """Read the first column below the headings."""
    return [line.split()[0] for line in lines[3:]]


def test_who_has_held_for_longest_stands_first_and_who_only_waits_last():
    lines = picture(
        [view("new", 10), view("free", waiting=2), view("old", 9_000_000), view("middle", 5_000)], "URL", 50
    )
    assert keys(lines) == ["old", "middle", "new", "free"]
    assert re.fullmatch(r"URL  \d\d:\d\d:\d\d  4 keys in use, 3 held, 2 waiting", lines[0])


def test_one_key_is_one_key():
    assert "  1 key in use, 2 held, 0 waiting" in picture([view("shared", 1, 2)], "URL", 50)[0]


@pytest.mark.parametrize(("height", "rows"), [(50, 10), (14, 10), (13, 9), (9, 5), (1, 1)])
def test_what_has_no_room_on_the_screen_is_counted(height, rows):
    lines = picture([view(f"k{number}", number) for number in range(10)], "URL", height)
    assert (lines[-1] == f"and {10 - rows} more") == (rows < 10)
    assert len(lines) <= max(height, 5)


def test_the_last_line_of_a_screen_has_no_end_which_would_scroll(capsys):
    draw(["one", "two"], on_screen=True)
    assert capsys.readouterr().out == "one\ntwo"
    draw(["one", "two"], on_screen=False)
    assert capsys.readouterr().out == "one\ntwo\n\n"


def test_pictures_follow_each_other_where_there_is_no_screen(urls):
    with connect(urls.native) as client, client.lock("top/job", operation="import"):
        told = shown("top", "top/", "--count", "2", "--interval", "0.1", server=urls.native)
    first, second = told.split("\n\n" + urls.native)[0], told.split(urls.native)[2]
    for one in (first, second):
        assert "1 key in use, 1 held, 0 waiting" in one
        assert "import" in one
    assert "\x1b" not in told


@pytest.mark.parametrize("scheme", ["dflock", "http"])
def test_servers_that_tell_less_are_shown_too(scheme, urls):
    with connect(urls.native) as client, client.lock(f"top-{scheme}"):
        assert f"top-{scheme}" in shown("top", f"top-{scheme}", "-c", "1", server=getattr(urls, scheme))


def test_no_token_is_shown(urls):
    told = shown("top", "-c", "1", "--server", urls.http.replace("://", "://:secret@"), server=None)
    assert "secret" not in told


def test_an_interruption_is_the_end_and_no_trouble(urls):
    top = subprocess.Popen(TOP, env=environment(urls.native), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "keys in use" in top.stdout.readline().replace("key in", "keys in")
    top.send_signal(signal.SIGINT)
    assert top.communicate()[1] == ""
    assert top.returncode == 0


def test_a_terminal_gets_its_screen_back(urls, tmp_path):
    with connect(urls.native) as client, Person(tmp_path, {"HOLDFAST_SERVER": urls.native}) as person:
        with client.lock("typed/one"):
            person.types(shlex.join([*TOP, "typed/", "--interval", "0.1"]))
            person.sees("\x1b[?1049h\x1b[?25l\x1b[H")
            person.sees("typed/one")
        person.sees("0 keys in use")
        person.presses(CTRL_C)
        person.sees("\x1b[?25h\x1b[?1049l")
        person.sees(PROMPT)
