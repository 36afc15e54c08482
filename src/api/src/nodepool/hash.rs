//! The drift hash of a NodePool's template, version `v3` (spec scheduling 7).
//!
//! Covers what a launched node cannot change any more, but neither requirements (drift compares labels
//! instead) nor disruption, limits, weight or replicas.

use std::time::Duration as Span;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karpenter_model::NodeClassRef;

use super::{NodeClaimTemplate, NodeClaimTemplateSpec, NodePool, TemplateMetadata};
use crate::hash::{Struct, bytes, duration, list, map};

/// Seconds from the year 1 to 1970, the epoch of Go's binary time.
const UNIX_EPOCH_FROM_YEAR_ONE: i64 = 62_135_596_800;

impl NodePool {
    /// The decimal text stored in [`karpenter_model::names::annotation::POOL_HASH`].
    pub fn hash(&self) -> String {
        template(&self.spec.template).to_string()
    }
}

fn template(t: &NodeClaimTemplate) -> u64 {
    Struct::new("NodeClaimTemplate")
        .field("ObjectMeta", t.metadata.as_ref().and_then(metadata))
        .field("Spec", Some(spec(&t.spec)))
        .value()
}

/// `None` for the zero value.
fn metadata(m: &TemplateMetadata) -> Option<u64> {
    (m.labels.is_some() || m.annotations.is_some()).then(|| {
        Struct::new("ObjectMeta")
            .field("Labels", m.labels.as_ref().map(map))
            .field("Annotations", m.annotations.as_ref().map(map))
            .value()
    })
}

fn spec(s: &NodeClaimTemplateSpec) -> u64 {
    // A duration that cannot be read counts as absent; runtime validation reports it.
    let grace = s.termination_grace_period.as_ref().and_then(|d| d.span().ok());
    let expire: Option<Span> = s.expire_after.span().ok().flatten();
    Struct::new("NodeClaimTemplateSpec")
        .field("Taints", s.taints.as_ref().map(|t| list(t, taint)))
        .field("StartupTaints", s.startup_taints.as_ref().map(|t| list(t, taint)))
        .field("NodeClassRef", Some(node_class_ref(&s.node_class_ref)))
        .field("TerminationGracePeriod", grace.map(|d| duration("Duration", d)))
        .field("ExpireAfter", expire.map(|d| duration("NillableDuration", d)))
        .value()
}

fn node_class_ref(r: &NodeClassRef) -> u64 {
    Struct::new("NodeClassReference")
        .text("Kind", &r.kind)
        .text("Name", &r.name)
        .text("Group", &r.group)
        .value()
}

fn taint(t: &Taint) -> u64 {
    Struct::new("Taint")
        .text("Key", &t.key)
        .text("Value", t.value.as_deref().unwrap_or_default())
        .text("Effect", &t.effect)
        .field("TimeAdded", t.time_added.as_ref().map(time))
        .value()
}

