"""How a command becomes a process: a group of its own, the signals as they were, and the kernel told whom it follows.

What becomes of it later is not known here.
"""

import errno
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from holdfast.cli.run_kernel import die_with_parent

EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127

# Python ignores these from its start; a command expects them as they come.
_PYTHON_IGNORES = (signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE))


class NotStarted(Exception):
    """The command could not be started; a shell's exit code for it, and why."""

    def __init__(self, exit_code: int, detail: str) -> None:
        super().__init__(detail)
        self.exit_code = exit_code
        self.detail = detail


def ignored_signals() -> set[int]:
    """List the signals that whoever started us wants ignored, as nohup does; to be called before we change any."""
    found = {number for number in signal.valid_signals() if signal.getsignal(number) == signal.SIG_IGN}
    return {int(number) for number in found} - {int(number) for number in _PYTHON_IGNORES}


def start(command: Sequence[str], environ: Mapping[str, str], ignored: Iterable[int]) -> int:
    """Start a command as our child, at the head of a process group of its own; answers its pid or raises NotStarted."""
    reader, writer = os.pipe()
    ours = os.getpid()
    pid = os.fork()
    if not pid:
        os.close(reader)
        _become(command, environ, set(ignored), ours, writer)
    os.close(writer)
    with suppress(OSError):  # it has done so itself and gone on, or ended already
        os.setpgid(pid, pid)
    with open(reader, "rb") as trouble:
        told = trouble.read()
    if told:
        os.waitpid(pid, 0)
        raise not_started(command[0], int(told))
    return pid


def _become(
    command: Sequence[str], environ: Mapping[str, str], ignored: set[int], parent: int, trouble: int
) -> NoReturn:
    """Turn into the command; what goes wrong is told through the pipe, which a command that starts never sees."""
    code = errno.EINVAL
    try:
        os.setpgid(0, 0)
        # Should the guardian be killed, nobody would watch the deadline any more.
        die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(EXIT_NOT_FOUND)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            with suppress(OSError):  # the C library keeps some for itself
                signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.execvpe(command[0], list(command), dict(environ))
    except OSError as error:
        code = error.errno or code
    except ValueError:
        pass  # a NUL in an argument; EINVAL says so
    finally:
        os.write(trouble, str(code).encode())
        os._exit(EXIT_NOT_FOUND)


def not_started(program: str, code: int) -> NotStarted:
    """Make of an error of exec what a shell would make of it."""
    missing = code in (errno.ENOENT, errno.ENOTDIR)
    return NotStarted(EXIT_NOT_FOUND if missing else EXIT_NOT_EXECUTABLE, f"{program}: {os.strerror(code)}")


def look_for(program: str, environ: Mapping[str, str]) -> None:
    """Raise NotStarted if there is no such program now, so that nobody waits for a lock in vain."""
    path = os.get_exec_path(dict(environ))
    places = [program] if "/" in program else [os.path.join(folder, program) for folder in path]
    if not program or not any(os.path.isfile(place) for place in places):
        raise not_started(program, errno.EACCES if program and os.path.isdir(program) else errno.ENOENT)
    if not any(os.path.isfile(place) and os.access(place, os.X_OK) for place in places):
        raise not_started(program, errno.EACCES)
