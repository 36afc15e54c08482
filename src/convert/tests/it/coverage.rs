//! Every field of the old kinds is in a case, and so is every reason to refuse an object or a text.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::goldens::cases;

/// The old kinds with their fields (spec aws-operations 4.2 to 4.5). `[]` is an item of a list; below a map of the operator's
/// keys nothing is listed.
const KINDS: &[(&str, &str, &[&str])] = &[
    ("karpenter.sh/v1alpha5", "Provisioner", &[METADATA, PROVISIONER, INLINE, ALPHA_VOLUMES]),
    ("karpenter.sh/v1alpha5", "Machine", &["metadata.name", MACHINE]),
    ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", &["metadata.name", TEMPLATE]),
    ("karpenter.sh/v1beta1", "NodePool", &[POOL]),
    ("karpenter.sh/v1beta1", "NodeClaim", &[CLAIM]),
    ("karpenter.k8s.aws/v1beta1", "EC2NodeClass", &["metadata.name", CLASS]),
];

const METADATA: &str = "
metadata.name metadata.generateName metadata.uid metadata.resourceVersion metadata.generation
metadata.creationTimestamp metadata.selfLink metadata.managedFields metadata.finalizers metadata.labels
metadata.annotations status.resources status.conditions status.lastScaleTime";

const PROVISIONER: &str = "
spec.annotations spec.labels
spec.taints[].key spec.taints[].value spec.taints[].effect
spec.startupTaints[].key spec.startupTaints[].value spec.startupTaints[].effect
spec.requirements[].key spec.requirements[].operator spec.requirements[].values
spec.kubeletConfiguration.clusterDNS spec.kubeletConfiguration.containerRuntime spec.kubeletConfiguration.maxPods
spec.kubeletConfiguration.podsPerCore spec.kubeletConfiguration.systemReserved spec.kubeletConfiguration.kubeReserved
spec.kubeletConfiguration.evictionHard spec.kubeletConfiguration.evictionSoft
spec.kubeletConfiguration.evictionSoftGracePeriod spec.kubeletConfiguration.evictionMaxPodGracePeriod
spec.kubeletConfiguration.imageGCHighThresholdPercent spec.kubeletConfiguration.imageGCLowThresholdPercent
spec.kubeletConfiguration.cpuCFSQuota
spec.providerRef.apiVersion spec.providerRef.kind spec.providerRef.name
spec.ttlSecondsUntilExpired spec.ttlSecondsAfterEmpty spec.consolidation.enabled spec.limits.resources spec.weight";

const INLINE: &str = "
spec.provider.apiVersion spec.provider.kind spec.provider.amiFamily spec.provider.context
spec.provider.instanceProfile spec.provider.subnetSelector spec.provider.securityGroupSelector spec.provider.tags
spec.provider.launchTemplate
spec.provider.metadataOptions.httpEndpoint spec.provider.metadataOptions.httpProtocolIPv6
spec.provider.metadataOptions.httpPutResponseHopLimit spec.provider.metadataOptions.httpTokens";

const ALPHA_VOLUMES: &str = "
spec.provider.blockDeviceMappings[].deviceName
spec.provider.blockDeviceMappings[].ebs.deleteOnTermination spec.provider.blockDeviceMappings[].ebs.encrypted
spec.provider.blockDeviceMappings[].ebs.iops spec.provider.blockDeviceMappings[].ebs.kmsKeyID
spec.provider.blockDeviceMappings[].ebs.snapshotID spec.provider.blockDeviceMappings[].ebs.throughput
spec.provider.blockDeviceMappings[].ebs.volumeSize spec.provider.blockDeviceMappings[].ebs.volumeType";

const MACHINE: &str = "
spec.taints[].key spec.taints[].effect spec.startupTaints[].key spec.startupTaints[].effect
spec.requirements[].key spec.requirements[].operator spec.requirements[].values
spec.resources.requests spec.kubelet.maxPods
spec.machineTemplateRef.apiVersion spec.machineTemplateRef.kind spec.machineTemplateRef.name status.nodeName";

