# Sourced by the scripts beside this folder.

# require COMMAND HOW: stops with one line that says what is missing and how to get it.
require() {
    command -v "$1" >/dev/null 2>&1 && return
    echo "missing: $1 ($2)" >&2
    exit 1
}

# require_python: stops with one line unless there is an interpreter that the emulated account can use. The same names and
# version as in e2e/src/prepare/python.rs, asked before a long build instead of after it.
require_python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        "$name" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && return
    done
    echo "missing: Python 3.11 or newer with venv (Debian, Ubuntu: apt-get install python3 python3-venv)" >&2
    exit 1
}

# require_go: stops with one line unless the control plane of the tests can be built, or is there.
require_go() {
    [ -n "${KUBEBUILDER_ASSETS:-}" ] ||
        require go "Go 1.25 or newer, or set KUBEBUILDER_ASSETS to a folder with etcd and the Kubernetes binaries"
}

# require_c_compiler: stops with one line unless there is one. ring and mimalloc have parts in C, and rustc links with it.
require_c_compiler() {
    require cc "a C compiler (Debian, Ubuntu: apt-get install build-essential; macOS: xcode-select --install)"
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

# require_for_tests: stops with one line unless there is what the tests are built with.
require_for_tests() {
    require_space 12
    require cargo "Rust 1.95 or newer: https://rustup.rs"
    require_python
    require_go
    require_c_compiler
}
