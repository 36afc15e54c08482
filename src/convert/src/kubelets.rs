//! Kubelet settings of pools, put into their classes.
//!
//! The first settings of a class go into the class itself. Each pool that wants others refers to a copy of it.

use karpenter_api::Ec2NodeClassSpec;
use karpenter_api::ec2nodeclass::KubeletConfiguration;

use crate::fields::Found;
use crate::log::{Kind, Log};
use crate::metadata::Metadata;
use crate::object::Made;

/// An object that was converted, with its log.
pub(crate) struct Converted<'a> {
    pub(crate) made: &'a mut Vec<Made>,
    pub(crate) log: &'a Log,
}

/// Settings and the name of the class that has them.
type Variant = (Option<KubeletConfiguration>, String);

/// Gives every class the settings that the pools of `objects` want for it.
pub(crate) fn settle(objects: &mut [Converted]) {
    for (name, metadata, spec) in classes(objects) {
        let mut variants: Vec<Variant> = Vec::new();
        for object in objects.iter_mut() {
            for made in object.made.iter_mut() {
                let Made::Pool { metadata, pool } = made else { continue };
                let class = &mut pool.spec.template.spec.node_class_ref.name;
                if *class != name {
                    continue;
                }
                let wanted = pool.kubelet.take();
                *class = variant(&mut variants, wanted.as_ref(), &name, &metadata.name);
                say(wanted.as_ref(), class, &name, object.log);
            }
        }
        write(objects, &name, &metadata, &spec, &variants);
    }
    for object in objects.iter_mut() {
        for made in object.made.iter_mut() {
            let Made::Pool { pool, .. } = made else { continue };
            let class = &pool.spec.template.spec.node_class_ref.name;
            if let Some(kubelet) = pool.kubelet.take() {
                let text = format!(
                    "EC2NodeClass `{class}` has these settings in v1 and is not converted with this pool; write into its \
                     `spec.kubelet`: {}",
                    serde_json::to_string(&kubelet.value).unwrap_or_default()
                );
                object.log.at(Kind::Decide, &kubelet.path, kubelet.line, text);
            }
        }
    }
}

fn classes(objects: &[Converted]) -> Vec<(String, Metadata, Ec2NodeClassSpec)> {
    let made = objects.iter().flat_map(|object| object.made.iter());
    made.filter_map(|made| match made {
        Made::Class { metadata, spec } => Some((metadata.name.clone(), metadata.clone(), (**spec).clone())),
        _ => None,
    })
    .collect()
}

/// The name of the class with these settings, which may be a further copy named after the pool.
fn variant(
    variants: &mut Vec<Variant>,
    wanted: Option<&Found<KubeletConfiguration>>,
    class: &str,
    pool: &str,
) -> String {
    let wanted = wanted.map(|found| &found.value);
    if let Some((_, name)) = variants.iter().find(|(settings, _)| settings.as_ref() == wanted) {
        return name.clone();
    }
    let name = if variants.is_empty() { class.to_owned() } else { format!("{class}-{pool}") };
    variants.push((wanted.cloned(), name.clone()));
    name
}

fn say(wanted: Option<&Found<KubeletConfiguration>>, class: &str, original: &str, log: &Log) {
    let is_copy = class != original;
    let why = if is_copy {
        format!(", a copy of `{original}`, because another pool of that class has other kubelet settings")
    } else {
        String::new()
    };
    match wanted {
        Some(found) => {
            let text = format!("-> spec.kubelet of EC2NodeClass `{class}`{why}");
            log.at(Kind::Mapped, &found.path, found.line, text);
        }
        None if is_copy => {
            log.say(Kind::Noted, "spec.template.spec.nodeClassRef", format!("EC2NodeClass `{class}`{why}"));
        }
        None => {}
    }
}

fn write(
    objects: &mut [Converted],
    name: &str,
    metadata: &Metadata,
    spec: &Ec2NodeClassSpec,
    variants: &[Variant],
) {
    let is_this = |made: &Made| matches!(made, Made::Class { metadata, .. } if metadata.name == name);
    for object in objects.iter_mut() {
        let Some(at) = object.made.iter().position(is_this) else { continue };
        let copies: Vec<Made> = variants
            .iter()
            .map(|(kubelet, name)| {
                let spec = Ec2NodeClassSpec { kubelet: kubelet.clone().map(Into::into), ..spec.clone() };
                Made::Class { metadata: metadata.renamed(name), spec: Box::new(spec) }
            })
            .collect();
        if !copies.is_empty() {
            object.made.splice(at..=at, copies);
        }
        return;
    }
}
