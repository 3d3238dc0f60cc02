"""The terminal, asked and passed on by a process that has one of its own.

Keys that are pressed are tested with the supervisor.
"""

import os
import pty
import signal
import sys

from holdfast.cli.run_terminal import Terminal

WITH_ONE = """
import os, signal
from holdfast.cli.run_terminal import Terminal
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
terminal = Terminal()
assert terminal.is_ours()
other = os.fork()
if not other:
    signal.pause()
os.setpgid(other, other)
assert not terminal.take_back(other)
terminal.give(other)
assert terminal.foreground() == other
assert not terminal.is_ours()
assert terminal.take_back(other)
assert terminal.is_ours()
os.kill(other, signal.SIGKILL)
os.waitpid(other, 0)
terminal.give(other)
assert terminal.is_ours()
terminal.close()
terminal.close()
assert terminal.foreground() == 0
"""


def test_a_terminal_is_given_and_taken_back():
    pid, screen = pty.fork()
    if not pid:
        os.execv(sys.executable, [sys.executable, "-c", WITH_ONE])
    said = b""
    try:
        while data := os.read(screen, 4096):
            said += data
    except OSError:
        pass  # so a pseudo terminal tells that nobody has it open any more
    os.close(screen)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, said.decode()


def test_without_a_terminal_nobody_is_in_the_foreground():
    terminal = Terminal("/nonexistent/tty")
    assert (terminal.foreground(), terminal.is_ours(), terminal.take_back(0)) == (0, False, False)
    terminal.give(os.getpgrp())
    terminal.close()
    assert signal.getsignal(signal.SIGTTOU) is not None
