//! Whatever a claim turns into, its pods can run there: the claim is at least as narrow as they ask.

use karpenter_model::{Launch, Requirement};

use crate::finding::{Finding, Rule};
use crate::world::{World, stated};

pub(crate) fn check_launch(world: &World<'_>, launch: &Launch, findings: &mut Vec<Finding>) {
    for pod in world.pods_of(launch) {
        let satisfied = stated(pod, world.registry()).iter().any(|wanted| implies(launch, wanted));
        if !satisfied {
            let detail = format!("{} does not imply what the pod asks for", launch.requirements);
            findings.push(Finding::new(Rule::Requirements, &pod.key, detail));
        }
    }
}

/// Returns whether every machine the claim may become satisfies `wanted`: each requirement is no wider than
/// asked, and a label the claim sets itself has an allowed value.
fn implies(launch: &Launch, wanted: &[Requirement]) -> bool {
    wanted.iter().all(|asked| {
        let key = asked.key();
        let labelled = launch.labels.get(key).is_none_or(|value| asked.allows(value.as_str()));
        let narrow = match launch.requirements.get(key.as_str()) {
            Some(own) => own.intersection(asked).with_min_values(None) == own.clone().with_min_values(None),
            None => asked.accepts_absence(),
        };
        labelled && narrow
    })
}
