"""The page of leases over gRPC keeps its word: its programs are run on a server, and print what stands below them."""

import io
import re
from contextlib import redirect_stdout
from itertools import pairwise
from typing import Any

import pytest

from holdfast.config import SETTINGS
from holdfast.doors.grpc_leases import LISTED_MAX
from holdfast.wire.grpc_leases import LOCK_ID_BYTES_MAX, METHODS, ORIGINAL_SERVICE, WAIT_MS_MAX
from tests.conftest import Start
from tests.docs.pages import blocks, code, read

PAGE = read("docs/protocol/grpc.md")
PORT = "8475"


def test_the_programs_print_what_is_shown(start: Start) -> None:
    port = start("serve", "--grpc", "127.0.0.1:0").grpc_port
    shown = blocks(PAGE)
    names: dict[str, Any] = {}
    ran = 0
    for program, printed in pairwise(shown):
        if (program.language, printed.language) == ("python", "text"):
            out = io.StringIO()
            with redirect_stdout(out):
                exec(compile(program.text.replace(PORT, str(port)), "docs/protocol/grpc.md", "exec"), names)
            assert out.getvalue() == printed.text
            ran += 1
    assert ran == sum(block.language == "python" for block in shown) == 6
    names["channel"].close()


def test_every_flag_and_every_call_that_is_named_exists() -> None:
    named = code(PAGE)
    flags = {setting.flag for setting in SETTINGS.values()}
    assert {text for text in named if text.startswith("--")} <= flags
    calls = {text for text in named if re.fullmatch(r"[A-Z][a-z]+(Lock|Locks|LockHolder)", text)}
    assert calls <= set(METHODS)
    assert ORIGINAL_SERVICE in named


@pytest.mark.parametrize("number", [LISTED_MAX, LOCK_ID_BYTES_MAX, WAIT_MS_MAX])
def test_the_numbers_are_those_of_the_code(number: int) -> None:
    assert f"{number:,}" in PAGE
