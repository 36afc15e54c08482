//! Volumes of a class that EC2 refuses whatever the instance, and mappings that leave the volume of pods as it is
//! (<https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html>).
//!
//! How fast a volume may be at most is left to EC2: AWS raises these limits. What a type does not have, its least values and
//! its ratios have stayed as they are.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use karpenter_api::ec2nodeclass::{AmiFamily, BlockDevice, BlockDeviceMapping, Ec2NodeClassSpec, VolumeType};
use karpenter_cloud::ClassFault;

use crate::image::family::FamilyTraits;

const FIELD: &str = "spec.blockDeviceMappings";
/// Least throughput of a gp3 volume, in MiB per second. The most is a quarter of its operations per second.
const THROUGHPUT: i64 = 125;
/// Operations per second of a gp3 volume that states none.
const OPERATIONS: i64 = 3000;

/// Limits of a type of volume.
struct Limits {
    gib: RangeInclusive<u32>,
    /// Operations per second: the least, and those for each GiB. `None` if they cannot be stated.
    operations: Option<(i64, i64)>,
}

fn limits(of: VolumeType) -> Limits {
    let (gib, operations) = match of {
        VolumeType::Standard => (1..=1024, None),
        VolumeType::Gp2 => (1..=16_384, None),
        VolumeType::Gp3 => (1..=65_536, Some((OPERATIONS, 500))),
        VolumeType::Io1 => (4..=16_384, Some((100, 50))),
        VolumeType::Io2 => (4..=65_536, Some((100, 1000))),
        VolumeType::St1 | VolumeType::Sc1 => (125..=16_384, None),
    };
    Limits { gib, operations }
}

/// Every fault, in the order of the mappings.
pub(super) fn faults(spec: &Ec2NodeClassSpec, family: AmiFamily) -> Vec<ClassFault> {
    let mappings = spec.block_device_mappings.as_deref().unwrap_or_default();
    let mut named = BTreeSet::new();
    let refused = mappings.iter().filter_map(|mapping| {
        let device = mapping.device_name.as_deref();
        let problem = match device {
            None => Some("a mapping has no deviceName".to_owned()),
            Some(name) if !named.insert(name) => Some(format!("`{name}` is mapped twice")),
            Some(name) => wrong(spec, family, name, mapping).map(|why| format!("`{name}` {why}")),
        };
        problem.map(|problem| ClassFault {
            field: FIELD,
            problem: format!("{problem}, and EC2 refuses the launch"),
            remedy: "correct the mapping",
            refused: true,
        })
    });
    refused
        .collect::<Vec<_>>()
        .into_iter()
        .chain(unencrypted(mappings))
        .chain(other_volume(mappings, family))
        .collect()
}

/// EC2 takes a key only of a volume that is said to be encrypted (`InvalidParameterDependency`). Where the account encrypts
/// every volume it may go without saying.
fn unencrypted(mappings: &[BlockDeviceMapping]) -> Option<ClassFault> {
    let keyed = |one: &&BlockDeviceMapping| {
        one.ebs.as_ref().is_some_and(|ebs| ebs.kms_key_id.is_some() && ebs.encrypted.is_none())
    };
    let name = mappings.iter().find(keyed)?.device_name.as_deref()?;
    Some(ClassFault {
        field: FIELD,
        problem: format!(
            "`{name}` has a kmsKeyID and does not say that it is encrypted, and EC2 refuses the launch unless the account \
             encrypts by default"
        ),
        remedy: "set `encrypted: true` beside the key",
        refused: false,
    })
}

/// Returns the faults of one mapping that EC2 refuses.
fn wrong(
    spec: &Ec2NodeClassSpec,
    family: AmiFamily,
    name: &str,
    mapping: &BlockDeviceMapping,
) -> Option<String> {
    let Some(ebs) = &mapping.ebs else { return Some("has no `ebs`".to_owned()) };
    let boots = family.default_disks().first().is_some_and(|disk| disk.device == name);
    if ebs.kms_key_id.is_some() && ebs.encrypted == Some(false) {
        return Some("has a kmsKeyID and is not encrypted".to_owned());
    }
    if boots
        && ebs.snapshot_id.is_none()
        && let Some((gib, least)) = ebs.gib().zip(image_gib(spec, family))
        && gib < least
    {
        return Some(format!("has {gib} GiB, fewer than the {least} of the images of {}", family.as_str()));
    }
    of_type(ebs, ebs.volume_type?, boots)
}

