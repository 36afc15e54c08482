//! The part of a scheduler's configuration that a plan needs: the spread of pods that have none of their own
//! (core #3205).
//!
//! ```yaml
//! podTopologySpread:
//!   defaultConstraints:
//!   - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}
//! ```

use std::collections::BTreeSet;

use karpenter_model::pod::affinity::{NodeInclusion, WhenUnsatisfiable};
use karpenter_model::requirement::syntax::is_qualified_name;
use karpenter_model::settings::DefaultSpread;
use serde::Deserialize;
use serde_json::Value;

use crate::yaml;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct SchedulerConfig {
    pod_topology_spread: PodTopologySpread,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PodTopologySpread {
    default_constraints: Vec<Constraint>,
}

/// A constraint as in the API of pods.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Constraint {
    max_skew: i64,
    topology_key: String,
    when_unsatisfiable: String,
    label_selector: Option<Value>,
    match_label_keys: Option<Vec<String>>,
    min_domains: Option<i64>,
    node_affinity_policy: Option<String>,
    node_taints_policy: Option<String>,
}

/// The default constraints in `text`, which is YAML or JSON; none when it is empty.
///
/// # Errors
/// What is wrong, with the number of the constraint.
pub fn default_constraints(text: &str) -> Result<Vec<DefaultSpread>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let config: SchedulerConfig = serde_saphyr::from_str_with_options(text, yaml::options())
        .map_err(|error| format!("a scheduler configuration: {error}"))?;
    let mut seen: BTreeSet<(String, WhenUnsatisfiable)> = BTreeSet::new();
    let mut read = Vec::new();
    for (number, constraint) in config.pod_topology_spread.default_constraints.into_iter().enumerate() {
        let at = |problem: String| format!("podTopologySpread.defaultConstraints[{number}].{problem}");
        let spread = spread(&constraint).map_err(at)?;
        if !seen.insert((constraint.topology_key, spread.when_unsatisfiable)) {
            return Err(at("topologyKey with a whenUnsatisfiable that no other constraint has".to_owned()));
        }
        read.push(spread);
    }
    Ok(read)
}

fn spread(written: &Constraint) -> Result<DefaultSpread, String> {
    let refuse = |text: &str| Err(text.to_owned());
    let Some(max_skew) = u32::try_from(written.max_skew).ok().filter(|skew| *skew > 0) else {
        return refuse("maxSkew of at least 1");
    };
    if !is_qualified_name(&written.topology_key) {
        return refuse("topologyKey that is the key of a label");
    }
    let when_unsatisfiable = match written.when_unsatisfiable.as_str() {
        "DoNotSchedule" => WhenUnsatisfiable::DoNotSchedule,
        "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
        _ => return refuse("whenUnsatisfiable that is DoNotSchedule or ScheduleAnyway"),
    };
    if written.label_selector.is_some() {
        return refuse("labelSelector left out: what selects the pods follows from their owner and Services");
    }
    if written.match_label_keys.is_some() {
        return refuse(
            "matchLabelKeys left out: what selects the pods follows from their owner and Services",
        );
    }
    let min_domains = match written.min_domains {
        None => None,
        Some(number) => match u32::try_from(number).ok().filter(|number| *number > 0) {
            Some(number) => Some(number),
            None => return refuse("minDomains of at least 1"),
        },
    };
    let inclusion = |text: &Option<String>, default, field: &str| match text.as_deref() {
        None => Ok(default),
        Some("Honor") => Ok(NodeInclusion::Honor),
        Some("Ignore") => Ok(NodeInclusion::Ignore),
        Some(_) => Err(format!("{field} that is Honor or Ignore")),
    };
    let spread = DefaultSpread::new(written.topology_key.as_str().into(), max_skew, when_unsatisfiable);
    let affinity =
        inclusion(&written.node_affinity_policy, spread.node_affinity_policy, "nodeAffinityPolicy")?;
    let taints = inclusion(&written.node_taints_policy, spread.node_taints_policy, "nodeTaintsPolicy")?;
    Ok(DefaultSpread { min_domains, node_affinity_policy: affinity, node_taints_policy: taints, ..spread })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_and_json_are_read() {
        let yaml = "podTopologySpread:\n  defaultConstraints:\n  - maxSkew: 3\n    topologyKey: topology.kubernetes.io/zone\n    whenUnsatisfiable: ScheduleAnyway\n";
        let json = r#"{"podTopologySpread": {"defaultConstraints": [
            {"maxSkew": 3, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}]}}"#;
        let zone = "topology.kubernetes.io/zone".into();
        let want = DefaultSpread::new(zone, 3, WhenUnsatisfiable::ScheduleAnyway);
        for text in [yaml, json] {
            assert_eq!(default_constraints(text), Ok(vec![want.clone()]));
        }
        for nothing in ["", " \n", "{}", "podTopologySpread: {}"] {
            assert_eq!(default_constraints(nothing), Ok(Vec::new()), "{nothing:?}");
        }
    }

    #[test]
    fn each_mistake_is_named() {
        let two = "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}";
        let table = [
            ("{topologyKey: zone, whenUnsatisfiable: DoNotSchedule}", "[0].maxSkew"),
            ("{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}", "[0].maxSkew"),
            ("{maxSkew: 1, whenUnsatisfiable: DoNotSchedule}", "[0].topologyKey"),
            ("{maxSkew: 1, topologyKey: a b, whenUnsatisfiable: DoNotSchedule}", "[0].topologyKey"),
            ("{maxSkew: 1, topologyKey: zone}", "[0].whenUnsatisfiable"),
            ("{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Never}", "[0].whenUnsatisfiable"),
            (
                "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}",
                "labelSelector",
            ),
            (
                "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [a]}",
                "matchLabelKeys",
            ),
            (
                "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 0}",
                "minDomains",
            ),
            (
                "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: No}",
                "nodeTaintsPolicy",
            ),
            ("{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, other: 1}", "other"),
            (&format!("{two}, {two}"), "[1].topologyKey"),
        ];
        for (constraints, part) in table {
            let text = format!("podTopologySpread: {{defaultConstraints: [{constraints}]}}");
            let error = default_constraints(&text).unwrap_err();
            assert!(error.contains(part), "{constraints}: {error}");
        }
        for text in ["- a", "podTopologySpread: 1", "other: {}", "{"] {
            assert!(default_constraints(text).is_err(), "{text}");
        }
        let both = "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}";
        let text = format!("podTopologySpread: {{defaultConstraints: [{two}, {both}]}}");
        assert_eq!(
            default_constraints(&text).map(|all| all.len()),
            Ok(2),
            "a hard and a soft one of one key"
        );
    }
}
