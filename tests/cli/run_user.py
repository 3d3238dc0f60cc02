"""Whoever types `holdfast run`: the real command in a process of its own, against a real server.

No expectation lives here.
"""

import os
import re
import signal
import subprocess
import sys

WAIT_S_MAX = 60.0


def command_line(*arguments):
    """Spell the command line."""
    return [sys.executable, "-m", "holdfast", "run", *map(str, arguments)]


def environment(url):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return kept | {"HOLDFAST_SERVER": url}


class Run:
    """One `holdfast run`, under way."""

    def __init__(self, url, *arguments, **popen):
        self.process = subprocess.Popen(
            command_line(*arguments),
            env=environment(url),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **({"stdin": subprocess.DEVNULL} | popen),
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def line(self):
        """Read a line that the command has written."""
        return self.process.stdout.readline().rstrip("\n")

    def told(self, text):
        """Read what we are told until this text comes; answers the line that has it."""
        while text not in (line := self.process.stderr.readline()):
            assert line, f"{text!r} was never told"
        return line.rstrip("\n")

    def signal(self, number):
        self.process.send_signal(number)

    def interrupt(self):
        self.signal(signal.SIGINT)

    def wait(self):
        """Wait for the end; answers exit code, output, and what was told."""
        out, err = self.process.communicate(timeout=WAIT_S_MAX)
        return self.process.returncode, out, err


def run(url, *arguments):
    """Type it, and wait for the end; answers exit code, output, and what was told."""
    with Run(url, *arguments) as started:
        return started.wait()


def variables(out):
    """Read what `env` has printed."""
    return dict(re.findall(r"^(HOLDFAST_\w+)=(.*)$", out, re.MULTILINE))
