//! Choice among many images: the best one per kind of machine (spec aws-provider 6.3).

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_api::ec2nodeclass::Ami;
use karpenter_api::{Operator, Requirement};
use karpenter_aws_api::ec2::{Architecture, Image};
use karpenter_model::names::label::{self, aws};

use super::alias::Variant;
use crate::registry::kubernetes_arch;

/// An image with one kind of machine it serves.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub image: Image,
    /// `None` for images selected by id, name or tag: only their architecture counts.
    pub variant: Option<Variant>,
}

/// One entry per distinct set of requirements: not deprecated before deprecated, then the newest, then the
/// greatest name. Sorted newest first, then by id; of one image, the entry that asks for the most comes first.
pub fn select(candidates: Vec<Candidate>, now: Timestamp) -> Vec<Ami> {
    let mut best: BTreeMap<String, (Rank, Image, Vec<Requirement>)> = BTreeMap::new();
    for Candidate { image, variant } in candidates {
        let Some(requirements) = requirements(&image.architecture, variant) else { continue };
        let rank = Rank::of(&image, now);
        let kind = kind(&requirements);
        if best.get(&kind).is_none_or(|(known, _, _)| rank > *known) {
            best.insert(kind, (rank, image, requirements));
        }
    }
    let mut chosen: Vec<_> = best.into_values().collect();
    // The order within one image is that of a status the reference has written: taking it over writes nothing.
    chosen.sort_by(|(_, a, of_a), (_, b, of_b)| {
        let newest = b.created_at.cmp(&a.created_at);
        newest.then_with(|| a.id.cmp(&b.id)).then_with(|| of_b.len().cmp(&of_a.len()))
    });
    chosen
        .into_iter()
        .map(|(rank, image, requirements)| Ami {
            id: image.id.to_string(),
            deprecated: !rank.current,
            name: Some(image.name),
            requirements,
        })
        .collect()
}

/// The order images of one kind are preferred in; greater is better.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    current: bool,
    created_at: Timestamp,
    name: String,
    /// Last resort, so that the answer never depends on the order of a listing.
    id: String,
}

impl Rank {
    fn of(image: &Image, now: Timestamp) -> Self {
        Self {
            current: image.deprecated_at.is_none_or(|at| at > now),
            created_at: image.created_at,
            name: image.name.clone(),
            id: image.id.to_string(),
        }
    }
}

fn kind(requirements: &[Requirement]) -> String {
    requirements
        .iter()
        .map(|requirement| {
            format!("{} {} {:?}", requirement.key, requirement.operator.as_str(), requirement.values())
        })
        .collect::<Vec<_>>()
        .join(";")
}

/// Requirements of nodes that an image is for; `None` when Kubernetes does not run on its architecture.
pub(super) fn requirements(
    architecture: &Architecture,
    variant: Option<Variant>,
) -> Option<Vec<Requirement>> {
    let arch = kubernetes_arch(architecture)?;
    let mut requirements = vec![Requirement::new(label::ARCH, Operator::In, [arch])];
    let exists = |key| Requirement::new(key, Operator::Exists, []);
    let absent = |key| Requirement::new(key, Operator::DoesNotExist, []);
    match variant {
        None => {}
        Some(Variant::Standard) => {
            requirements.extend([absent(aws::INSTANCE_ACCELERATOR_COUNT), absent(aws::INSTANCE_GPU_COUNT)]);
        }
        Some(Variant::Nvidia) => requirements.push(exists(aws::INSTANCE_GPU_COUNT)),
        Some(Variant::Neuron) => requirements.push(exists(aws::INSTANCE_ACCELERATOR_COUNT)),
        Some(Variant::Windows(build)) => {
            requirements.push(Requirement::new(label::OS, Operator::In, ["windows"]));
            requirements.push(Requirement::new(label::WINDOWS_BUILD, Operator::In, [build]));
        }
    }
    requirements.sort_by(|a, b| a.key.len().cmp(&b.key.len()).then_with(|| a.key.cmp(&b.key)));
    Some(requirements)
}

#[cfg(test)]
mod tests {
    use karpenter_aws_api::ec2::ImageState;

    use super::*;

    fn image(id: &str, name: &str, day: &str, deprecated: bool) -> Image {
        Image {
            id: id.into(),
            name: name.into(),
            owner: "self".into(),
            architecture: Architecture::X86_64,
            created_at: format!("2026-01-{day}T00:00:00Z").parse().unwrap(),
            deprecated_at: deprecated.then(|| "2026-01-31T00:00:00Z".parse().unwrap()),
            state: ImageState::Available,
            root_device: None,
            tags: Default::default(),
        }
    }

    fn pick(images: Vec<Image>) -> Vec<String> {
        let candidates = images.into_iter().map(|image| Candidate { image, variant: None }).collect();
        select(candidates, "2026-02-01T00:00:00Z".parse().unwrap()).into_iter().map(|ami| ami.id).collect()
    }

    #[test]
    fn an_older_image_beats_a_deprecated_one_then_age_then_name_decide() {
        assert_eq!(pick(vec![image("1", "a", "01", false), image("2", "b", "02", true)]), ["1"]);
        assert_eq!(pick(vec![image("1", "a", "01", false), image("2", "b", "02", false)]), ["2"]);
        assert_eq!(pick(vec![image("1", "a", "01", false), image("2", "b", "01", false)]), ["2"]);
        assert_eq!(pick(vec![image("1", "a", "01", true), image("2", "b", "02", true)]), ["2"]);
    }

    #[test]
    fn one_image_per_kind_newest_first() {
        let arm = Image { architecture: Architecture::Arm64, ..image("arm", "a", "05", false) };
        let odd =
            Image { architecture: Architecture::Other("i386".into()), ..image("odd", "a", "06", false) };
        assert_eq!(pick(vec![image("x86", "a", "01", false), arm, odd]), ["arm", "x86"]);
    }

    #[test]
    fn of_one_image_the_entry_that_asks_for_the_most_comes_first() {
        let variants = [Variant::Neuron, Variant::Standard];
        let serving = |variant| Candidate { image: image("1", "a", "01", false), variant: Some(variant) };
        let amis = select(variants.map(serving).into(), "2026-02-01T00:00:00Z".parse().unwrap());
        let counts: Vec<_> = amis.iter().map(|ami| ami.requirements.len()).collect();
        assert_eq!(counts, [3, 2]);
    }

    #[test]
    fn requirement_order_is_shortest_key_first() {
        let candidates =
            vec![Candidate { image: image("1", "a", "01", false), variant: Some(Variant::Standard) }];
        let amis = select(candidates, "2026-02-01T00:00:00Z".parse().unwrap());
        let keys: Vec<_> = amis[0].requirements.iter().map(|r| r.key.as_str()).collect();
        let expected = [label::ARCH, aws::INSTANCE_GPU_COUNT, aws::INSTANCE_ACCELERATOR_COUNT];
        assert_eq!(keys, expected);
    }
}