const TEMPLATE: &str = "
spec.userData spec.amiFamily spec.amiSelector spec.context spec.instanceProfile spec.subnetSelector
spec.securityGroupSelector spec.tags spec.launchTemplate spec.detailedMonitoring
spec.metadataOptions.httpEndpoint spec.metadataOptions.httpProtocolIPv6
spec.metadataOptions.httpPutResponseHopLimit spec.metadataOptions.httpTokens
spec.blockDeviceMappings[].deviceName
spec.blockDeviceMappings[].ebs.deleteOnTermination spec.blockDeviceMappings[].ebs.encrypted
spec.blockDeviceMappings[].ebs.iops spec.blockDeviceMappings[].ebs.kmsKeyID
spec.blockDeviceMappings[].ebs.snapshotID spec.blockDeviceMappings[].ebs.throughput
spec.blockDeviceMappings[].ebs.volumeSize spec.blockDeviceMappings[].ebs.volumeType status.subnets";

const POOL: &str = "
metadata.name metadata.annotations metadata.uid metadata.resourceVersion metadata.creationTimestamp
spec.template.metadata.labels spec.template.metadata.annotations
spec.template.spec.taints[].key spec.template.spec.taints[].value spec.template.spec.taints[].effect
spec.template.spec.startupTaints[].key spec.template.spec.startupTaints[].value
spec.template.spec.startupTaints[].effect
spec.template.spec.requirements[].key spec.template.spec.requirements[].operator
spec.template.spec.requirements[].values spec.template.spec.requirements[].minValues
spec.template.spec.resources.requests
spec.template.spec.kubelet.clusterDNS spec.template.spec.kubelet.maxPods spec.template.spec.kubelet.podsPerCore
spec.template.spec.kubelet.systemReserved spec.template.spec.kubelet.kubeReserved
spec.template.spec.kubelet.evictionHard spec.template.spec.kubelet.evictionSoft
spec.template.spec.kubelet.evictionSoftGracePeriod spec.template.spec.kubelet.evictionMaxPodGracePeriod
spec.template.spec.kubelet.imageGCHighThresholdPercent spec.template.spec.kubelet.imageGCLowThresholdPercent
spec.template.spec.kubelet.cpuCFSQuota
spec.template.spec.nodeClassRef.apiVersion spec.template.spec.nodeClassRef.kind spec.template.spec.nodeClassRef.name
spec.template.spec.terminationGracePeriod
spec.disruption.consolidationPolicy spec.disruption.consolidateAfter spec.disruption.expireAfter
spec.disruption.budgets[].nodes spec.disruption.budgets[].schedule spec.disruption.budgets[].duration
spec.disruption.budgets[].reasons spec.limits spec.weight status.resources";

const CLAIM: &str = "
metadata.name metadata.labels metadata.annotations
spec.taints[].key spec.taints[].value spec.taints[].effect
spec.startupTaints[].key spec.startupTaints[].value spec.startupTaints[].effect
spec.requirements[].key spec.requirements[].operator spec.requirements[].values spec.requirements[].minValues
spec.resources.requests spec.kubelet.maxPods spec.terminationGracePeriod
spec.nodeClassRef.apiVersion spec.nodeClassRef.kind spec.nodeClassRef.name status.providerID";

const CLASS: &str = "
spec.subnetSelectorTerms[].tags spec.subnetSelectorTerms[].id
spec.securityGroupSelectorTerms[].tags spec.securityGroupSelectorTerms[].id spec.securityGroupSelectorTerms[].name
spec.associatePublicIPAddress
spec.amiSelectorTerms[].tags spec.amiSelectorTerms[].id spec.amiSelectorTerms[].name spec.amiSelectorTerms[].owner
spec.amiFamily spec.userData spec.role spec.instanceProfile spec.tags
spec.blockDeviceMappings[].deviceName spec.blockDeviceMappings[].rootVolume
spec.blockDeviceMappings[].ebs.deleteOnTermination spec.blockDeviceMappings[].ebs.encrypted
spec.blockDeviceMappings[].ebs.iops spec.blockDeviceMappings[].ebs.kmsKeyID
spec.blockDeviceMappings[].ebs.snapshotID spec.blockDeviceMappings[].ebs.throughput
spec.blockDeviceMappings[].ebs.volumeSize spec.blockDeviceMappings[].ebs.volumeType
spec.instanceStorePolicy spec.detailedMonitoring
spec.metadataOptions.httpEndpoint spec.metadataOptions.httpProtocolIPv6
spec.metadataOptions.httpPutResponseHopLimit spec.metadataOptions.httpTokens spec.context";

