"""The command of `holdfast run` in a lease trial: it shows that it lives, all the time, and will not be asked to end.

It is started by its path and imports little, so that it is there quickly.
"""

import mmap
import signal
import sys
import time

LOOK_S = 0.002


def main() -> None:
    """Write the time into a file, again and again, until somebody puts an end to it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(sys.argv[1], "r+b") as file:
        page = memoryview(mmap.mmap(file.fileno(), mmap.PAGESIZE)).cast("q")
    while True:
        page[0] = time.monotonic_ns()
        time.sleep(LOOK_S)


if __name__ == "__main__":
    main()
