//! What a pass leaves behind for the next one. Lost on a restart, and nothing breaks then.

/// Carried from pass to pass by whoever calls [`decide`](crate::disrupt::decide).
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// How many passes there were.
    passes: u64,
}

impl Memory {
    /// Takes note of a pass.
    pub(crate) fn begin(&mut self) {
        self.passes += 1;
    }
}
