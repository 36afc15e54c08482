//! Faults of an EC2NodeClass that are found by neither its schema nor a request to AWS: user data that cannot be rendered
//! or is of another family, an ARN or a path where IAM takes a name, images of another family.

use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::{AmiFamily, Ec2NodeClassSpec, InstanceStorePolicy};
use karpenter_cloud::ClassFault;
use serde_json::Value;

use crate::class::kubelet;
use crate::image::family::family_of;
use crate::userdata::{self, Bootstrap, LIMIT_BYTES};

const USER_DATA: &str = "spec.userData";

/// Names of the public images of a family begin like this; the longest that fits counts.
const NAMES: [(&str, AmiFamily); 8] = [
    ("amazon-eks-node-", AmiFamily::AL2),
    ("amazon-eks-gpu-node-", AmiFamily::AL2),
    ("amazon-eks-arm64-node-", AmiFamily::AL2),
    ("amazon-eks-node-al2023-", AmiFamily::AL2023),
    ("bottlerocket-aws-k8s-", AmiFamily::Bottlerocket),
    ("Windows_Server-2019-", AmiFamily::Windows2019),
    ("Windows_Server-2025-", AmiFamily::Windows2025),
    ("Windows_Server-2022-", AmiFamily::Windows2022),
];

/// Everything that is wrong with a class; nothing of one that cannot be read, which its schema refuses.
pub fn faults(class: &Value) -> Vec<ClassFault> {
    let Ok(class) = serde_json::from_value::<EC2NodeClass>(class.clone()) else { return Vec::new() };
    let (spec, family) = (&class.spec, family_of(&class.spec));
    let all = [
        profile(spec),
        of_kubelet(spec),
        rendered(spec, family),
        of_family(spec, family),
        overruled(spec, family),
        images(spec, family),
    ];
    all.into_iter().flatten().collect()
}

/// <https://github.com/aws/karpenter-provider-aws/issues/8312>
fn profile(spec: &Ec2NodeClassSpec) -> Option<ClassFault> {
    let profile = spec.instance_profile.as_deref().filter(|profile| profile.contains('/'))?;
    let kind = if profile.starts_with("arn:") { "is an ARN" } else { "has a path" };
    Some(ClassFault {
        field: "spec.instanceProfile",
        problem: format!("`{profile}` {kind}, which EC2 refuses as the name of an instance profile"),
        remedy: "write what follows the last `/` of it",
        refused: true,
    })
}

/// Returns the fault of the kubelet block. The gate of expressions is not known here, so it counts as open.
fn of_kubelet(spec: &Ec2NodeClassSpec) -> Option<ClassFault> {
    let problem = kubelet::problems(spec)?;
    let remedy = "write what kubelet.config.k8s.io/v1beta1 has and the family takes";
    Some(ClassFault { field: "spec.kubelet", problem, remedy, refused: true })
}

fn rendered(spec: &Ec2NodeClassSpec, family: AmiFamily) -> Option<ClassFault> {
    let block = spec.kubelet.clone().unwrap_or_default();
    let bootstrap = Bootstrap {
        kubelet: block.settings(),
        block,
        custom: spec.user_data.clone(),
        raid0: spec.instance_store_policy == Some(InstanceStorePolicy::RAID0),
        ..Bootstrap::default()
    };
    let (problem, remedy) = match userdata::render(family, &bootstrap) {
        // A parser draws the place over several lines.
        Err(error) => (error.to_string().split_whitespace().collect::<Vec<_>>().join(" "), "correct it"),
        // A real cluster and its labels only add bytes.
        Ok(text) if text.len() > LIMIT_BYTES => (
            format!("with what every node needs it has {} bytes, and EC2 takes {LIMIT_BYTES}", text.len()),
            "shorten it, or load the larger part of it from elsewhere at boot",
        ),
        Ok(_) => return None,
    };
    Some(ClassFault { field: USER_DATA, problem, remedy, refused: true })
}

/// User data for the agent of another family, which the family in effect runs as a script or does not recognise
/// (<https://github.com/aws/karpenter-provider-aws/issues/8220>).
fn of_family(spec: &Ec2NodeClassSpec, family: AmiFamily) -> Option<ClassFault> {
    let text = spec.user_data.as_deref()?;
    let (problem, remedy) = match family {
        AmiFamily::AL2023 if text.contains("/etc/eks/bootstrap.sh") => (
            "images of AL2023 have no /etc/eks/bootstrap.sh: the script fails",
            "write a NodeConfig, or set amiFamily to AL2",
        ),
        _ => return None,
    };
    Some(ClassFault { field: USER_DATA, problem: problem.to_owned(), remedy, refused: false })
}

/// The launch goes on, with other values than those that are written.
fn overruled(spec: &Ec2NodeClassSpec, family: AmiFamily) -> Option<ClassFault> {
    let problem = userdata::overruled::caveat(family, spec)?;
    Some(ClassFault { field: USER_DATA, problem, remedy: "take the settings out of it", refused: false })
}

