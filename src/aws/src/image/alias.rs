//! Resolves an alias such as `al2023@latest` to the SSM parameters that hold its image ids.
//!
//! The paths are published by the image owners (spec aws-provider 6.1). One alias stands for up to five
//! images: one per architecture and variant.

use std::fmt;

use karpenter_api::ec2nodeclass::AmiFamily as Family;
use karpenter_aws_api::ec2::Architecture::{self, Arm64, X86_64};

use super::family::FamilyTraits;

/// Kind of hardware that an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// No accelerators.
    Standard,
    /// NVIDIA GPUs.
    Nvidia,
    /// AWS Neuron devices.
    Neuron,
    /// Any Windows machine of the given build.
    Windows(&'static str),
}

/// One SSM parameter and the kinds of machine its image serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name of the parameter.
    pub name: String,
    /// Architecture of the image.
    pub architecture: Architecture,
    /// Kinds of machine; an image with two kinds becomes two entries in the `NodeClass`'s status.
    pub variants: Vec<Variant>,
    /// True if AWS re-points the parameter to newer images.
    pub mutable: bool,
}

/// An alias that cannot be used with the cluster's version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// EKS publishes no AL2 images any more.
    #[error("AL2 images are not published for Kubernetes {0}; use an al2023 or bottlerocket alias")]
    Al2(String),
    /// EKS publishes no Windows 2025 images yet.
    #[error("Windows Server 2025 images are not published for Kubernetes {0}; use a windows2022 alias")]
    Windows2025(String),
    /// The alias names no family.
    #[error("alias `{0}` names no known image family; write family@version, for example al2023@latest")]
    Family(String),
}

/// The parameters of an alias for a cluster version such as `1.34`.
///
/// # Errors
/// [`Unsupported`] when no image exists for that family and version.
pub fn parameters(alias: &str, kubernetes: &str) -> Result<Vec<Parameter>, Unsupported> {
    let unknown = || Unsupported::Family(alias.to_owned());
    let (name, version) = alias.split_once('@').ok_or_else(unknown)?;
    let family = Family::from_alias(name).ok_or_else(unknown)?;
    let minor = minor(kubernetes);
    match family {
        Family::AL2 if minor.is_some_and(|minor| minor >= 33) => Err(Unsupported::Al2(kubernetes.to_owned())),
        Family::Windows2025 if minor.is_some_and(|minor| minor < 35) => {
            Err(Unsupported::Windows2025(kubernetes.to_owned()))
        }
        Family::AL2 => Ok(al2(kubernetes, version)),
        Family::AL2023 => Ok(al2023(kubernetes, version)),
        Family::Bottlerocket => Ok(bottlerocket(kubernetes, version)),
        Family::Windows2019 => Ok(windows("2019", family, kubernetes)),
        Family::Windows2022 => Ok(windows("2022", family, kubernetes)),
        Family::Windows2025 => Ok(windows("2025", family, kubernetes)),
        Family::Custom => Err(unknown()),
    }
}

/// Minor version; a text that cannot be read is not held against the alias.
fn minor(kubernetes: &str) -> Option<u32> {
    kubernetes.split('.').nth(1)?.parse().ok()
}

fn al2(kubernetes: &str, version: &str) -> Vec<Parameter> {
    let variants = [
        ("amazon-linux-2", "amazon-eks-node", X86_64, vec![Variant::Standard]),
        ("amazon-linux-2-arm64", "amazon-eks-arm64-node", Arm64, vec![Variant::Standard]),
        ("amazon-linux-2-gpu", "amazon-eks-gpu-node", X86_64, vec![Variant::Neuron, Variant::Nvidia]),
    ];
    variants
        .into_iter()
        .map(|(folder, prefix, architecture, variants)| {
            let release = release(version, &format!("{prefix}-{kubernetes}-{version}"));
            Parameter {
                name: format!("/aws/service/eks/optimized-ami/{kubernetes}/{folder}/{release}/image_id"),
                architecture,
                variants,
                mutable: version == "latest",
            }
        })
        .collect()
}

fn al2023(kubernetes: &str, version: &str) -> Vec<Parameter> {
    let variants = [
        (X86_64, "standard", Variant::Standard),
        (X86_64, "nvidia", Variant::Nvidia),
        (X86_64, "neuron", Variant::Neuron),
        (Arm64, "standard", Variant::Standard),
        (Arm64, "nvidia", Variant::Nvidia),
    ];
    variants
        .into_iter()
        .map(|(architecture, name, variant)| {
            let arch = architecture.as_str();
            let pinned = format!("amazon-eks-node-al2023-{arch}-{name}-{kubernetes}-{version}");
            let release = release(version, &pinned);
            Parameter {
                name: format!(
                    "/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/{arch}/{name}/{release}/image_id"
                ),
                architecture,
                variants: vec![variant],
                mutable: version == "latest",
            }
        })
        .collect()
}

