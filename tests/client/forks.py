"""A child of a fork, for tests: it does one thing, says what came of it, and is gone.

No expectation lives here.
"""

import os
from collections.abc import Callable
from contextlib import suppress


def in_child(work: Callable[[], object]) -> str:
    """Do something in a child of a fork; give what came of it, as text."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with suppress(BaseException):  # whatever it is, this is the end of the child
            try:
                said = repr(work())
            except Exception as error:  # noqa: BLE001  the parent looks at it
                said = repr(error)
            os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with open(read) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said
