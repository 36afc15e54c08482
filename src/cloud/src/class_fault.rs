//! Faults of a node class, as far as the object alone shows.

/// One field of a node class that the provider will not take, or that makes machines that no node comes of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassFault {
    /// Path of the field, `spec.userData`.
    pub field: &'static str,
    /// Fault of the field, and its consequence.
    pub problem: String,
    /// Text to write instead.
    pub remedy: &'static str,
    /// True if nothing is launched with it. If not, machines are launched and do not join the cluster.
    pub refused: bool,
}