/// Images that are selected by the name of those of another family
/// (<https://github.com/aws/karpenter-provider-aws/issues/7660>).
fn images(spec: &Ec2NodeClassSpec, family: AmiFamily) -> Option<ClassFault> {
    // User data of the class defines how these boot, whatever they are called.
    if family == AmiFamily::Custom {
        return None;
    }
    let of_name = |name: &str| {
        let known = NAMES.iter().filter(|(start, _)| name.starts_with(start));
        known.max_by_key(|(start, _)| start.len()).map(|(_, family)| *family)
    };
    let names = spec.ami_selector_terms.iter().filter_map(|term| term.name.as_deref());
    let (name, other) =
        names.filter_map(|name| Some((name, of_name(name)?))).find(|(_, of)| *of != family)?;
    Some(ClassFault {
        field: "spec.amiFamily",
        problem: format!(
            "images called `{name}` are of {}, and user data of {} does not make them join",
            other.as_str(),
            family.as_str()
        ),
        remedy: "write the family of the images",
        refused: false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(spec: &Value) -> Vec<(&'static str, bool)> {
        let mut class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "spec": {
                "role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}],
            },
        });
        for (field, value) in spec.as_object().unwrap() {
            class["spec"][field] = value.clone();
        }
        faults(&class).into_iter().map(|fault| (fault.field, fault.refused)).collect()
    }

    /// aws#8312, aws#8072, aws#8220, aws#7660
    #[test]
    fn fields_that_no_node_comes_of_are_named() {
        let alias = |alias: &str| json!([{"alias": alias}]);
        let named = |name: &str| json!([{"name": name}]);
        let node_config = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n";
        let table: Vec<(Value, &[(&str, bool)])> = vec![
            (json!({}), &[]),
            (json!({"instanceProfile": "nodes"}), &[]),
            (json!({"kubelet": {"cpuManagerPolicy": "static", "maxPods": "vcpus * 8"}}), &[]),
            (json!({"kubelet": {"maxPod": 5}}), &[("spec.kubelet", true)]),
            (json!({"kubelet": {"maxPods": "vcpus *"}}), &[("spec.kubelet", true)]),
            (
                json!({"amiSelectorTerms": alias("bottlerocket@latest"), "kubelet": {"cpuManagerPolicy": "static"}}),
                &[("spec.kubelet", true)],
            ),
            (
                json!({"instanceProfile": "arn:aws:iam::111122223333:instance-profile/nodes"}),
                &[("spec.instanceProfile", true)],
            ),
            (json!({"instanceProfile": "/team/nodes"}), &[("spec.instanceProfile", true)]),
            (json!({"role": "team/nodes"}), &[]),
            (json!({"role": "arn:aws:iam::111122223333:role/team/nodes"}), &[]),
            (
                json!({"amiSelectorTerms": alias("bottlerocket@latest"), "userData": "[settings.kubernetes\n"}),
                &[("spec.userData", true)],
            ),
            (
                json!({"amiSelectorTerms": alias("bottlerocket@latest"), "userData": "#!/bin/bash\necho a\n"}),
                &[("spec.userData", true)],
            ),
            (
                json!({"amiSelectorTerms": alias("bottlerocket@latest"), "userData": "[settings.kubernetes]\nlog-level = 2\n"}),
                &[],
            ),
            (json!({"userData": "MIME-Version: 1.0\n\nno boundary\n"}), &[("spec.userData", true)]),
            (
                json!({"userData": "#!/bin/bash\n".to_owned() + &"x".repeat(17_000)}),
                &[("spec.userData", true)],
            ),
            (json!({"userData": "#!/bin/bash\n".to_owned() + &"x".repeat(15_000)}), &[]),
            (json!({"userData": node_config}), &[]),
            (
                json!({"userData": format!("{node_config}spec: {{kubelet: {{config: {{maxPods: 9}}}}}}\n")}),
                &[("spec.userData", false)],
            ),
            (
                json!({"amiSelectorTerms": alias("al2@latest"), "userData": node_config}),
                &[("spec.userData", true)],
            ),
            (json!({"userData": "#!/bin/bash\n/etc/eks/bootstrap.sh shop\n"}), &[("spec.userData", false)]),
            (
                json!({"amiFamily": "AL2023", "amiSelectorTerms": named("amazon-eks-node-1.31-v20250123")}),
                &[("spec.amiFamily", false)],
            ),
            (
                json!({"amiFamily": "AL2", "amiSelectorTerms": named("amazon-eks-node-al2023-x86_64-standard-1.31-*")}),
                &[("spec.amiFamily", false)],
            ),
            (
                json!({"amiFamily": "AL2023", "amiSelectorTerms": named("bottlerocket-aws-k8s-1.31-*")}),
                &[("spec.amiFamily", false)],
            ),
            (json!({"amiFamily": "AL2", "amiSelectorTerms": named("amazon-eks-node-1.31-*")}), &[]),
            (json!({"amiFamily": "AL2023", "amiSelectorTerms": named("our-image-*")}), &[]),
            (json!({"amiFamily": "Custom", "amiSelectorTerms": named("amazon-eks-node-1.31-*")}), &[]),
        ];
        for (spec, expected) in table {
            assert_eq!(found(&spec), expected, "{spec}");
        }
    }
}
