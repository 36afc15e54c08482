//! A claim matches the template of its pool (spec scheduling 21).

use karpenter_model::Launch;
use karpenter_model::names::{annotation, label};

use crate::finding::{Finding, Rule};
use crate::world::World;

pub(crate) fn check(world: &World<'_>, launch: &Launch, findings: &mut Vec<Finding>) {
    let mut find = |rule, detail: String| findings.push(Finding::new(rule, launch.bin, detail));
    let Some(pool) = world.pool(&launch.pool) else {
        find(Rule::Unusable, format!("pool `{}` does not exist", launch.pool));
        return;
    };
    if !pool.ready || pool.deleting || pool.replicas.is_some() {
        find(Rule::Unusable, format!("pool `{}` takes no new machines", launch.pool));
    }
    let template = &pool.template;
    let types = world.types_of(launch);
    let copied = [
        ("hash", launch.pool_hash == pool.hash),
        ("taints", launch.taints == template.taints),
        ("startup taints", launch.startup_taints == template.startup_taints),
        ("node class", launch.node_class == template.node_class),
        ("expireAfter", launch.expire_after == template.expire_after),
        ("labels", template.labels.iter().all(|(key, value)| launch.labels.get(key) == Some(value))),
        ("pool label", launch.labels.get(label::NODE_POOL).is_some_and(|name| *name == pool.name.as_str())),
        ("hash annotation", launch.annotations.get(annotation::POOL_HASH) == Some(&pool.hash)),
    ];
    for (part, same) in copied {
        if !same {
            find(Rule::Template, format!("{part} differs from pool `{}`", pool.name));
        }
    }
    for (key, applied) in [
        (annotation::PRICE_OVERLAY_APPLIED, types.iter().any(|known| known.overlaid.price)),
        (annotation::CAPACITY_OVERLAY_APPLIED, types.iter().any(|known| known.overlaid.capacity)),
    ] {
        let written = template.annotations.get(key).map(String::as_str);
        if launch.annotations.get(key).map(String::as_str) != if applied { Some("true") } else { written } {
            find(
                Rule::Template,
                format!("annotation `{key}` does not say whether overlays applied: {applied}"),
            );
        }
    }
    for key in [label::HOSTNAME, label::REGISTERED, label::INITIALIZED] {
        if launch.requirements.contains(key) {
            find(Rule::Template, format!("requirements mention `{key}`"));
        }
    }
}
