"""The map matches the land: what ARCHITECTURE.md names is there, and a request takes the way that it describes.

A test that fails here is about the page as often as about the code: bring them together again.
"""

import ast
import re
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.desk import Desk
from holdfast.doors.line import LineDoor, LineSettings
from holdfast.stores.fence import Fences, Mint
from holdfast.stores.memory import MemoryStore
from holdfast.system import SystemDice
from holdfast.words import SECOND
from tests.docs.pages import ROOT, code, read
from tools.compile import COLD, HOT

PACKAGE = Path(holdfast.__file__).parent
PAGE = read("ARCHITECTURE.md")
NAMED = [text.partition(":") for text in code(PAGE) if re.fullmatch(r"[\w./]+(\.\w+|/)(:[\w.]+)?", text)]
FILES = sorted({path for path, _, _ in NAMED if path.endswith((".py", ".toml", "/"))})
PLACES = sorted({(path, name) for path, _, name in NAMED if name})


def section(heading):
    return PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def hops(heading):
    """List the numbered steps of a section, each by the first place in the code that it names."""
    found = [re.match(r"`([\w/]+\.py):([\w.]+)`", step) for step in re.split(r"^\d+\. ", section(heading), flags=re.M)]
    return [(hop[1], hop[2]) for hop in found if hop]


def defined(file):
    """List what a module defines, methods as `Class.method`."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            names |= {node.name, *(f"{node.name}.{part.name}" for part in node.body if hasattr(part, "name"))}
        elif isinstance(node, ast.FunctionDef):
            names.add(node.name)
    return names


@pytest.mark.parametrize("path", FILES)
def test_a_file_that_is_named_exists(path):
    assert (PACKAGE / path).exists() or (ROOT / path).exists()


@pytest.mark.parametrize(("path", "name"), PLACES)
def test_a_place_that_is_named_exists(path, name):
    assert name in defined(PACKAGE / path)


def test_every_part_of_the_package_is_mentioned():
    parts = {part.name + "/" * part.is_dir() for part in PACKAGE.iterdir() if not part.name.startswith(("__", "py."))}
    assert parts <= set(FILES)


def test_every_module_answers_a_question_in_the_last_table():
    modules = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("[a-z]*.py")}
    answers = set(re.findall(r"`([\w/]+\.py)`", section("Where to look")))
    assert {name for name in modules - answers if not name.startswith("testing/")} == set()


def test_what_is_said_to_be_compiled_is_what_is_compiled():
    said = section("What is compiled").partition(". The result")[0]
    plain = re.findall(r"`([\w/]+\.py)`", said.partition("without ")[2].partition(")")[0])
    assert sorted(plain) == sorted(COLD)
    named = re.findall(r"`([\w/]+(?:\.py|/))`", said.partition(", a part of mypy")[2])
    assert sorted({*named} - {*plain}) == sorted(pattern.removesuffix("*.py") for pattern in HOT)


def test_the_order_of_imports_is_the_one_that_is_enforced():
    layers = re.findall(r'"([^"]+)"', read("pyproject.toml").partition("layers = [")[2].partition("]")[0])
    drawn = re.sub(r"\s+", " ", section("Imports point down").partition("```text\n")[2].partition("```")[0]).strip()
    assert [set(re.findall(r"\w+", layer)) for layer in drawn.split(" > ")] == [
        set(re.findall(r"\w+", layer)) for layer in layers
    ]


# --- the way of a request ---


class Wire:
    """The far end of a connection, which only keeps what was written."""

    def __init__(self, door):
        self.written = []
        self.connection = door.connect(lambda: None)
        self.connection.connection_made(self)

    def set_write_buffer_limits(self, high):
        assert high == 0

    def get_extra_info(self, _name):
        """Say that there is no TLS here."""

    def write(self, data):
        self.written.append(data)


@pytest.fixture
def door():
    store = MemoryStore(
        Mint(Fences(0), SystemDice()).__call__, lambda _when: None, keys_max=10, waiters_max=10, idle_max_ns=SECOND
    )
    store.sink = Desk(store, release_on_disconnect=True)
    settings = LineSettings(
        read_timeout_ns=SECOND,
        idle_timeout=False,
        write_timeout_ns=SECOND,
        pending_bytes_max=4096,
        lease_default_ns=SECOND,
        auth_token=None,
    )
    return LineDoor(store.sink, lambda: 0, lambda _when: None, settings)


def calls_during(action, *arguments):
    """List the functions of the package that are called, in order."""
    calls = []

    def note(frame, event, _argument):
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(PACKAGE):
            calls.append((str(file.relative_to(PACKAGE)), frame.f_code.co_qualname))

    outer = sys.getprofile()
    sys.setprofile(note)
    try:
        action(*arguments)
    finally:
        sys.setprofile(outer)
    return calls


def first_missed(way, calls):
    """Find the first hop that is not called after the one before it."""
    rest = iter(calls)
    return next((hop for hop in way if hop not in rest), None)


def test_a_request_takes_the_way_described(door):
    way = hops("One request, hop by hop")
    assert len(way) == 13
    caller = Wire(door)
    calls = calls_during(caller.connection.data_received, b"l\njob\n10 30\n")
    assert [data[:3] for data in caller.written] == [b"ok "]
    assert first_missed(way, calls) is None, calls


def test_a_waiter_is_answered_on_the_way_described(door):
    way = hops("Answers now or later")
    assert len(way) == 7
    holder, waiter = Wire(door), Wire(door)
    holder.connection.data_received(b"l\njob\n10 30\n")
    waiter.connection.data_received(b"l\njob\n10 30\n")
    assert waiter.written == []
    calls = calls_during(holder.connection.data_received, b"r\njob\n" + holder.written[0][3:35] + b"\n")
    assert holder.written[1:] == [b"ok\n"]
    assert [data[:3] for data in waiter.written] == [b"ok "]
    assert first_missed(way, calls) is None, calls


def test_one_read_is_answered_by_one_write(door):
    caller = Wire(door)
    caller.connection.data_received(b"ping\n\n\n" * 3 + b"l\njob\n0 30\n" + b"l\njob\n0 30\n")
    assert len(caller.written) == 1
    assert caller.written[0].count(b"\n") == 5
