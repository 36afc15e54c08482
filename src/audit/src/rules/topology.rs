//! Rules about other pods: affinity, anti-affinity and spread (spec scheduling 18).

pub(crate) mod anti_affinity;
pub(crate) mod pod_affinity;
pub(crate) mod spread;
