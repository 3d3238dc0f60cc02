"""What a log line looks like, on a terminal and elsewhere.

Which events are logged is tested where they happen.
"""

import io
import json
import os
import pty
import re

import pytest
import structlog

from holdfast.observe.logs import LEVELS, configure, get_logger

STAMP = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"


@pytest.fixture(autouse=True)
def _forget():
    """Leave no configuration behind for other tests."""
    yield
    structlog.contextvars.clear_contextvars()
    structlog.reset_defaults()


class Terminal(io.StringIO):
    """Text that claims to be a terminal."""

    def isatty(self):
        return True


def written(level="info", fmt="json", stream=None):
    stream = stream or io.StringIO()
    configure(level, fmt, stream)
    return stream


def test_json_is_one_object_a_line_with_level_and_utc_time():
    stream = written()
    get_logger().info("started", door="line", port=6388)
    get_logger().error("stopped")
    one, two = (json.loads(line) for line in stream.getvalue().splitlines())
    assert re.fullmatch(STAMP, one.pop("timestamp"))
    assert one == {"event": "started", "level": "info", "door": "line", "port": 6388}
    assert (two["event"], two["level"]) == ("stopped", "error")


def test_text_is_one_line_without_colours_when_it_is_no_terminal():
    stream = written(fmt="text")
    get_logger().warning("started", door="line", port=6388)
    assert re.fullmatch(rf"{STAMP} \[warning *\] started +door=line port=6388\n", stream.getvalue())


def test_text_on_a_terminal_has_colours():
    stream = written(fmt="auto", stream=Terminal())
    get_logger().info("started", door="line")
    assert "\x1b[" in stream.getvalue()
    assert "started" in stream.getvalue()


def test_auto_is_text_on_a_real_terminal_and_json_on_a_pipe():
    ours, theirs = pty.openpty()
    with open(theirs, "w", encoding="utf-8") as terminal, open(ours, "rb", buffering=0) as screen:
        configure("info", "auto", terminal)
        get_logger().info("hello")
        assert b"hello" in screen.read(4096)
    reading, writing = os.pipe()
    with open(writing, "w", encoding="utf-8") as pipe, open(reading, encoding="utf-8") as end:
        configure("info", "auto", pipe)
        get_logger().info("hello")
        assert json.loads(end.readline())["event"] == "hello"


def test_json_may_be_asked_for_on_a_terminal():
    stream = written(fmt="json", stream=Terminal())
    get_logger().info("hello")
    assert json.loads(stream.getvalue())["event"] == "hello"


def test_a_reader_that_is_gone_costs_lines_and_nothing_else():
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb", buffering=0) as pipe:
        configure("info", "json", io.TextIOWrapper(pipe, write_through=True))
        get_logger().error("nobody hears this")


def test_a_full_disk_costs_lines_and_nothing_else():
    with open("/dev/full", "wb", buffering=0) as full:
        configure("info", "text", io.TextIOWrapper(full, write_through=True))
        get_logger().error("there is no room for this")


def test_a_stream_that_is_closed_or_missing_costs_lines_and_nothing_else():
    stream = written()
    stream.close()
    get_logger().info("too late")
    configure("info", "auto", None)
    get_logger().info("nowhere")


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_below_the_level_is_not_logged(level):
    stream = written(level)
    for name in LEVELS:
        getattr(get_logger(), name)(name)
    names = list(LEVELS)
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == names[names.index(level) :]


def test_a_logger_made_before_the_configuration_obeys_it():
    log = get_logger(door="line")
    first, second = written(), None
    log.info("one")
    second = written()
    log.info("two")
    assert json.loads(first.getvalue()) | {"timestamp": ""} == {
        "event": "one",
        "level": "info",
        "door": "line",
        "timestamp": "",
    }
    assert json.loads(second.getvalue())["event"] == "two"


def test_context_variables_are_on_every_line():
    stream = written()
    structlog.contextvars.bind_contextvars(connection=7)
    get_logger().info("hello")
    assert json.loads(stream.getvalue())["connection"] == 7


def test_a_key_in_bytes_is_spelled_in_json():
    stream = written()
    get_logger().info("hello", key=b"job\xff\n", kind=int)
    found = json.loads(stream.getvalue())
    assert (found["key"], found["kind"]) == ("job\\xff\n", "<class 'int'>")
    assert stream.getvalue().count("\n") == 1


@pytest.mark.parametrize("fmt", ["text", "json"])
def test_a_caller_cannot_forge_a_line_or_colour_the_screen(fmt):
    stream = written(fmt=fmt)
    get_logger().info("hello\nforged", key=b"a\nforged", name="b\n\x1b[31mforged\u2028", size=1)
    assert stream.getvalue().count("\n") == 1
    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("fmt", ["text", "json"])
def test_an_exception_is_logged_with_its_traceback(fmt):
    stream = written(fmt=fmt)
    try:
        raise ValueError("no such thing")
    except ValueError:
        get_logger().exception("failed")
    text = json.loads(stream.getvalue())["exception"] if fmt == "json" else stream.getvalue()
    assert "Traceback (most recent call last):" in text
    assert "ValueError: no such thing" in text
