# Sourced by the scripts beside this folder.
#
# Clippy's driver is the compiler with more lints. As the wrapper of our own crates it makes one build serve for running,
# testing and linting: `cargo clippy` would check everything again, the AWS SDK included. Other crates are not affected.

# A toolchain without clippy builds as well; only scripts/test insists on it.
driver=$(rustc --print sysroot)/bin/clippy-driver
[ ! -x "$driver" ] || export RUSTC_WORKSPACE_WRAPPER="$driver"

# The scripts start what they have built from this folder, wherever a developer's own settings put other builds.
export CARGO_TARGET_DIR=$PWD/target

# build [OPTION...]: builds the whole workspace. The selection of packages is the same everywhere, because features are
# resolved for the selection: another one would compile the AWS SDK a second time.
build() {
    cargo build --workspace "$@"
}
