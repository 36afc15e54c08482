//! Additional needs of Windows nodes.

use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::AmiFamily;

use super::{joining, object};
use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity, kubernetes};
use crate::facts::{Facts, Unseen};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "D-19",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "pods on Windows fail: no PrivateIPv4Address",
        cause: "Windows support of the VPC CNI is off",
        fix: "`kubectl patch configmap --namespace kube-system amazon-vpc-cni --type merge --patch '{\"data\":{\"enable-windows-ipam\":\"true\"}}'`",
        look: Look::At(no_addresses),
    },
    Check {
        id: "D-20",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "no matching manifest for windows in the image's list",
        cause: "the image was built for another Windows build than the node's",
        fix: "select nodes by node.kubernetes.io/windows-build, which `kubectl get nodes --label-columns node.kubernetes.io/windows-build` shows",
        look: Look::Said(&[
            kubernetes(&["no matching manifest for windows"]),
            kubernetes(&["operating system does not match the host"]),
        ]),
    },
    Check {
        id: "D-21",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "names cannot be resolved on Windows nodes",
        cause: "the node role lacks the group eks:kube-proxy-windows, which an EC2_LINUX access entry does not give",
        fix: "use a role of its own with `aws eks create-access-entry --cluster-name <cluster> --principal-arn <role> --type EC2_WINDOWS`, or add the group in aws-auth",
        look: Look::At(no_proxy_group),
    },
];

fn windows_classes(facts: &Facts) -> Result<Vec<&EC2NodeClass>, Unseen> {
    let is_windows = |class: &&EC2NodeClass| {
        let windows = [AmiFamily::Windows2019, AmiFamily::Windows2022, AmiFamily::Windows2025];
        class.spec.resolved_family().is_some_and(|family| windows.contains(&family))
    };
    Ok(facts.cluster.node_classes.get()?.decoded().iter().filter(is_windows).collect())
}

fn no_addresses(facts: &Facts) -> Outcome {
    let classes = windows_classes(facts)?;
    if classes.is_empty() {
        return Ok(Vec::new());
    }
    let settings = facts.cluster.config_map("kube-system", "amazon-vpc-cni")?;
    let is_on = settings
        .and_then(|map| map.data.as_ref()?.get("enable-windows-ipam"))
        .is_some_and(|value| value == "true");
    Ok((!is_on)
        .then(|| Evidence::new("ConfigMap kube-system/amazon-vpc-cni", "enable-windows-ipam is not \"true\""))
        .into_iter()
        .collect())
}

fn no_proxy_group(facts: &Facts) -> Outcome {
    let mut found = Vec::new();
    for class in windows_classes(facts)? {
        let Some(role) = class.spec.role.as_deref().and_then(|role| role.rsplit('/').next()) else {
            continue;
        };
        let suffix = format!("/{role}");
        let by_entry = joining::entries(facts)?
            .iter()
            .any(|entry| entry.principal.ends_with(&suffix) && entry.kind == "EC2_WINDOWS");
        let by_map = joining::mappings(facts)?
            .iter()
            .any(|mapping| mapping.is_of(role) && mapping.gives("eks:kube-proxy-windows"));
        if !by_entry && !by_map {
            let seen =
                format!("role `{role}` has neither an EC2_WINDOWS access entry nor the group in aws-auth");
            found.push(Evidence::new(object("EC2NodeClass", &class.metadata), seen));
        }
    }
    Ok(found)
}
