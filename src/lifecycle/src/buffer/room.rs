//! The pods that stand for the room of a buffer.

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::{Buffer, DoNotDisrupt, Pod, PodKey, PodOwner, PodTemplate, Taint, Toleration};

/// `count` virtual pods of `buffer`, numbered from 1, each like `like`.
///
/// They ask for what a real pod would ask for, save for volumes, which are never made for them. They wait,
/// have no owner, and give way to all other pods. A node that we have tainted because it is about to be
/// replaced holds their room until its replacement does: otherwise the taint alone would let a plan buy what
/// the replacement brings.
pub fn pods(buffer: &Buffer, like: &Pod, count: u32, now: Timestamp) -> Vec<Pod> {
    let of = Arc::new(buffer.key.clone());
    let template = Arc::new(PodTemplate {
        tolerations: like.tolerations.iter().cloned().chain([of_disruption()]).collect(),
        volumes: Vec::new(),
        owner: PodOwner::None,
        owner_uid: None,
        owner_path: String::new(),
        priority: Some(i32::MIN),
        critical: false,
        disruption_cost: None,
        deletion_cost: 0,
        do_not_disrupt: DoNotDisrupt::No,
        ..PodTemplate::clone(&like.template)
    });
    let pod = |number| {
        let name = format!("capacity-buffer-{}-{number}", buffer.key.name);
        let key = PodKey::new(buffer.key.namespace.as_str(), &name);
        Pod {
            template: Arc::clone(&template),
            buffer: Some(Arc::clone(&of)),
            ..Pod::pending(key, &format!("{}-{number}", buffer.uid), now)
        }
    };
    (1..=count).map(pod).collect()
}

/// Toleration of the taint of nodes that are being replaced or removed.
fn of_disruption() -> Toleration {
    let taint = Taint::disrupted();
    Toleration { key: taint.key, effect: Some(taint.effect), ..Toleration::everything() }
}

#[cfg(test)]
mod tests {
    use karpenter_model::{BufferKey, PodPhase, VolumeClaim};

    use super::*;

    #[test]
    fn they_are_like_the_pattern_and_wait_without_volumes_owner_or_claims_on_anybody() {
        let key = BufferKey::new("shop", "spare");
        let buffer = Buffer {
            key: key.clone(),
            uid: "u1".into(),
            like: None,
            replicas: None,
            percentage: None,
            limits: None,
        };
        let template = PodTemplate {
            labels: [("app".into(), "web".into())].into_iter().collect(),
            node_selector: [("tier".into(), "fast".into())].into_iter().collect(),
            volumes: vec![VolumeClaim { name: "data".into() }],
            owner: PodOwner::DaemonSet,
            owner_uid: Some("set".into()),
            owner_path: "/apis/apps/v1/namespaces/shop/daemonsets/x".to_owned(),
            priority: Some(7),
            critical: true,
            deletion_cost: 9,
            do_not_disrupt: DoNotDisrupt::Always,
            ..PodTemplate::default()
        };
        let like = Pod {
            template: Arc::new(template),
            phase: PodPhase::Running,
            node_name: Some("n".into()),
            nominated_node: Some("n".into()),
            unschedulable: false,
            ready: Some(true),
            ..Pod::pending(PodKey::new("shop", "x"), "", Timestamp::UNIX_EPOCH)
        };
        let now = Timestamp::from_second(9).unwrap();
        let made = pods(&buffer, &like, 2, now);
        let template = PodTemplate {
            labels: like.labels.clone(),
            node_selector: like.node_selector.clone(),
            owner: PodOwner::None,
            tolerations: vec![of_disruption()],
            priority: Some(i32::MIN),
            ..PodTemplate::default()
        };
        let expected = Pod {
            template: Arc::new(template),
            buffer: Some(Arc::new(key)),
            ..Pod::pending(PodKey::new("shop", "capacity-buffer-spare-1"), "u1-1", now)
        };
        assert_eq!(made[0], expected);
        assert!(made[0].is_provisionable() && made[0].is_virtual());
        assert_eq!(made[1].key, PodKey::new("shop", "capacity-buffer-spare-2"));
        assert_eq!(made[1].uid, "u1-2");
        assert_eq!(pods(&buffer, &like, 0, now), []);
    }
}
