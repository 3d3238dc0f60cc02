#!/bin/sh
# Make sure that the programs named are here: install the missing ones where we may, else say exactly what to install.
# usage: tools/need.sh PROGRAM...      (each one is named here with the Debian package that brings it)
set -eu

package_of() {
    case "$1" in
        cc) echo "gcc libc6-dev" ;;
        initdb) echo "postgresql" ;;
        mariadbd) echo "mariadb-server" ;;
        nc) echo "netcat-openbsd" ;;
        node) echo "nodejs" ;;
        *) echo "$1" ;;
    esac
}

# Debian keeps some programs where only their own services look.
found() {
    command -v "$1" >/dev/null 2>&1 && return
    for place in "/usr/sbin/$1" /usr/lib/postgresql/*/bin/"$1"; do
        [ -x "$place" ] && return
    done
    return 1
}

missing=""
packages=""
for program in "$@"; do
    if ! found "$program"; then
        missing="$missing $program"
        packages="$packages $(package_of "$program")"
    fi
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq
    # shellcheck disable=SC2086  # one word is one package
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
else
    echo "Not found:$missing. Install, on Debian or Ubuntu: sudo apt-get install$packages" >&2
    exit 1
fi