fn of_type(ebs: &BlockDevice, kind: VolumeType, boots: bool) -> Option<String> {
    // Zero stands for a value that is not set.
    let stated = |value: Option<i64>| value.filter(|value| *value != 0);
    let (operations, throughput) = (stated(ebs.iops), stated(ebs.throughput));
    let (name, limits, gib) = (kind.as_str(), limits(kind), ebs.gib());
    if boots && matches!(kind, VolumeType::St1 | VolumeType::Sc1) {
        return Some(format!("is what the image boots from, and {name} cannot be"));
    }
    if let Some(gib) = gib.filter(|gib| !limits.gib.contains(gib)) {
        let (least, most) = (limits.gib.start(), limits.gib.end());
        return Some(format!("has {gib} GiB, and {name} has {least} to {most}"));
    }
    if throughput.is_some() && kind != VolumeType::Gp3 {
        return Some(format!("has a throughput, which only gp3 takes and {name} does not"));
    }
    match (operations, limits.operations) {
        (Some(_), None) => return Some(format!("has iops, which {name} does not take")),
        (None, Some(_)) if kind != VolumeType::Gp3 => {
            return Some(format!("has no iops, which {name} needs"));
        }
        (Some(asked), Some((least, _))) if asked < least => {
            return Some(format!("has {asked} iops, and {name} has {least} at least"));
        }
        (Some(asked), Some((least, each))) => {
            let most = gib.map(|gib| least.max(each * i64::from(gib)));
            if let Some(most) = most.filter(|most| asked > *most) {
                return Some(format!("has {asked} iops, and {name} of its size has {most} at most"));
            }
        }
        (None, _) => {}
    }
    let asked = throughput?;
    let most = operations.unwrap_or(OPERATIONS) / 4;
    (!(THROUGHPUT..=most).contains(&asked)).then(|| {
        format!(
            "has a throughput of {asked}, and gp3 of its iops has {THROUGHPUT} to {most}: a quarter of them"
        )
    })
}

/// Pods get the volume of the family's device, or the one that is marked. A mapping for another device is one volume more,
/// and the one of the pods is as large as that of the image
/// (<https://github.com/aws/karpenter-provider-aws/issues/6358>, <https://github.com/aws/karpenter-provider-aws/issues/7937>).
fn other_volume(mappings: &[BlockDeviceMapping], family: AmiFamily) -> Option<ClassFault> {
    let device = family.ephemeral_device()?;
    let is_pods = |one: &BlockDeviceMapping| one.root_volume || one.device_name.as_deref() == Some(device);
    let other = mappings.iter().find_map(|one| one.device_name.as_deref())?;
    (!mappings.iter().any(is_pods)).then(|| ClassFault {
        field: FIELD,
        problem: format!(
            "pods of {} use the volume `{device}`, which is not mapped and stays as large as in the image: `{other}` is \
             another one",
            family.as_str()
        ),
        remedy: "map the volume of the pods, or mark the mapping with `rootVolume: true` if the image has it there",
        refused: false,
    })
}

/// The size of the snapshot that images of an alias boot from
/// (<https://github.com/aws/karpenter-provider-aws/issues/7928>); images that are selected otherwise may have any.
fn image_gib(spec: &Ec2NodeClassSpec, family: AmiFamily) -> Option<u32> {
    spec.alias()?;
    match family {
        AmiFamily::AL2 | AmiFamily::AL2023 => Some(20),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => Some(50),
        AmiFamily::Bottlerocket => Some(2),
        AmiFamily::Custom => None,
    }
}

#[cfg(test)]
mod tests {
    use karpenter_api::ec2nodeclass::AmiSelectorTerm;
    use serde_json::{Value, json};

    use super::*;

    fn found(alias: &str, mappings: &Value) -> Vec<(String, bool)> {
        let mut spec = Ec2NodeClassSpec {
            block_device_mappings: Some(serde_json::from_value(mappings.clone()).unwrap()),
            ..Default::default()
        };
        spec.ami_selector_terms =
            vec![AmiSelectorTerm { alias: Some(format!("{alias}@latest")), ..Default::default() }];
        let family = spec.resolved_family().unwrap();
        faults(&spec, family).into_iter().map(|fault| (fault.problem, fault.refused)).collect()
    }

