//! Standard output of commands that report. Its reader may close it at any time.

use std::io::{self, ErrorKind, Write};

/// Exit code that a shell reports of a process that a closed pipe has ended, for [`Unwritten::Closed`].
pub const SIGPIPE: u8 = 128 + 13;

/// Reason why text was not written.
#[derive(Debug, thiserror::Error)]
pub enum Unwritten {
    /// The reader, `head` for one, has read enough. No failure to report.
    #[error("standard output is closed")]
    Closed,
    /// Anything else, such as a full disk.
    #[error("cannot write to standard output")]
    Failed(#[source] io::Error),
}

/// Writes all of `text`.
///
/// # Errors
/// When that does not work; a command that gets [`Unwritten::Closed`] has nothing more to do.
pub fn print(text: &str) -> Result<(), Unwritten> {
    io::stdout().write_all(text.as_bytes()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Unwritten::Closed,
        _ => Unwritten::Failed(error),
    })
}
