//! Usability of a kubelet block: by any kubelet, by nodes of the family, and with expressions off
//! (spec aws-provider 1.4).

use karpenter_api::ec2nodeclass::{AmiFamily, Ec2NodeClassSpec, KubeletBlock};
use karpenter_model::names::reason;

use crate::class::expressions::Expressions;
use crate::image::family::{FamilyTraits, family_of};

/// The fields that all families but custom ones have a way to pass on.
const OF_EVERY_FAMILY: [&str; 12] = [
    "clusterDNS",
    "cpuCFSQuota",
    "evictionHard",
    "evictionMaxPodGracePeriod",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "kubeReserved",
    "maxPods",
    "podsPerCore",
    "systemReserved",
];

/// Reason why a block is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason of the condition.
    pub reason: &'static str,
    /// Description of the fault and its remedy.
    pub message: String,
}

/// The first reason to refuse the block of a class that needs no instance type, in the order of the reference.
pub fn refusal(spec: &Ec2NodeClassSpec, evaluates: bool) -> Option<Refusal> {
    let block = spec.kubelet.as_ref()?;
    let refused = |reason, problems: &[String], remedy: &str| {
        let message = format!("spec.kubelet: {}; {remedy}", problems.join(", "));
        (!problems.is_empty()).then_some(Refusal { reason, message })
    };
    let places = block.expressions().map(|(place, text)| format!("{place} is the expression `{text}`"));
    refused(reason::aws::KUBELET_INVALID, &block.problems(), "correct it")
        .or_else(|| {
            let remedy =
                "write numbers, or open the gate NodeClassCEL with settings.awsFeatureGates.nodeClassCEL";
            let disabled: Vec<String> = places.filter(|_| !evaluates).collect();
            refused(reason::aws::KUBELET_EXPRESSIONS_DISABLED, &disabled, remedy)
        })
        .or_else(|| {
            let invalid = Expressions::of(block).1;
            refused(reason::aws::KUBELET_EXPRESSION_INVALID, &invalid, "correct the expression")
        })
        .or_else(|| {
            let problems = unsupported(block, family_of(spec));
            refused(reason::aws::KUBELET_UNSUPPORTED, &problems, "remove it, or set it in spec.userData")
        })
}

/// Returns the faults of a block that no gate removes, for callers that have only the manifest.
pub(crate) fn problems(spec: &Ec2NodeClassSpec) -> Option<String> {
    refusal(spec, true).map(|refusal| refusal.message)
}

fn unsupported(block: &KubeletBlock, family: AmiFamily) -> Vec<String> {
    // AL2023 passes on what it is given, and how a custom image boots is its owner's business.
    if matches!(family, AmiFamily::AL2023 | AmiFamily::Custom) {
        return Vec::new();
    }
    let fields = block.fields().iter().filter(|(_, value)| !value.is_null());
    let takes = |field: &str| match field {
        "podsPerCore" => family.honours_pods_per_core(),
        field => OF_EVERY_FAMILY.contains(&field),
    };
    let mut problems: Vec<String> = fields
        .filter(|(field, _)| !takes(field))
        .map(|(field, _)| format!("{field} is not supported by {}", family.as_str()))
        .collect();
    problems.sort();
    let servers = block.fields().get("clusterDNS").and_then(serde_json::Value::as_array);
    if servers.is_some_and(|servers| servers.len() > 1) {
        problems.push(format!("clusterDNS has more than one address, and {} takes one", family.as_str()));
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn refused(family: AmiFamily, evaluates: bool, block: &Value) -> Option<(&'static str, String)> {
        let kubelet = serde_json::from_value(block.clone()).unwrap();
        let spec =
            Ec2NodeClassSpec { ami_family: Some(family), kubelet: Some(kubelet), ..Default::default() };
        refusal(&spec, evaluates).map(|refusal| (refusal.reason, refusal.message))
    }

    #[test]
    fn the_first_step_that_fails_is_the_reason() {
        use AmiFamily::{AL2, AL2023, Bottlerocket, Custom, Windows2022};
        let [invalid, disabled, expression, unsupported] = [
            "InvalidKubeletConfiguration",
            "KubeletExpressionsDisabled",
            "KubeletExpressionInvalid",
            "UnsupportedKubeletConfiguration",
        ];
        let any = json!({"cpuManagerPolicy": "static"});
        let (two, cores) = (json!({"clusterDNS": ["10.0.0.10", "10.0.0.11"]}), json!({"podsPerCore": 4}));
        let table: Vec<(AmiFamily, bool, Value, Option<&str>)> = vec![
            (AL2, false, json!({}), None),
            (
                AL2,
                false,
                json!({"maxPods": 20, "kubeReserved": {"cpu": "1"}, "cpuManagerPolicy": null}),
                None,
            ),
            (AL2023, false, json!({"maxPod": 20}), Some(invalid)),
            (Custom, false, json!({"maxPods": -1}), Some(invalid)),
            (AL2, false, json!({"maxPods": "vcpus +", "podPidsLimit": "a"}), Some(invalid)),
            (AL2023, false, json!({"maxPods": "vcpus +"}), Some(disabled)),
            (Bottlerocket, false, json!({"kubeReserved": {"memory": "11 * max_pods"}}), Some(disabled)),
            (AL2023, true, json!({"maxPods": "vcpus +"}), Some(expression)),
            (
                AL2,
                true,
                json!({"systemReserved": {"cpu": "instance_type"}, "podPidsLimit": 5}),
                Some(expression),
            ),
            (AL2023, true, json!({"maxPods": "vcpus * 8"}), None),
            (AL2, true, json!({"maxPods": "vcpus * 8", "podPidsLimit": 5}), Some(unsupported)),
            (AL2023, false, any.clone(), None),
            (Custom, false, any.clone(), None),
            (AL2, false, any.clone(), Some(unsupported)),
            (Bottlerocket, false, any.clone(), Some(unsupported)),
            (Windows2022, false, any, Some(unsupported)),
            (AL2023, false, two.clone(), None),
            (AL2, false, two.clone(), Some(unsupported)),
            (Bottlerocket, false, two, Some(unsupported)),
            (AL2, false, cores.clone(), None),
            (Windows2022, false, cores.clone(), None),
            (Bottlerocket, false, cores, Some(unsupported)),
        ];
        for (family, evaluates, block, reason) in table {
            let found = refused(family, evaluates, &block);
            assert_eq!(found.as_ref().map(|(reason, _)| *reason), reason, "{family:?} {block}: {found:?}");
        }
    }

    #[test]
    fn messages_name_every_field_and_the_next_step() {
        let block = json!({"topologyManagerPolicy": "restricted", "cpuManagerPolicy": "static"});
        let (_, message) = refused(AmiFamily::Bottlerocket, false, &block).unwrap();
        let want = "spec.kubelet: cpuManagerPolicy is not supported by Bottlerocket, topologyManagerPolicy is not \
                    supported by Bottlerocket; remove it, or set it in spec.userData";
        assert_eq!(message, want);
        let block = json!({"maxPods": "vcpus * 8"});
        let (_, message) = refused(AmiFamily::AL2023, false, &block).unwrap();
        let want = "spec.kubelet: maxPods is the expression `vcpus * 8`; write numbers, or open the gate NodeClassCEL \
                    with settings.awsFeatureGates.nodeClassCEL";
        assert_eq!(message, want);
    }
}
