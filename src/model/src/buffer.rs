//! Capacity buffers: room for pods that do not exist yet, as planning needs it (spec scheduling 6).

use crate::id::BufferKey;
use crate::resources::Resources;

/// One buffer, as its author wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buffer {
    /// Namespace and name.
    pub key: BufferKey,
    /// Object uid; those of its virtual pods begin with it.
    pub uid: String,
    /// Object that its pods are like; `None` when the author names nothing.
    pub like: Option<Like>,
    /// A fixed number of pods.
    pub replicas: Option<u32>,
    /// Pods per hundred replicas of the workload they are like; may exceed 100.
    pub percentage: Option<u32>,
    /// Largest sum of the requests of its pods.
    pub limits: Option<Resources>,
}

/// The object, in the namespace of the buffer, that defines its pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Like {
    PodTemplate(String),
    /// A workload with a template and a number of replicas.
    Workload {
        /// API group; empty means `apps`.
        group: String,
        kind: String,
        name: String,
    },
}
