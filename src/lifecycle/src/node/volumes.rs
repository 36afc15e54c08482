//! Volume attachments that a drained node still has to wait for (spec disruption 2.5).
//!
//! Volumes of pods that stay on the node until the end (they tolerate the taint, are static or are stuck) will not
//! detach before the machine is gone, so no drain waits for them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use karpenter_model::{Namespace, Pod, VolumeClaimName};

/// One `VolumeAttachment` of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    pub name: String,
    /// Name of the attached persistent volume; inline volumes have none and are ignored.
    pub volume: Option<String>,
}

/// Names of the attachments to wait for, in name order. `volume_of` resolves a volume claim to the name of its
/// volume; a claim it does not have is skipped.
pub fn blocking<'a>(
    attachments: &[Attachment],
    pods: impl IntoIterator<Item = &'a Pod>,
    volume_of: impl Fn(&Namespace, &VolumeClaimName) -> Option<String>,
    now: Timestamp,
) -> Vec<String> {
    let staying: BTreeSet<String> = pods
        .into_iter()
        .filter(|pod| !pod.is_drainable(now))
        .flat_map(|pod| pod.volumes.iter().filter_map(|claim| volume_of(&pod.key.namespace, &claim.name)))
        .collect();
    let mut names: Vec<String> = attachments
        .iter()
        .filter(|one| one.volume.as_ref().is_some_and(|volume| !staying.contains(volume)))
        .map(|one| one.name.clone())
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use karpenter_model::{PodKey, Toleration, VolumeClaim};

    use super::*;

    fn pod(name: &str, claim: &str, tolerates: bool) -> Pod {
        let mut pod = Pod::pending(PodKey::new("ns", name), name, Timestamp::UNIX_EPOCH);
        pod.volumes = vec![VolumeClaim { name: claim.into() }];
        if tolerates {
            pod.tolerations = vec![Toleration::everything()];
        }
        pod
    }

    fn attachment(name: &str, volume: Option<&str>) -> Attachment {
        Attachment { name: name.to_owned(), volume: volume.map(ToOwned::to_owned) }
    }

    #[test]
    fn waits_for_volumes_of_pods_that_leave_and_of_no_pod_at_all() {
        let attachments = [
            attachment("of-nobody", Some("pv-orphan")),
            attachment("of-leaving", Some("pv-data")),
            attachment("of-staying", Some("pv-agent")),
            attachment("inline", None),
        ];
        let pods = [pod("web", "data", false), pod("agent", "agent", true), pod("odd", "missing", true)];
        let volume_of = |_: &Namespace, claim: &VolumeClaimName| {
            (claim.as_str() != "missing").then(|| format!("pv-{claim}"))
        };
        let names = blocking(&attachments, &pods, volume_of, Timestamp::UNIX_EPOCH);
        assert_eq!(names, ["of-leaving", "of-nobody"]);
    }
}
