//! Output of a failed command: what was attempted, then each cause on a line of its own.

use std::io::Write;

/// Writes an error and its chain of causes to standard error.
pub(crate) fn print(error: &anyhow::Error) {
    // Nothing sensible is left to do when standard error itself is gone.
    let _ = std::io::stderr().write_all(render(error).as_bytes());
}

fn render(error: &anyhow::Error) -> String {
    let mut text = format!("error: {error}\n");
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // Some libraries repeat their causes.
        if !text.contains(&cause) {
            text.push_str(&format!("  because: {cause}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_own_line() {
        let error = anyhow::anyhow!("connection refused").context("cannot reach the API server");
        let said = "error: cannot reach the API server\n  because: connection refused\n";
        assert_eq!(render(&error), said);
        let twice =
            anyhow::anyhow!("refused").context("connection refused").context("cannot reach the API server");
        assert_eq!(render(&twice), said, "a cause that was said already is left out");
    }
}
