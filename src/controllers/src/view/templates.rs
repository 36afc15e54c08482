//! Templates: the common part of pods is kept once. A Deployment of a thousand pods has one set of labels and requests, not
//! a thousand.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use karpenter_model::{OwnerUid, Pod, PodTemplate};

/// Number of templates at which those that are no longer used are looked for.
const MANY: usize = 1024;

/// The template of the pod of each owner that was read last.
#[derive(Default)]
pub(super) struct Templates {
    last: HashMap<OwnerUid, Weak<PodTemplate>>,
    sweep_at: usize,
}

impl Templates {
    /// Has `pod` share the template of another pod of its owner, if they are equal.
    pub(super) fn share(&mut self, pod: &mut Pod) {
        let Some(owner) = pod.owner_uid.clone() else { return };
        match self.last.get(&owner).and_then(Weak::upgrade) {
            Some(known) if known == pod.template => pod.template = known,
            _ => {
                self.last.insert(owner, Arc::downgrade(&pod.template));
                self.sweep();
            }
        }
    }

    /// Owners come and go: what is kept is at most twice what is in use.
    fn sweep(&mut self) {
        if self.last.len() >= self.sweep_at.max(MANY) {
            self.last.retain(|_, template| template.strong_count() > 0);
            self.sweep_at = 2 * self.last.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::PodKey;

    use super::*;

    fn pod(owner: &str) -> Pod {
        let mut pod = Pod::pending(PodKey::new("shop", "web"), "u", jiff::Timestamp::UNIX_EPOCH);
        pod.owner_uid = Some(owner.into());
        pod
    }

    #[test]
    fn pods_of_an_owner_share_what_is_equal_and_nothing_else() {
        let mut templates = Templates::default();
        let (mut one, mut other, mut changed, mut foreign) = (pod("a"), pod("a"), pod("a"), pod("b"));
        changed.priority = Some(1);
        let mut later = changed.clone();
        for pod in [&mut one, &mut other, &mut changed, &mut foreign, &mut later] {
            templates.share(pod);
        }
        assert!(Arc::ptr_eq(&one.template, &other.template));
        assert!(!Arc::ptr_eq(&one.template, &changed.template));
        assert!(!Arc::ptr_eq(&one.template, &foreign.template));
        assert!(Arc::ptr_eq(&changed.template, &later.template), "those of a new revision share again");
        other.priority = Some(2);
        assert_eq!(one.priority, None, "a change of one is its own");
    }

    #[test]
    fn templates_of_owners_that_are_gone_are_forgotten() {
        let mut templates = Templates::default();
        for number in 0..10 * MANY {
            templates.share(&mut pod(&format!("owner-{number}")));
        }
        assert!(templates.last.len() <= MANY, "{}", templates.last.len());
    }
}
