# Sourced by the scripts beside this folder.

# require COMMAND HOW: stops with one line that says what is missing and how to get it.
require() {
    command -v "$1" >/dev/null 2>&1 && return
    echo "missing: $1 ($2)" >&2
    exit 1
}
