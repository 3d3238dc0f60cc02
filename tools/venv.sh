#!/bin/sh
# Make the virtual environment .venv, or bring it up to date, with the exact versions of constraints.txt.
# usage: tools/venv.sh EXTRA...        (extras of pyproject.toml, such as dev; run from the repository's root)
set -eu

new_enough() {
    command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))'
}

find_python() {
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "Holdfast needs Python 3.11 or newer, and found none. Install, on Debian or Ubuntu:" \
        "sudo apt-get install python3 python3-venv; or name one: make PYTHON=/path/to/python3" >&2
    exit 1
}

# Debian ships Python without the part that makes virtual environments.
need_ensurepip() {
    if "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        return
    fi
    package="python$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    "$(dirname "$0")/need.sh" "$package"
}

# A virtual environment whose Python has gone, or is too old, is made anew.
if ! new_enough .venv/bin/python; then
    python=$(find_python)
    need_ensurepip "$python"
    "$python" -m venv --clear .venv
fi

extras=$(echo "$@" | tr ' ' ',')
.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$extras]"
