//! The reason that got a pod furthest is the greatest of those for which pools refuse it: it is the one
//! that is reported.

use karpenter_model::{PodOutcome, PoolRefusal};

/// Two sizes of machines, and volumes nothing can reach.
const CLUSTER: &str = "\
    type small cpu=2 mem=4Gi pods=10 od=0.10 zones=a,b\n\
    type large cpu=8 mem=16Gi pods=40 od=0.40 zones=a,b\n\
    volume in-c at=zone:In:c\n\
    volume none at=rack:In:x\n";

/// The reported refusal, as `pool code`, or several.
fn told(pools: &str, pod: &str) -> Vec<String> {
    let snapshot = karpenter_testkit::snapshot(&format!("{CLUSTER}{pools}pod p {pod}\n"));
    let (_, report) = karpenter_engine::plan(&snapshot);
    let outcome = report.pods.values().next().expect("there is one pod");
    let refusals = match outcome {
        PodOutcome::Unschedulable(refusals) => refusals.as_slice(),
        _ => &[],
    };
    let closest = refusals.iter().map(|refusal| refusal.reason.code).max();
    let text = |refusal: &PoolRefusal| {
        let pool = refusal.pool.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{pool} {}", refusal.reason.code)
    };
    refusals.iter().filter(|refusal| Some(refusal.reason.code) == closest).map(text).collect()
}

#[test]
fn the_pool_that_gets_the_pod_furthest_speaks() {
    let gpu = "pool gpu types=* taint=gpu:NoSchedule label=for=gpu\n";
    let team = "pool team types=* label=for=team\n";
    let full = "pool full types=* limit=cpu=1\n";
    let arm = "pool arm types=* require=arch:In:arm64\n";
    let tiny = "pool tiny types=small\n";
    let varied = "pool varied types=* require=type:Exists/min=2\n";
    let table = [
        // The pool the pod selects has a taint; that others are not for it is no news.
        ([gpu, team, full], "cpu=1 select=for=gpu", vec!["gpu Taint"]),
        // A taint and the wrong labels: the labels are what is wrong.
        ([gpu, team, ""], "cpu=1 select=for=nothing", vec!["team Requirements", "gpu Requirements"]),
        // Volumes that are never there are worse than a taint.
        ([gpu, team, ""], "cpu=1 volume=none select=for=gpu", vec!["gpu VolumeTopology"]),
        // Too small, but nothing else, is closer than a taint.
        ([gpu, tiny, ""], "cpu=4", vec!["tiny InstanceTypes"]),
        // Full is closer than too small: it would have fitted.
        ([gpu, tiny, full], "cpu=4", vec!["full Limits"]),
        // A full pool whose types would not do anyway does not blame the limit.
        ([gpu, full, ""], "cpu=40", vec!["full InstanceTypes"]),
        ([full, gpu, ""], "cpu=1 volume=in-c", vec!["full InstanceTypes"]),
        // Rules about other pods are asked last.
        ([gpu, full, team], "cpu=1 label=app=x affinity=zone/app=absent", vec!["team Topology"]),
        ([gpu, arm, tiny], "cpu=1 affinity=zone/app=absent", vec!["tiny Topology"]),
        // Too few types left is closer than a limit.
        ([full, varied, ""], "cpu=4", vec!["varied MinValues"]),
    ];
    for (pools, pod, expected) in table {
        assert_eq!(told(&pools.concat(), pod), expected, "{pod} in {pools:?}");
    }
}