fn bottlerocket(kubernetes: &str, version: &str) -> Vec<Parameter> {
    // An alias may have the `v` of the release's tag; the parameters have none.
    let version = version.trim_start_matches('v');
    let variants = [
        ("", X86_64, vec![Variant::Standard, Variant::Neuron]),
        ("", Arm64, vec![Variant::Standard]),
        ("-nvidia", X86_64, vec![Variant::Nvidia]),
        ("-nvidia", Arm64, vec![Variant::Nvidia]),
    ];
    variants
        .into_iter()
        .map(|(suffix, architecture, variants)| {
            let arch = architecture.as_str();
            Parameter {
                name: format!(
                    "/aws/service/bottlerocket/aws-k8s-{kubernetes}{suffix}/{arch}/{version}/image_id"
                ),
                architecture,
                variants,
                mutable: version == "latest",
            }
        })
        .collect()
}

fn windows(year: &str, family: Family, kubernetes: &str) -> Vec<Parameter> {
    // The path names no version: AWS re-points it to newer images, so the parameter is mutable whatever the alias says.
    let build = family.windows_build().unwrap_or_default();
    vec![Parameter {
        name: format!(
            "/aws/service/ami-windows-latest/Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}/image_id"
        ),
        architecture: X86_64,
        variants: vec![Variant::Windows(build)],
        mutable: true,
    }]
}

fn release(version: &str, pinned: &str) -> String {
    if version == "latest" { "recommended".to_owned() } else { pinned.to_owned() }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standard => "standard",
            Self::Nvidia => "nvidia",
            Self::Neuron => "neuron",
            Self::Windows(_) => "windows",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(alias: &str, kubernetes: &str) -> Vec<String> {
        parameters(alias, kubernetes).unwrap().into_iter().map(|parameter| parameter.name).collect()
    }

    #[test]
    fn paths_are_those_the_image_owners_publish() {
        assert_eq!(
            names("al2@latest", "1.32"),
            [
                "/aws/service/eks/optimized-ami/1.32/amazon-linux-2/recommended/image_id",
                "/aws/service/eks/optimized-ami/1.32/amazon-linux-2-arm64/recommended/image_id",
                "/aws/service/eks/optimized-ami/1.32/amazon-linux-2-gpu/recommended/image_id",
            ]
        );
        assert_eq!(
            names("al2@v20240807", "1.30")[1],
            "/aws/service/eks/optimized-ami/1.30/amazon-linux-2-arm64/amazon-eks-arm64-node-1.30-v20240807/image_id"
        );
        assert_eq!(
            names("al2023@latest", "1.34")[2],
            "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/neuron/recommended/image_id"
        );
        assert_eq!(
            names("al2023@v20240807", "1.34")[4],
            "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/arm64/nvidia/amazon-eks-node-al2023-arm64-nvidia-1.34-v20240807/image_id"
        );
        assert_eq!(
            names("bottlerocket@v1.20.0", "1.34")[2],
            "/aws/service/bottlerocket/aws-k8s-1.34-nvidia/x86_64/1.20.0/image_id"
        );
        assert_eq!(
            names("bottlerocket@latest", "1.34")[1],
            "/aws/service/bottlerocket/aws-k8s-1.34/arm64/latest/image_id"
        );
        assert_eq!(
            names("windows2022@latest", "1.34"),
            ["/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.34/image_id"]
        );
    }

    #[test]
    fn an_alias_yields_as_many_status_entries_as_its_images_have_variants() {
        let entries = |alias| -> usize {
            parameters(alias, "1.32").unwrap().iter().map(|parameter| parameter.variants.len()).sum()
        };
        assert_eq!(
            [entries("al2@latest"), entries("al2023@latest"), entries("bottlerocket@latest")],
            [4, 5, 5]
        );
    }

    #[test]
    fn versions_without_images_are_refused_and_unreadable_versions_are_not() {
        assert!(parameters("al2@latest", "1.32").is_ok());
        assert!(matches!(parameters("al2@latest", "1.33"), Err(Unsupported::Al2(_))));
        assert!(matches!(parameters("windows2025@latest", "1.34"), Err(Unsupported::Windows2025(_))));
        assert!(parameters("windows2025@latest", "1.35").is_ok());
        assert!(parameters("al2@latest", "latest").is_ok());
        assert!(matches!(parameters("ubuntu@latest", "1.34"), Err(Unsupported::Family(_))));
    }

    #[test]
    fn only_latest_moves() {
        assert!(parameters("al2023@latest", "1.34").unwrap().iter().all(|parameter| parameter.mutable));
        assert!(parameters("al2023@v20240807", "1.34").unwrap().iter().all(|parameter| !parameter.mutable));
    }
}