    #[test]
    fn volumes_that_no_launch_can_have_are_named_with_what_is_wrong() {
        let volume = |device: &str, ebs: &Value| json!([{"deviceName": device, "ebs": ebs}]);
        let of = |ebs: Value| ("al2023", volume("/dev/xvda", &ebs));
        let table: Vec<((&str, Value), &str)> = vec![
            (of(json!({"volumeSize": "100Gi", "volumeType": "gp3", "iops": 4000, "throughput": 1000})), ""),
            (of(json!({"volumeSize": "100Gi", "volumeType": "gp3", "iops": 0, "throughput": 0})), ""),
            (of(json!({"volumeSize": "20Gi", "volumeType": "gp3", "iops": 10000})), ""),
            (of(json!({"volumeSize": "100Gi", "volumeType": "gp3", "throughput": 750})), ""),
            (of(json!({"volumeSize": "100Gi", "volumeType": "io2", "iops": 5000})), ""),
            (of(json!({"volumeSize": "100Gi", "iops": 5000})), ""),
            (of(json!({"snapshotID": "snap-1", "volumeType": "gp3"})), ""),
            (of(json!({"volumeSize": "10Gi", "snapshotID": "snap-1"})), ""),
            (of(json!({"volumeSize": "100Gi", "kmsKeyID": "k", "encrypted": true})), ""),
            (of(json!({"volumeSize": "100Gi", "volumeType": "gp2", "iops": 3000})), "iops, which gp2"),
            (of(json!({"volumeSize": "100Gi", "volumeType": "gp2", "throughput": 125})), "which only gp3"),
            (
                of(json!({"volumeSize": "100Gi", "volumeType": "io2", "throughput": 125, "iops": 100})),
                "which only gp3",
            ),
            (of(json!({"volumeSize": "100Gi", "volumeType": "gp3", "iops": 1000})), "3000 at least"),
            (of(json!({"volumeSize": "20Gi", "volumeType": "gp3", "iops": 16000})), "10000 at most"),
            (of(json!({"volumeSize": "100Gi", "volumeType": "gp3", "throughput": 1000})), "125 to 750"),
            (of(json!({"volumeSize": "100Gi", "volumeType": "gp3", "throughput": 50})), "125 to 750"),
            (of(json!({"volumeSize": "100Gi", "volumeType": "io1"})), "has no iops"),
            (of(json!({"volumeSize": "100Gi", "volumeType": "io1", "iops": 6000})), "5000 at most"),
            (of(json!({"volumeSize": "500Gi", "volumeType": "st1"})), "boots from"),
            (of(json!({"volumeSize": "2Ti", "volumeType": "standard"})), "1 to 1024"),
            (of(json!({"volumeSize": "100Gi", "kmsKeyID": "k", "encrypted": false})), "not encrypted"),
            (of(json!({"volumeSize": "8Gi"})), "20 of the images"),
            (("al2023", json!([{"deviceName": "/dev/xvda"}])), "no `ebs`"),
            (("al2023", json!([{"ebs": {"volumeSize": "50Gi"}}])), "no deviceName"),
            (("windows2022", volume("/dev/sda1", &json!({"volumeSize": "30Gi"}))), "50 of the images"),
            (("bottlerocket", volume("/dev/xvdb", &json!({"volumeSize": "8Gi"}))), ""),
        ];
        for ((alias, mappings), expected) in table {
            let found = found(alias, &mappings);
            assert_eq!(found.is_empty(), expected.is_empty(), "{mappings}: {found:?}");
            assert!(found.iter().all(|(text, refused)| *refused && text.contains(expected)), "{found:?}");
        }
        let twice = json!([
            {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "50Gi"}},
            {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "60Gi"}},
        ]);
        assert_eq!(found("al2023", &twice).len(), 1);
    }

    #[test]
    fn a_key_wants_encryption_said() {
        for (ebs, faults) in [
            (json!({"volumeSize": "50Gi", "kmsKeyID": "k"}), 1),
            (json!({"volumeSize": "50Gi", "kmsKeyID": "k", "encrypted": true}), 0),
            (json!({"volumeSize": "50Gi"}), 0),
        ] {
            let found = found("al2023", &json!([{"deviceName": "/dev/xvda", "ebs": ebs}]));
            assert_eq!(found.iter().filter(|(_, refused)| !refused).count(), faults, "{ebs}");
            assert_eq!(found.len(), faults, "{ebs}");
        }
    }

    /// aws#6358, aws#7937
    #[test]
    fn a_volume_that_is_not_that_of_the_pods_is_said() {
        for (alias, device, marked, said) in [
            ("al2023", "/dev/sda1", false, true),
            ("al2023", "/dev/sda1", true, false),
            ("al2", "/dev/xvda", false, false),
            ("bottlerocket", "/dev/xvda", false, true),
            ("bottlerocket", "/dev/xvdb", false, false),
            ("windows2022", "/dev/xvda", false, true),
            ("windows2022", "/dev/sda1", false, false),
        ] {
            let mapping =
                json!([{"deviceName": device, "rootVolume": marked, "ebs": {"volumeSize": "100Gi"}}]);
            let found = found(alias, &mapping);
            assert_eq!(
                found.iter().map(|(_, refused)| *refused).collect::<Vec<_>>(),
                vec![false; usize::from(said)]
            );
        }
        assert_eq!(found("al2023", &json!([])), []);
    }
}
