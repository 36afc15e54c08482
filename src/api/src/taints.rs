//! Taints we put on nodes and taints we see through while a node starts (spec scheduling 2).

use k8s_openapi::api::core::v1::Taint;

pub const NO_SCHEDULE: &str = "NoSchedule";
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
pub const NO_EXECUTE: &str = "NoExecute";

/// Key of the taint on nodes being disrupted or terminated, with effect [`NO_SCHEDULE`].
pub const DISRUPTED: &str = "karpenter.sh/disrupted";
/// Key of the taint on nodes from boot to registration, with effect [`NO_EXECUTE`].
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";
/// Prefix of the keys the node readiness controller uses; any effect.
pub const READINESS_PREFIX: &str = "readiness.k8s.io/";

/// Key and effect of taints that go away by themselves while a node starts; values do not matter.
pub const EPHEMERAL: [(&str, &str); 5] = [
    ("node.kubernetes.io/not-ready", NO_SCHEDULE),
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_SCHEDULE),
    ("node.cloudprovider.kubernetes.io/uninitialized", NO_SCHEDULE),
    (UNREGISTERED, NO_EXECUTE),
];

/// `karpenter.sh/disrupted:NoSchedule`
pub fn disrupted() -> Taint {
    without_value(DISRUPTED, NO_SCHEDULE)
}

/// `karpenter.sh/unregistered:NoExecute`
pub fn unregistered() -> Taint {
    without_value(UNREGISTERED, NO_EXECUTE)
}

/// Whether the taint is one that goes away by itself while a node starts.
pub fn is_ephemeral(key: &str, effect: &str) -> bool {
    key.starts_with(READINESS_PREFIX) || EPHEMERAL.contains(&(key, effect))
}

fn without_value(key: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), effect: effect.to_owned(), value: None, time_added: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ephemeral_taints_match_key_and_effect() {
        assert!(is_ephemeral("node.kubernetes.io/not-ready", NO_EXECUTE));
        assert!(!is_ephemeral("node.kubernetes.io/unreachable", NO_EXECUTE));
        assert!(is_ephemeral("readiness.k8s.io/cni", PREFER_NO_SCHEDULE));
        assert!(!is_ephemeral(DISRUPTED, NO_SCHEDULE));
    }
}
