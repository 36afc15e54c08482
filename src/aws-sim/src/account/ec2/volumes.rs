//! Volumes of a launch template that no instance can have: a launch template takes them, and each launch is refused.

use karpenter_aws_api::ec2::{EbsVolume, LaunchTemplateData};

use super::capacity::Refusal;

/// Refuses a rate that the type of a volume does not take.
pub(super) fn check(data: &LaunchTemplateData) -> Result<(), Refusal> {
    let volumes = data.block_devices.iter().filter_map(|device| device.ebs.as_ref());
    for EbsVolume { volume_type, iops, throughput, .. } in volumes {
        // The types that take the rate; a volume that states no type has that of its image.
        let rates: [(&str, bool, &[&str]); 2] = [
            ("iops", iops.is_some(), &["gp3", "io1", "io2"]),
            ("throughput", throughput.is_some(), &["gp3"]),
        ];
        for (name, stated, takes) in rates {
            if let Some(kind) = volume_type.as_deref().filter(|kind| stated && !takes.contains(kind)) {
                let text = format!("The parameter {name} is not supported for {kind} volumes.");
                return Err(("InvalidParameterCombination", text));
            }
        }
    }
    Ok(())
}