/// Reasons why an object is refused: one row for each place in the code.
const REFUSED: &[&str] = &[
    "is not known; write it as v1alpha5 or v1beta1 first",
    "spec: is missing; there is nothing to convert",
    "metadata: is missing; give the object a name",
    "metadata.name: is missing; give the object a name",
    "is missing; v1 needs at least its `nodeClassRef`",
    "spec.template.spec.nodeClassRef: `nodeClassRef` is missing; name the EC2NodeClass",
    "spec.template.spec.nodeClassRef.name: is missing; name the EC2NodeClass",
    "is not one of ours; only AWSNodeTemplate can be converted",
    "stands beside `providerRef`, which counts; remove one of them",
    "spec.providerRef.name: is missing; name the AWSNodeTemplate",
    "is missing, and so is `spec.provider`; name the EC2NodeClass that says how machines are made",
    "is unknown; use WhenEmpty or WhenEmptyOrUnderutilized",
    "cannot be used by v1, which makes its own",
    "is missing; early versions took what has the tag",
    "is missing: the setting `aws.defaultInstanceProfile` that stood for it is gone",
    "is no whole number of Gi, G, Ti or T, which v1 wants; round it",
    "is unknown; v1 has AL2",
    "family `Custom` names no image",
    "family `Ubuntu` is gone and v1 has no alias for it",
    "selects by nothing that v1 can select by",
    "and v1 takes 30; select by a tag that needs fewer values",
    "would not be valid:",
];

/// Reasons from the same place as one above, for another kind.
const REFUSED_AS_WELL: &[&str] =
    &["spec.nodeClassRef: `machineTemplateRef` is missing; name the EC2NodeClass"];

/// Reasons why a text is no manifest.
const FAULTY: &[&str] = &[
    "is not YAML:",
    "has blanks that do not break lines",
    "is indented with a tab",
    "has typographic quotes",
    "has a blank at its beginning or end",
    "belongs below `",
    "is neither a field nor an item of a list",
    "is an item of no list that is open above it",
    "belongs below none of the fields that are open above it",
    "may belong below",
];

#[test]
fn every_field_of_the_old_kinds_is_in_a_case() {
    let mut seen = BTreeSet::new();
    for case in cases() {
        let documents = serde_saphyr::from_multiple::<Value>(&case.text).unwrap_or_default();
        for document in documents {
            let items = document["items"].as_array().cloned().unwrap_or_else(|| vec![document.clone()]);
            for object in &items {
                let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
                paths(object, &format!("{} {} ", text("apiVersion"), text("kind")), &mut seen);
            }
        }
    }
    let mut missing = Vec::new();
    for (version, kind, fields) in KINDS {
        for field in fields.iter().flat_map(|fields| fields.split_whitespace()) {
            let path = format!("{version} {kind} {field}");
            if !seen.contains(&path) {
                missing.push(path);
            }
        }
    }
    assert!(missing.is_empty(), "no case has\n{}", missing.join("\n"));
}

/// The paths of a value and of all in it.
fn paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    found.insert(path.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let dot = if path.ends_with(' ') { "" } else { "." };
                paths(field, &format!("{path}{dot}{name}"), found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| paths(item, &format!("{path}[]"), found)),
        _ => {}
    }
}

#[test]
fn every_refusal_is_in_a_case() {
    let (mut refused, mut faulty) = (Vec::new(), Vec::new());
    for case in cases() {
        let report = case.outcome.report.text();
        let said = |word: &str| -> Vec<String> {
            let lines = report.lines().map(str::trim_start);
            lines.filter_map(|line| Some(line.strip_prefix(word)?.trim_start().to_owned())).collect()
        };
        refused.extend(said("refused "));
        faulty.extend(said("faulty "));
        faulty.extend(said("fixed "));
    }
    for (table, said) in [([REFUSED, REFUSED_AS_WELL].concat(), refused), (FAULTY.to_vec(), faulty)] {
        for reason in &table {
            assert!(said.iter().any(|line| line.contains(reason)), "no case is refused because it {reason}");
        }
        for line in &said {
            assert!(table.iter().any(|reason| line.contains(reason)), "not in the table: {line}");
        }
    }
}

/// A refusal that is added to the code needs a row above, and so a case.
#[test]
fn every_place_that_refuses_has_a_row() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert_eq!(count(&sources, "(Kind::Refused, "), REFUSED.len());
}

fn count(folder: &Path, text: &str) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let inside = |path: std::path::PathBuf| {
        if path.is_dir() {
            count(&path, text)
        } else {
            fs::read_to_string(&path).unwrap().matches(text).count()
        }
    };
    entries.map(inside).sum()
}
