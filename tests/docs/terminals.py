"""Terminals at which the transcripts of a page are typed, and how what is shown is compared with what comes.

A transcript names the terminal before each `$`. A line of only `…` stands for any lines, `…` in a line for any text;
lengths of time, numbers of processes, fences and the name of the machine are as they come. No expectation lives here.
"""

import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.docs.wire import WAIT_S_MAX

ANY = "…"
HERE = "web-1"
DONE = "<the command is done>"
PROMPT = re.compile(r"^(\w*)\$(?: (.*))?$")

_LOOSE = {
    r"\d\d:\d\d:\d\d(?:\.\d+)?": r"\\d\\d:\\d\\d:\\d\\d(?:\\.\\d+)?",  # a time of day
    r"\b\d+(?:\.\d+)?(?= (?:ms|s|m|h)\b)": r"\\d+(?:\\.\\d+)?",  # a length of time
    r"\b\d+\.\d+": r"\\d+\\.\\d+",
    r"\b\d{4,}\b": r"\\d+",  # a process, a port, a fence
    rf"\b{HERE}\b": re.escape(socket.gethostname()),
    ANY: ".*",
    r"\s+": r"\\s+",
}
_PART = re.compile("|".join(f"({part})" for part in _LOOSE))


def pattern(shown):
    """Make of a line of a page the pattern of what may come."""
    made, place = "", 0
    for found in _PART.finditer(shown.strip()):
        made += re.escape(shown.strip()[place : found.start()])
        made += list(_LOOSE.values())[found.lastindex - 1].replace("\\\\", "\\")
        place = found.end()
    return made + re.escape(shown.strip()[place:])


def like(shown, came):
    """Tell whether a line is as shown."""
    return re.fullmatch(pattern(shown), came.strip()) is not None


class Terminal:
    """A shell, with all that it writes."""

    def __init__(self, folder, url):
        # Programs are found beside the Python of these tests, whoever runs them and from where.
        path = f"{Path(sys.executable).parent}:{folder}:{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-s"],
            cwd=folder,
            env=kept | {"PATH": path, "HOLDFAST_SERVER": url},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        os.set_blocking(self._shell.stdout.fileno(), False)
        self._waiting = selectors.DefaultSelector()
        self._waiting.register(self._shell.stdout, selectors.EVENT_READ)
        self._heard = b""
        self._busy = False
        self._cut = False  # not all that comes is on the page

    def types(self, command):
        """Type a line, once the one before it is done."""
        if self._busy:
            rest = self._rest()
            assert self._cut or not rest, f"{rest!r} is not on the page"
        if command.endswith("&"):  # it is done when it likes, and says what it likes in between
            self._shell.stdin.write(f"{command}\n".encode())
            self._shell.stdin.flush()
            self._busy = False
            return
        # The exit code is left as it was, for who asks for it.
        self._shell.stdin.write(f"{command}\n__code=$?; echo '{DONE}'; (exit $__code)\n".encode())
        self._shell.stdin.flush()
        self._busy = True

    def _rest(self):
        """Read on until the command is done."""
        rest = []
        while (came := self.line()) != f"{DONE}\n":
            assert came, f"the shell has ended after {rest}"
            rest.append(came)
        return rest

    def line(self):
        """Read a line; at the end of all, nothing."""
        limit = time.monotonic() + WAIT_S_MAX
        while b"\n" not in self._heard:
            assert self._waiting.select(max(0, limit - time.monotonic())), f"no line came, only {self._heard!r}"
            if not (more := self._shell.stdout.read()):
                return ""
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode() + "\n"

    def shows(self, expected):
        """Read these lines."""
        skips = False
        for shown in expected:
            if shown == ANY:
                skips = True
                continue
            came = self.line()
            while skips and not like(shown, came):
                assert came, f"{shown!r} never came"
                came = self.line()
            assert like(shown, came), f"{came!r} is not {shown!r}"
            skips = False
        self._cut = skips

    def close(self):
        with suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.communicate()
        self._waiting.close()


class Desk:
    """All terminals of a page, by their names."""

    def __init__(self, folder, url):
        self._folder = folder
        self._url = url
        self._terminals = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for terminal in self._terminals.values():
            terminal.close()

    def plays(self, transcript):
        """Type what is typed, and compare what comes."""
        for name, command, shown in parts(transcript):
            terminal = self._terminals.get(name)
            if terminal is None:
                terminal = self._terminals[name] = Terminal(self._folder, self._url)
            if command:
                terminal.types(command)
            terminal.shows(shown)


def parts(transcript):
    """Take a transcript apart: terminal, command, and what is shown."""
    found = []
    for line in transcript.splitlines():
        prompt = PROMPT.match(line)
        if prompt is not None:
            found.append((prompt[1], prompt[2] or "", []))
        else:
            found[-1][2].append(line)
    return found
