//! Images: which AMI a node of a given type is started from (spec aws-provider 6).

pub mod alias;
pub mod family;
pub mod parameters;
pub mod resolve;
pub mod select;

use karpenter_api::convert::requirements;
use karpenter_api::ec2nodeclass::{Ami, Ec2NodeClassSpec};
use karpenter_aws_api::ec2::Architecture;
use karpenter_model::{LabelRegistry, Requirements, Undefined};

use self::alias::Variant;
use crate::registry::kubernetes_arch;

/// The image a node of a type is started from: the first one of the status that accepts it.
pub fn image_for<'a>(amis: &'a [Ami], of_type: &Requirements, registry: &LabelRegistry) -> Option<&'a Ami> {
    amis.iter().find(|ami| {
        of_type.compatible(&requirements(registry, &ami.requirements), Undefined::WellKnown(registry)).is_ok()
    })
}

/// The images of a `NodeClass` before any is resolved, each with a text in angle brackets in place of its id: those its alias
/// is published for, whatever the cluster's version, or else one of each architecture.
pub fn unresolved(spec: &Ec2NodeClassSpec) -> Vec<Ami> {
    let alias = spec.ami_selector_terms.iter().find_map(|term| term.alias.as_deref());
    let published = alias.and_then(|alias| alias::parameters(alias, "").ok());
    let kinds: Vec<(Architecture, Option<Variant>)> = match published {
        Some(parameters) => parameters
            .into_iter()
            .flat_map(|one| {
                one.variants.into_iter().map(move |variant| (one.architecture.clone(), Some(variant)))
            })
            .collect(),
        None => vec![(Architecture::X86_64, None), (Architecture::Arm64, None)],
    };
    let image = |(architecture, variant): &(Architecture, Option<Variant>)| {
        let arch = kubernetes_arch(architecture)?;
        let id = match variant {
            None | Some(Variant::Standard | Variant::Windows(_)) => format!("<image for {arch}>"),
            Some(variant) => format!("<{variant} image for {arch}>"),
        };
        Some(Ami { id, requirements: select::requirements(architecture, *variant)?, ..Ami::default() })
    };
    kinds.iter().filter_map(image).collect()
}

#[cfg(test)]
mod tests {
    use karpenter_api::ec2nodeclass::AmiSelectorTerm;
    use karpenter_model::names::label::{ARCH, OS, aws};

    use super::*;
    use crate::registry::label_registry;

    #[test]
    fn what_an_alias_is_published_for_is_known_before_its_images_are() {
        let registry = label_registry();
        let machine = |labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
            Requirements::from_labels(&registry, &labels)
        };
        let intel = machine(&[(ARCH, "amd64"), (OS, "linux")]);
        let arm_gpu = machine(&[(ARCH, "arm64"), (OS, "linux"), (aws::INSTANCE_GPU_COUNT, "1")]);
        let windows =
            machine(&[(ARCH, "amd64"), (OS, "windows"), ("node.kubernetes.io/windows-build", "10.0.20348")]);
        let windows_arm =
            machine(&[(ARCH, "arm64"), (OS, "windows"), ("node.kubernetes.io/windows-build", "10.0.20348")]);
        let image = |alias: Option<&str>, of: &Requirements| {
            let terms = alias
                .map(|alias| AmiSelectorTerm { alias: Some(alias.into()), ..AmiSelectorTerm::default() });
            let spec = Ec2NodeClassSpec {
                ami_selector_terms: terms.into_iter().collect(),
                ..Ec2NodeClassSpec::default()
            };
            image_for(&unresolved(&spec), of, &registry).map(|ami| ami.id.clone())
        };
        let found = |text: &str| Some(text.to_owned());
        assert_eq!(image(Some("al2023@latest"), &intel), found("<image for amd64>"));
        assert_eq!(image(Some("al2023@latest"), &arm_gpu), found("<nvidia image for arm64>"));
        assert_eq!(image(Some("al2@latest"), &arm_gpu), None);
        assert_eq!(image(Some("windows2022@latest"), &windows), found("<image for amd64>"));
        assert_eq!(image(Some("windows2022@latest"), &windows_arm), None);
        assert_eq!(image(None, &arm_gpu), found("<image for arm64>"), "another selector may find any image");
    }
}
