//! Nodes that are not what was promised: in every way, with every policy of consolidation, over changes of leader. Whatever
//! comes together, no more nodes are bought for a workload that they do not serve than docs/promises.md says.
//!
//! Each variation is a scenario of one workload, made of its number alone. `SWEPT_VARIATIONS` says how many there are.

use std::sync::atomic::{AtomicUsize, Ordering};

use fastrand::Rng;
use karpenter_sim::scenario::play;
use karpenter_sim::scenario::read::read;

use crate::each;

/// Number of variations in the edit loop: each difference twice.
const VARIATIONS: u64 = 14;
/// Variations that showed a mistake: of the controller (`docs/simulation.md`), and of the rule, which held nodes to serve nothing
/// on which one of several pods ran.
const ONCE_BROKEN: [u64; 2] = [25, 48];
/// Duration of each: holds of a day have begun by then.
const MINUTES: u32 = 40;
/// Nodes that may be bought for a workload which none of them serves.
const UNSERVING: usize = 3;

/// One workload and the nodes it gets.
struct Variation {
    text: String,
    /// Pods that wait at once may get a node each.
    nodes_of_a_plan: usize,
}

#[test]
fn a_workload_that_nodes_do_not_serve_costs_three_of_them() {
    let wanted = karpenter_testkit::number("SWEPT_VARIATIONS").unwrap_or(VARIATIONS);
    let again = ONCE_BROKEN.into_iter().filter(|number| *number >= wanted);
    let numbers: Vec<u64> = (0..wanted).chain(again).collect();
    let (most, held) = (AtomicUsize::new(0), AtomicUsize::new(0));
    each(&numbers, |number| {
        let Variation { text, nodes_of_a_plan } = variation(*number);
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        std::fs::write(file.path(), &text).unwrap();
        let scenario = read(file.path()).unwrap();
        let played = play(&scenario, *number, false).unwrap();
        assert!(played.failures.is_empty(), "variation {number}: {:#?}\n{text}", played.failures);
        let (bought, waiting) = played.recording.at_the_end();
        // While a workload waits, all that was bought for it does not serve it. The rule of the simulation counts the rest.
        if waiting > 0 {
            let allowed = UNSERVING.max(nodes_of_a_plan);
            assert!(bought <= allowed, "variation {number}: {bought} nodes, not {allowed}\n{text}");
            most.fetch_max(bought, Ordering::Relaxed);
            held.fetch_add(1, Ordering::Relaxed);
        }
    });
    let (most, held) = (most.into_inner(), held.into_inner());
    println!(
        "{} variations; {held} workloads were never served, and cost {most} nodes at most",
        numbers.len()
    );
    assert!(held > 1, "only {held} workloads are not served: nothing is held back");
}

