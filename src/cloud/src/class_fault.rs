//! What is wrong with a node class, as far as the object alone says.

/// One field of a node class that the provider will not take, or that makes machines that no node comes of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassFault {
    /// Path of the field, `spec.userData`.
    pub field: &'static str,
    /// What is wrong with it, and what follows.
    pub problem: String,
    /// What to write instead.
    pub remedy: &'static str,
    /// Whether nothing is launched with it. If not, machines are launched and do not join the cluster.
    pub refused: bool,
}
