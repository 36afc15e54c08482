# Sourced by the scripts beside this folder.

# require COMMAND HOW: stops with one line that says what is missing and how to get it.
require() {
    command -v "$1" >/dev/null 2>&1 && return
    echo "missing: $1 ($2)" >&2
    exit 1
}

# require_space GIB: stops with one line when there is less room for a first build.
require_space() {
    [ ! -d target/debug ] || return 0
    local free
    free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')
    [ "$free" -lt "$1" ] || return 0
    echo "missing: $1 GiB of free disk for the first build ($free GiB are free here)" >&2
    exit 1
}
