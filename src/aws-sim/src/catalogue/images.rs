//! The images AWS publishes for EKS, and the public parameters that name them (spec aws-provider 6.1).
//!
//! Two releases each: the newer one is what `recommended` and `latest` name.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use karpenter_aws_api::Tags;
use karpenter_aws_api::ec2::{Architecture, Image, ImageState};
use karpenter_aws_api::id::ImageId;

/// AWS's own account for EKS images.
const OWNER: &str = "602401143452";

/// Amazon Linux 2023 variants: architecture and variant.
const AL2023: [(&str, &str); 5] = [
    ("x86_64", "standard"),
    ("x86_64", "nvidia"),
    ("x86_64", "neuron"),
    ("arm64", "standard"),
    ("arm64", "nvidia"),
];

/// Amazon Linux 2: parameter folder, image name part, architecture.
const AL2: [(&str, &str, &str); 3] = [
    ("amazon-linux-2", "node", "x86_64"),
    ("amazon-linux-2-arm64", "arm64-node", "arm64"),
    ("amazon-linux-2-gpu", "gpu-node", "x86_64"),
];

/// Bottlerocket: suffix of the variant, architecture.
const BOTTLEROCKET: [(&str, &str); 4] =
    [("", "x86_64"), ("", "arm64"), ("-nvidia", "x86_64"), ("-nvidia", "arm64")];

const WINDOWS: [&str; 3] = ["2019", "2022", "2025"];

/// Releases, older first: date in names, Bottlerocket version, age in days.
const RELEASES: [(&str, &str, u64); 2] = [("v20251103", "1.49.0", 58), ("v20251209", "1.51.0", 22)];

/// Images and parameters as of `now`, for one Kubernetes minor version.
pub(crate) fn published(
    kubernetes: &str,
    now: Timestamp,
) -> (BTreeMap<ImageId, Image>, BTreeMap<String, String>) {
    let mut shelf = Shelf { now, images: BTreeMap::new(), parameters: BTreeMap::new() };
    for (date, bottlerocket, age_days) in RELEASES {
        for (arch, variant) in AL2023 {
            let folder =
                format!("/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/{arch}/{variant}");
            let name = format!("amazon-eks-node-al2023-{arch}-{variant}-{kubernetes}-{date}");
            let id = shelf.publish(&name, arch, age_days);
            shelf.name(&format!("{folder}/{name}/image_id"), &id);
            shelf.name(&format!("{folder}/recommended/image_id"), &id);
        }
        for (folder, part, arch) in AL2 {
            let folder = format!("/aws/service/eks/optimized-ami/{kubernetes}/{folder}");
            let name = format!("amazon-eks-{part}-{kubernetes}-{date}");
            let id = shelf.publish(&name, arch, age_days);
            shelf.name(&format!("{folder}/{name}/image_id"), &id);
            shelf.name(&format!("{folder}/recommended/image_id"), &id);
        }
        for (suffix, arch) in BOTTLEROCKET {
            let folder = format!("/aws/service/bottlerocket/aws-k8s-{kubernetes}{suffix}/{arch}");
            let name = format!("bottlerocket-aws-k8s-{kubernetes}{suffix}-{arch}-v{bottlerocket}");
            let id = shelf.publish(&name, arch, age_days);
            shelf.name(&format!("{folder}/{bottlerocket}/image_id"), &id);
            shelf.name(&format!("{folder}/latest/image_id"), &id);
        }
        for year in WINDOWS {
            let base = format!("Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}");
            let id = shelf.publish(&format!("{base}-{date}"), "x86_64", age_days);
            shelf.name(&format!("/aws/service/ami-windows-latest/{base}/image_id"), &id);
        }
    }
    (shelf.images, shelf.parameters)
}

struct Shelf {
    now: Timestamp,
    images: BTreeMap<ImageId, Image>,
    parameters: BTreeMap<String, String>,
}

impl Shelf {
    fn publish(&mut self, name: &str, arch: &str, age_days: u64) -> ImageId {
        let id = ImageId::from(format!("ami-{:017x}", self.images.len() + 0x0a00));
        let age = Duration::from_secs(age_days * 86_400);
        let image = Image {
            id: id.clone(),
            name: name.to_owned(),
            owner: OWNER.to_owned(),
            architecture: Architecture::from(arch),
            created_at: self.now.saturating_sub(age).unwrap_or(Timestamp::MIN),
            deprecated_at: None,
            state: ImageState::Available,
            root_device: Some("/dev/xvda".to_owned()),
            tags: Tags::new(),
        };
        self.images.insert(id.clone(), image);
        id
    }

    fn name(&mut self, parameter: &str, id: &ImageId) {
        self.parameters.insert(parameter.to_owned(), id.to_string());
    }
}