/// Go's binary form of an instant in a container whose local zone is UTC: version, seconds since the year 1,
/// nanoseconds, offset in minutes; big-endian.
fn time(t: &Time) -> u64 {
    let seconds = t.0.as_second() + UNIX_EPOCH_FROM_YEAR_ONE;
    let mut binary = vec![1];
    binary.extend(seconds.to_be_bytes());
    binary.extend(t.0.subsec_nanosecond().to_be_bytes());
    binary.extend(0i16.to_be_bytes());
    Struct::new("Time").field("Time", Some(bytes(&binary))).value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duration::{Duration, NillableDuration};

    fn pool(kind: &str, group: &str, expire_after: &str) -> NodePool {
        let mut pool = NodePool::default();
        pool.spec.template.spec.node_class_ref =
            NodeClassRef { group: group.into(), kind: kind.into(), name: "default".into() };
        pool.spec.template.spec.expire_after = NillableDuration::from(expire_after);
        pool
    }

    fn test_pool() -> NodePool {
        pool("TestNodeClass", "karpenter.test.sh", "720h")
    }

    fn taints<const N: usize>(taints: [(&str, &str, &str); N]) -> Vec<Taint> {
        let taint = |(key, value, effect): (&str, &str, &str)| Taint {
            key: key.into(),
            value: (!value.is_empty()).then(|| value.into()),
            effect: effect.into(),
            time_added: None,
        };
        taints.map(taint).into()
    }

    fn labels<const N: usize>(pairs: [(&str, &str); N]) -> std::collections::BTreeMap<String, String> {
        pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).into()
    }

    fn with(change: impl FnOnce(&mut NodeClaimTemplate)) -> NodePool {
        let mut pool = test_pool();
        change(&mut pool.spec.template);
        pool
    }

    fn case_f(t: &mut NodeClaimTemplate) {
        t.spec.taints = Some(taints([("k", "v", "NoSchedule"), ("k2", "", "NoExecute")]));
        t.spec.startup_taints = Some(taints([("s", "", "NoSchedule")]));
    }

    #[test]
    fn matches_the_vectors_of_the_reference() {
        let metadata = |labels, annotations| Some(TemplateMetadata { labels: Some(labels), annotations });
        let team = || labels([("team", "a"), ("env", "prod")]);
        let cases = [
            ("A", pool("TestNodeClass", "karpenter.test.sh", "Never"), "5568174970230275839"),
            ("B", test_pool(), "15987417032968393143"),
            ("B, empty labels", with(|t| t.metadata = metadata(labels([]), None)), "1650812449358321585"),
            ("C", with(|t| t.metadata = metadata(team(), None)), "5935095268673520524"),
            (
                "C, annotations",
                with(|t| t.metadata = metadata(team(), Some(labels([("x", "y")])))),
                "12688448644804682255",
            ),
            (
                "B, taint",
                with(|t| t.spec.taints = Some(taints([("k", "v", "NoSchedule")]))),
                "18430992984704269117",
            ),
            ("F", with(case_f), "3679222886573578142"),
            (
                "F, grace period",
                with(|t| {
                    case_f(t);
                    t.spec.termination_grace_period = Some(Duration::from("1h"));
                }),
                "10013420372598735026",
            ),
            ("AWS", pool("EC2NodeClass", "karpenter.k8s.aws", "720h"), "6821555240594823858"),
            ("KWOK", pool("KWOKNodeClass", "karpenter.kwok.sh", "720h"), "12745407319442031341"),
        ];
        for (name, pool, hash) in cases {
            assert_eq!(pool.hash(), hash, "case {name}");
        }
    }

    #[test]
    fn spelling_of_a_duration_does_not_matter() {
        let spelled = pool("TestNodeClass", "karpenter.test.sh", "719h60m");
        assert_eq!(spelled.hash(), test_pool().hash());
    }

    #[test]
    fn order_of_taints_does_not_matter() {
        let mut swapped = with(case_f);
        swapped.spec.template.spec.taints.as_mut().unwrap().reverse();
        assert_eq!(swapped.hash(), with(case_f).hash());
    }

    #[test]
    fn fields_that_are_not_static_do_not_count() {
        let mut changed = test_pool();
        changed.spec.weight = Some(10);
        changed.spec.replicas = Some(3);
        changed.spec.limits = Some([("cpu".to_owned(), "10".into())].into());
        changed.spec.disruption = serde_json::from_value(serde_json::json!({})).unwrap();
        assert_eq!(changed.hash(), test_pool().hash(), "a pool that leaves out `consolidateAfter`");
        changed.spec.disruption.consolidate_after = NillableDuration::never();
        changed.spec.template.spec.requirements =
            vec![crate::Requirement::new("a", crate::Operator::Exists, [])];
        assert_eq!(changed.hash(), test_pool().hash());
    }

    #[test]
    fn time_added_counts() {
        let mut stamped = with(case_f);
        let taint = &mut stamped.spec.template.spec.taints.as_mut().unwrap()[0];
        taint.time_added = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert_ne!(stamped.hash(), with(case_f).hash());
    }
}
