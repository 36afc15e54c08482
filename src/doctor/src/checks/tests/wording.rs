//! Texts of this controller, from the code that makes them.

use karpenter_model::PodOutcome;
use karpenter_model::report::ReasonCode;

/// A pool that launches in one of two zones.
const ONE_ZONE: &str = "\
    type m cpu=4 mem=16Gi pods=20 od=0.20 zones=a,b\n\
    pool web types=* require=zone:In:a\n\
    volume in-b at=zone:In:b\n";

/// Returns the reason why the first pod that waits among `pods` does.
fn refusal(pods: &str, code: ReasonCode) -> String {
    let snapshot = karpenter_testkit::snapshot(&format!("{ONE_ZONE}{pods}\n"));
    let (_, report) = karpenter_engine::plan(&snapshot);
    let refusals = report.pods.values().find_map(|outcome| match outcome {
        PodOutcome::Unschedulable(refusals) => refusals.first(),
        _ => None,
    });
    let reason = &refusals.expect("a pod waits").reason;
    assert_eq!(reason.code, code, "{reason}");
    reason.to_string()
}

/// The spread counts the zone of a full node, in which the pool cannot launch.
pub(super) fn beyond_the_zone() -> String {
    let pods = "\
        node n1 zone=b cpu=1 mem=1Gi pods=1\n\
        pod c cpu=1 on=n1 label=app=w\n\
        pod p-{1..4} cpu=1 label=app=w spread=zone/1";
    refusal(pods, ReasonCode::Topology)
}

/// The requests are too large.
pub(super) fn too_large() -> String {
    refusal("pod p cpu=40", ReasonCode::InstanceTypes)
}

/// A volume is in a zone in which the pool cannot launch.
pub(super) fn volume_elsewhere() -> String {
    refusal("pod p cpu=1 volume=in-b", ReasonCode::VolumeTopology)
}
