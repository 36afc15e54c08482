//! Faults of an EC2NodeClass that are found by neither its schema nor a request to AWS: user data that cannot be rendered
//! or is of another family, volumes, tags and names that AWS does not take, images of another family.

use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::{AmiFamily, Ec2NodeClassSpec, InstanceStorePolicy, Toggle};
use karpenter_cloud::ClassFault;
use karpenter_iam::is_name;
use serde_json::Value;

use crate::class::instance_profiles::bare_name;
use crate::class::kubelet;
use crate::image::family::{FamilyTraits, family_of};
use crate::tags;
use crate::userdata::{self, Bootstrap, LIMIT_BYTES};

mod devices;

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

/// Everything that is wrong with a class; nothing of one that cannot be read, which its schema refuses. `cluster` is the name of
/// the controller's cluster; `None` if that is not known.
pub fn faults(class: &Value, cluster: Option<&str>) -> Vec<ClassFault> {
    let Ok(class) = serde_json::from_value::<EC2NodeClass>(class.clone()) else { return Vec::new() };
    let (spec, family) = (&class.spec, family_of(&class.spec));
    let all = [
        profile(spec),
        role(spec),
        of_kubelet(spec),
        servers(spec),
        rendered(spec, family),
        of_family(spec, family),
        lines(spec),
        overruled(spec, family, cluster),
        unread(spec, family),
        images(spec, family),
        version(spec, family),
        metadata(spec, family),
        tagged(spec),
        addresses(spec),
        striped(spec, family),
    ];
    all.into_iter().flatten().chain(devices::faults(spec, family)).collect()
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

/// IAM: 64 letters, digits and `_+=,.@-`, below a path.
fn role(spec: &Ec2NodeClassSpec) -> Option<ClassFault> {
    let name = bare_name(spec.role.as_deref()?);
    (!is_name(name, 64)).then(|| ClassFault {
        field: "spec.role",
        problem: format!("`{name}` is no name of a role: IAM has up to 64 letters, digits and `_+=,.@-`"),
        remedy: "write the name of the node role",
        refused: true,
    })
}

/// A kubelet passes over what is no address, and pods get no name server; Bottlerocket does not boot with it.
fn servers(spec: &Ec2NodeClassSpec) -> Option<ClassFault> {
    let servers = spec.kubelet.as_ref()?.settings().cluster_dns?;
    let wrong = servers.iter().find(|server| server.parse::<std::net::IpAddr>().is_err())?;
    Some(ClassFault {
        field: "spec.kubelet",
        problem: format!("clusterDNS has `{wrong}`, which is no IP address: pods find no names"),
        remedy: "write the address of the Service of the cluster's DNS",
        refused: false,
    })
}

/// Returns the fault of the kubelet block. The gate of expressions is not known here, so it counts as open.
fn of_kubelet(spec: &Ec2NodeClassSpec) -> Option<ClassFault> {
    let problem = kubelet::problems(spec)?;
    let remedy = "write what kubelet.config.k8s.io/v1beta1 has and the family takes";
    Some(ClassFault { field: "spec.kubelet", problem, remedy, refused: true })
}

fn rendered(spec: &Ec2NodeClassSpec, family: AmiFamily) -> Option<ClassFault> {
    // The smallest user data of the class: without cluster, labels and taints, which a manifest does not
    // have.
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
/// (<https://github.com/aws/karpenter-provider-aws/issues/8220>), or that starts the kubelet a second time
/// (<https://github.com/aws/karpenter-provider-aws/issues/5043>).
fn of_family(spec: &Ec2NodeClassSpec, family: AmiFamily) -> Option<ClassFault> {
    let text = spec.user_data.as_deref()?;
    let (problem, remedy) = match family {
        AmiFamily::AL2023 if text.contains("/etc/eks/bootstrap.sh") => (
            "images of AL2023 have no /etc/eks/bootstrap.sh: the script fails",
            "write a NodeConfig, or set amiFamily to AL2",
        ),
        AmiFamily::AL2 if calls(text, "/etc/eks/bootstrap.sh") => (
            "it calls /etc/eks/bootstrap.sh, as what is appended to it does: the kubelet starts twice, the first time without \
             the labels and taints of the NodePool",
            "leave the call out, and set options of the kubelet in spec.kubelet",
        ),
        _ if family.windows() && text.contains("Start-EKSBootstrap") => (
            "it calls Start-EKSBootstrap, as what is appended to it does: the kubelet starts twice, the first time without \
             the labels and taints of the NodePool",
            "leave the call out, and set options of the kubelet in spec.kubelet",
        ),
        _ => return None,
    };
    Some(ClassFault { field: USER_DATA, problem: problem.to_owned(), remedy, refused: false })
}

/// Returns whether a line of a script runs `program`; one that edits it, as with `sed`, does not.
fn calls(script: &str, program: &str) -> bool {
    let before = |word: &&str| ["sudo", "bash", "sh", "exec"].contains(word) || word.starts_with('-');
    script.lines().any(|line| {
        let mut words = line.split_whitespace().skip_while(before);
        words.next() == Some(program)
    })
}

/// A kernel reads the carriage return as a part of the interpreter's name, and the script does not run.
fn lines(spec: &Ec2NodeClassSpec) -> Option<ClassFault> {
    let text = spec.user_data.as_deref()?;
    let first = text.split('\n').find(|line| line.starts_with("#!") && line.ends_with('\r'))?;
    Some(ClassFault {
        field: USER_DATA,
        problem: format!("lines end with CR LF: no node finds the interpreter of `{}`", first.trim_end()),
        remedy: "end lines with LF",
        refused: false,
    })
}

/// The launch goes on, with other values than those that are written.
fn overruled(spec: &Ec2NodeClassSpec, family: AmiFamily, cluster: Option<&str>) -> Option<ClassFault> {
    let problem = userdata::overruled::caveat(family, spec, cluster)?;
    Some(ClassFault { field: USER_DATA, problem, remedy: "take the settings out of it", refused: false })
}

/// The launch goes on, without what is written.
fn unread(spec: &Ec2NodeClassSpec, family: AmiFamily) -> Option<ClassFault> {
    let problem = userdata::unread::caveat(family, spec)?;
    Some(ClassFault { field: USER_DATA, problem, remedy: "correct it", refused: false })
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

/// Images of a version that is spelled otherwise are not found.
fn version(spec: &Ec2NodeClassSpec, family: AmiFamily) -> Option<ClassFault> {
    let (name, version) = spec.alias()?;
    let numbers = |text: &str, parts: usize| {
        let all: Vec<&str> = text.split('.').collect();
        all.len() == parts
            && all.iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    let (found, example) = match AmiFamily::from_alias(name)? {
        AmiFamily::AL2 | AmiFamily::AL2023 => {
            (version.strip_prefix('v').is_some_and(|date| date.len() == 8 && numbers(date, 1)), "v20250920")
        }
        AmiFamily::Bottlerocket => (numbers(version.trim_start_matches('v'), 3), "v1.46.0"),
        AmiFamily::Custom | AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            return None;
        }
    };
    (version != "latest" && !found).then(|| ClassFault {
        field: "spec.amiSelectorTerms",
        problem: format!(
            "no image of {} has the version `{version}`: one is called `{example}`",
            family.as_str()
        ),
        remedy: "write `latest`, or a version as its release is called",
        refused: true,
    })
}

/// Images read their user data from the metadata service.
fn metadata(spec: &Ec2NodeClassSpec, family: AmiFamily) -> Option<ClassFault> {
    let off = spec.metadata_options.as_ref()?.http_endpoint == Some(Toggle::Disabled);
    (off && family != AmiFamily::Custom).then(|| ClassFault {
        field: "spec.metadataOptions",
        problem: format!(
            "images of {} read how to join from the metadata service, which is off",
            family.as_str()
        ),
        remedy: "leave httpEndpoint enabled, and keep pods off with a httpPutResponseHopLimit of 1",
        refused: false,
    })
}

fn tagged(spec: &Ec2NodeClassSpec) -> Option<ClassFault> {
    let refused = if spec.role.is_some() { tags::of_profile(spec) } else { tags::of_class(spec) }.err()?;
    // The schema of the class refuses it already.
    if matches!(refused, tags::Refused::Reserved(_)) {
        return None;
    }
    Some(ClassFault {
        field: "spec.tags",
        problem: refused.to_string(),
        remedy: "write what EC2 and IAM take",
        refused: true,
    })
}

/// aws PR#5666
fn addresses(spec: &Ec2NodeClassSpec) -> Option<ClassFault> {
    spec.gives_no_public_address().then(|| ClassFault {
        field: "spec.associatePublicIPAddress",
        problem: "EC2 gives no public address by request to instances with several network interfaces"
            .to_owned(),
        remedy: "unset it, and let the subnets decide",
        refused: true,
    })
}

fn striped(spec: &Ec2NodeClassSpec, family: AmiFamily) -> Option<ClassFault> {
    (spec.instance_store_policy.is_some() && family.windows()).then(|| ClassFault {
        field: "spec.instanceStorePolicy",
        problem: "Windows does not use local disks for pods: the policy has no effect".to_owned(),
        remedy: "remove it",
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
        faults(&class, None).into_iter().map(|fault| (fault.field, fault.refused)).collect()
    }

    /// aws#8312, aws#8072, aws#8220, aws#7660
    #[test]
    fn fields_that_no_node_comes_of_are_named() {
        let alias = |alias: &str| json!([{"alias": alias}]);
        let named = |name: &str| json!([{"name": name}]);
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

    /// aws#5043, aws#8220
    #[test]
    fn user_data_that_no_node_takes_as_it_is_meant_is_named() {
        let alias = |alias: &str| json!([{"alias": alias}]);
        let node_config = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n";
        let table: Vec<(Value, &[(&str, bool)])> = vec![
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
                json!({"amiSelectorTerms": alias("al2@latest"), "userData": "#!/bin/bash -xe\n/etc/eks/bootstrap.sh shop \\\n  --use-max-pods false\n"}),
                &[("spec.userData", false)],
            ),
            (
                json!({"amiSelectorTerms": alias("al2@latest"), "userData": "#!/bin/bash\nsed -i 's/a/b/' /etc/eks/bootstrap.sh\n"}),
                &[],
            ),
            (
                json!({"amiSelectorTerms": alias("windows2022@latest"), "userData": "<powershell>\n& $EKSBootstrap = 'Start-EKSBootstrap.ps1'\n</powershell>"}),
                &[("spec.userData", false)],
            ),
        ];
        for (spec, expected) in table {
            assert_eq!(found(&spec), expected, "{spec}");
        }
    }

    /// aws#6358, aws#7937
    #[test]
    fn values_that_aws_does_not_take_are_named() {
        let alias = |alias: &str| json!([{"alias": alias}]);
        let table: Vec<(Value, &[(&str, bool)])> = vec![
            (json!({"role": "r".repeat(64)}), &[]),
            (json!({"role": "r".repeat(65)}), &[("spec.role", true)]),
            (json!({"role": "my nodes"}), &[("spec.role", true)]),
            (json!({"kubelet": {"clusterDNS": ["10.0.0.10", "fd00::10"]}}), &[]),
            (json!({"kubelet": {"clusterDNS": ["10.0.0.300"]}}), &[("spec.kubelet", false)]),
            (json!({"userData": "#!/bin/bash\r\necho a\r\n"}), &[("spec.userData", false)]),
            (json!({"userData": "#cloud-config\r\nruncmd: []\r\n"}), &[]),
            (json!({"amiSelectorTerms": alias("al2023@v20240807")}), &[]),
            (json!({"amiSelectorTerms": alias("al2023@20240807")}), &[("spec.amiSelectorTerms", true)]),
            (json!({"amiSelectorTerms": alias("al2@1.29.0-20240807")}), &[("spec.amiSelectorTerms", true)]),
            (json!({"amiSelectorTerms": alias("bottlerocket@v1.21.1")}), &[]),
            (json!({"amiSelectorTerms": alias("bottlerocket@1.21.1")}), &[]),
            (json!({"amiSelectorTerms": alias("bottlerocket@1.21")}), &[("spec.amiSelectorTerms", true)]),
            (json!({"metadataOptions": {"httpEndpoint": "disabled"}}), &[("spec.metadataOptions", false)]),
            (json!({"metadataOptions": {"httpEndpoint": "enabled"}}), &[]),
            (json!({"tags": {"Env": "a", "env": "b"}}), &[("spec.tags", true)]),
            (json!({"tags": {"karpenter.sh/nodepool": "a"}}), &[]),
            (
                json!({"associatePublicIPAddress": true, "networkInterfaces": [
                    {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
                    {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
                ]}),
                &[("spec.associatePublicIPAddress", true)],
            ),
            (
                json!({"amiSelectorTerms": alias("windows2022@latest"), "instanceStorePolicy": "RAID0"}),
                &[("spec.instanceStorePolicy", false)],
            ),
            (
                json!({"blockDeviceMappings": [{"deviceName": "/dev/xvda"}]}),
                &[("spec.blockDeviceMappings", true)],
            ),
        ];
        for (spec, expected) in table {
            assert_eq!(found(&spec), expected, "{spec}");
        }
    }
}
