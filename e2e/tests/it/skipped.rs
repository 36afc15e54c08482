//! Tests that this machine lacks something for: they say so, are counted, and fail where that is wanted.

use std::io::Write;

/// Says on standard error, past the test runner's capture, that a test did not run; `scripts/test` counts these lines.
/// `lacks` is one word. A machine that must have it says so in `REQUIRE`, e.g. `REQUIRE=docker,terraform`: then it is a
/// failure.
pub(crate) fn skip(test: &str, lacks: &str, why: &str) {
    assert!(!required(lacks), "{test}: REQUIRE names `{lacks}`, but {why}");
    // A line that cannot be written is no reason to fail.
    let _ = writeln!(std::io::stderr(), "\nskipped: {test}: {why}");
}

/// Returns whether `REQUIRE` has this word.
pub(crate) fn required(name: &str) -> bool {
    is_required(&std::env::var("REQUIRE").unwrap_or_default(), name)
}

fn is_required(list: &str, name: &str) -> bool {
    list.split(',').any(|required| required.trim() == name)
}

#[test]
fn what_must_be_there_is_a_list_of_words() {
    assert!(is_required("docker, terraform", "terraform") && is_required("docker", "docker"));
    assert!(!is_required("", "docker") && !is_required("docker-compose", "docker"));
}
