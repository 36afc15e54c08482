//! The end of a log file, for error messages.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Enough for the last lines of any log we read, however large the file has become.
const WINDOW_BYTES: u64 = 64 * 1024;

/// The last `lines` lines of `path`, each indented by two spaces; a reason in brackets if there are none.
pub fn tail(path: &Path, lines: usize) -> String {
    match window(path) {
        Err(error) => format!("  [cannot be read: {error}]"),
        Ok(text) if text.trim().is_empty() => "  [empty]".to_owned(),
        Ok(text) => {
            let all: Vec<&str> = text.lines().collect();
            let first = all.len().saturating_sub(lines);
            all[first..].iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
        }
    }
}

fn window(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(WINDOW_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_last_lines_indented() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
        assert_eq!(tail(&path, 2), "  two\n  three");
        assert_eq!(tail(&path, 9), "  one\n  two\n  three");
    }

    #[test]
    fn says_why_there_is_nothing_to_show() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        assert!(tail(&path, 3).starts_with("  [cannot be read"));
        std::fs::write(&path, "\n").unwrap();
        assert_eq!(tail(&path, 3), "  [empty]");
    }
}
