//! Label keys and values AWS gives a meaning to (spec aws-provider 1.9).

use karpenter_aws_api::ec2::Architecture;
use karpenter_model::names::label::aws;
use karpenter_model::{LabelKey, LabelRegistry, LabelValue};

/// The core registry extended by AWS's labels.
pub fn label_registry() -> LabelRegistry {
    let mut registry = LabelRegistry::core();
    registry.well_known.extend(aws::WELL_KNOWN.map(LabelKey::from));
    registry.restricted_domains.insert(aws::DOMAIN.to_owned());
    registry
        .normalized_keys
        .extend(aws::NORMALIZED.map(|(old, new)| (LabelKey::from(old), LabelKey::from(new))));
    registry
        .well_known_values
        .insert(aws::INSTANCE_TENANCY.into(), aws::TENANCIES.map(LabelValue::from).into());
    registry.reservation_id = Some(aws::CAPACITY_RESERVATION_ID.into());
    registry.reserved_labels = aws::RESERVED_CAPACITY.map(LabelKey::from).into();
    registry
}

/// Kubernetes' name of an EC2 architecture.
pub(crate) fn kubernetes_arch(architecture: &Architecture) -> Option<&'static str> {
    match architecture {
        Architecture::X86_64 => Some("amd64"),
        Architecture::Arm64 => Some("arm64"),
        Architecture::Other(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::names::label;

    use super::*;

    #[test]
    fn our_domain_is_restricted_to_the_labels_we_define() {
        let registry = label_registry();
        assert!(registry.is_well_known(label::CAPACITY_TYPE), "the labels of all clouds are still known");
        assert!(!registry.is_restricted(aws::INSTANCE_FAMILY));
        assert!(registry.is_restricted("karpenter.k8s.aws/something"));
        assert!(registry.is_restricted("sub.karpenter.k8s.aws/something"));
        assert_eq!(registry.normalize_key(&"topology.ebs.csi.aws.com/zone".into()), label::ZONE);
    }
}
