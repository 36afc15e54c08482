//! The event that says where a pod is expected to go.
//!
//! A promise of the plan, not of the scheduler: the pod may go elsewhere, or its claim may never become a Node.

use karpenter_model::names::reason;
use karpenter_model::{Pod, Target};

use crate::step::{About, Event, PodRef};

/// A pod was promised a place.
pub fn nominated(pod: &Pod, target: &Target) -> Event {
    let place = match target {
        Target::Node(node) => format!("node/{node}"),
        Target::Claim(claim) => format!("nodeclaim/{claim}"),
    };
    let message = format!("Pod should schedule on: {place}");
    Event::new(About::Pod(PodRef::of(pod)), reason::NOMINATED, message)
}

#[cfg(test)]
mod tests {
    use karpenter_model::PodKey;

    use super::*;
    use crate::fixture::at;

    #[test]
    fn the_event_names_the_kind_of_the_place_and_its_name() {
        let pod = Pod::pending(PodKey::new("ns", "web"), "uid", at(0));
        for (target, place) in
            [(Target::Node("n".into()), "node/n"), (Target::Claim("c".into()), "nodeclaim/c")]
        {
            let event = nominated(&pod, &target);
            assert_eq!(
                (event.reason, event.message, event.topic),
                ("Nominated", format!("Pod should schedule on: {place}"), None)
            );
        }
    }
}