/// The variation of this number: its difference and policy go by the number, so that each comes with each.
fn variation(number: u64) -> Variation {
    let mut random = Rng::with_seed(number);
    let choose = |of: u64, from: u64| usize::try_from(from % of).unwrap();
    let percent = random.u32(1..=50);
    let mut replicas = [1, 1, 2, 6][random.usize(..4)];
    let [mut cpu, mut memory, mut disk] = ["500m", "512Mi", "1Gi"];
    let [mut affinity, mut daemon, mut kubelet] = [const { String::new() }; 3];
    let difference = match choose(7, number) {
        0 => {
            memory = ["3Gi", "6Gi", "13Gi"][random.usize(..3)];
            format!("room: {{memory: -{percent}%}}")
        }
        1 => {
            cpu = ["1800m", "3700m", "7500m"][random.usize(..3)];
            format!("room: {{cpu: -{percent}%}}")
        }
        2 => {
            (kubelet, replicas) = ("kubelet: {maxPods: 8}".to_owned(), 6);
            format!("room: {{pods: -{percent}%}}")
        }
        3 => {
            AFFINITY.clone_into(&mut affinity);
            format!("withoutLabels: [{SELECTED}]")
        }
        4 => {
            daemon = DAEMON.replace("<cpu>", ["1200m", "3", "6"][random.usize(..3)]);
            cpu = ["1", "1500m"][random.usize(..2)];
            "labels: {example.com/agent: wanted}".to_owned()
        }
        5 => "taints: [{key: example.com/agent-not-ready, effect: NoSchedule}]".to_owned(),
        _ => {
            disk = "60Gi";
            format!("hardware: {{ephemeral-storage: -{percent}%}}")
        }
    };
    let disruption = [
        "consolidationPolicy: WhenEmpty, consolidateAfter: 0s",
        "consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 30s",
        "consolidationPolicy: Balanced, consolidateAfter: 1m",
        "consolidationPolicy: WhenEmpty, consolidateAfter: Never",
        "consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s",
    ][choose(5, number / 7)];
    let some = if random.u32(..3) == 0 { "count: 2, " } else { "" };
    let capacity = ["on-demand", "spot, on-demand"][random.usize(..2)];
    let every = random.u32(40..400);
    let times = [0, 4, 8][random.usize(..3)].min(MINUTES * 60 / every);
    let restart = format!("  - {{at: {every}s, restart: {{}}, repeat: {{every: {every}s, times: {times}}}}}");
    let parts = [
        ("<number>", number.to_string()),
        ("<minutes>", MINUTES.to_string()),
        ("<kubelet>", kubelet),
        ("<daemon>", daemon),
        ("<affinity>", affinity),
        ("<capacity>", capacity.to_owned()),
        ("<disruption>", disruption.to_owned()),
        ("<replicas>", replicas.to_string()),
        ("<requests>", format!("cpu: {cpu}, memory: {memory}, ephemeral-storage: {disk}")),
        ("<difference>", format!("{some}{difference}")),
        ("<restart>", if times > 0 { restart } else { String::new() }),
    ];
    let text = parts.iter().fold(WORLD.to_owned(), |text, (part, with)| text.replace(part, with));
    Variation { text, nodes_of_a_plan: replicas }
}

const WORLD: &str = "name: variation <number>
manifests:
  - apiVersion: karpenter.k8s.aws/v1
    kind: EC2NodeClass
    metadata: {name: default}
    spec:
      role: KarpenterNodeRole-demo
      amiSelectorTerms: [{alias: al2023@latest}]
      subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
      securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
      blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 80Gi, volumeType: gp3}}]
      <kubelet>
  - apiVersion: karpenter.sh/v1
    kind: NodePool
    metadata: {name: general}
    spec:
      template:
        spec:
          nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
          expireAfter: Never
          requirements:
            - {key: kubernetes.io/arch, operator: In, values: [amd64]}
            - {key: karpenter.sh/capacity-type, operator: In, values: [<capacity>]}
            - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
      disruption: {<disruption>, budgets: [{nodes: '100%'}]}
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      replicas: <replicas>
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec:
          <affinity>
          containers:
            - name: c
              image: registry.example.com/web:1
              resources: {requests: {<requests>}}
<daemon>
duration: <minutes>m
timeline:
  - {at: 0s, differ: {<difference>}}
<restart>
expect:
  - nodes: {atMost: 12}
    when: always
";

/// Affinity of pods that select a label.
const AFFINITY: &str = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: \
     [{key: karpenter.k8s.aws/instance-cpu-manufacturer, operator: Exists}]}]}}}";
/// The label.
const SELECTED: &str = "karpenter.k8s.aws/instance-cpu-manufacturer";

/// A daemon set for nodes that get a label from something else, once they are there.
const DAEMON: &str = "  - apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: agent}
    spec:
      selector: {matchLabels: {app: agent}}
      template:
        metadata: {labels: {app: agent}}
        spec:
          nodeSelector: {example.com/agent: wanted}
          tolerations: [{operator: Exists}]
          priorityClassName: system-node-critical
          containers: [{name: c, image: registry.example.com/agent:1, resources: {requests: {cpu: <cpu>}}}]
";
