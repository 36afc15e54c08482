//! A stable text form of plans, commands and reports: one line per fact, in a fixed order.

use std::collections::BTreeMap;
use std::fmt::Write;

use karpenter_model::names::{annotation, label};
use karpenter_model::{
    Command, DeviceGrant, GrantPlace, GrantedDevice, Launch, NodeId, NodeOutcome, Nomination, Plan,
    PodOutcome, PoolOutcome, Report, Target,
};

/// Most instance types a launch line lists.
const SHOWN_TYPES: usize = 6;

/// The text of `plan` and `report`.
pub fn render(plan: &Plan, report: &Report) -> String {
    let mut text = String::new();
    let mut line = |fact: String| {
        text.push_str(&fact);
        text.push('\n');
    };
    for launch in &plan.launches {
        launched(launch).into_iter().for_each(&mut line);
    }
    for nomination in &plan.nominations {
        line(nominated(nomination));
    }
    for command in &plan.commands {
        commanded(command).into_iter().for_each(&mut line);
    }
    for grant in &plan.grants {
        line(granted(grant));
    }
    for (pod, outcome) in &report.pods {
        for fact in pod_outcome(outcome) {
            line(format!("pod {pod} {fact}"));
        }
    }
    for (pool, outcome) in &report.pools {
        if let PoolOutcome::Skipped(reason) = outcome {
            line(format!("pool {pool} skipped: {reason}"));
        }
    }
    text.push_str(&kept(&report.nodes));
    text
}

/// The text of `commands` and of the outcome of each node.
pub fn disruption(commands: &[Command], nodes: &BTreeMap<NodeId, NodeOutcome>) -> String {
    let mut text = String::new();
    for line in commands.iter().flat_map(commanded) {
        text.push_str(&line);
        text.push('\n');
    }
    text.push_str(&kept(nodes));
    text
}

fn kept(nodes: &BTreeMap<NodeId, NodeOutcome>) -> String {
    let mut text = String::new();
    for (node, outcome) in nodes {
        if let NodeOutcome::Kept(reason) = outcome {
            let _ = writeln!(text, "keep {node}: {reason}");
        }
    }
    text
}

fn commanded(command: &Command) -> Vec<String> {
    let nodes: Vec<&str> = command.candidates.iter().map(|gone| gone.target.node.as_str()).collect();
    let mut lines = vec![format!(
        "{} {} method={:?} reason={} saves={}",
        command.decision().as_str(),
        nodes.join(" "),
        command.method,
        command.reason,
        command.savings
    )];
    for nomination in &command.nominations {
        lines.push(format!("  {}", nominated(nomination)));
    }
    lines.extend(command.replacements.iter().flat_map(launched).map(|line| format!("  {line}")));
    lines
}

fn nominated(nomination: &Nomination) -> String {
    let target = match &nomination.target {
        Target::Node(name) => format!("node {name}"),
        Target::Claim(name) => format!("claim {name}"),
    };
    format!("nominate {} to {target}", nomination.pod)
}

fn granted(grant: &DeviceGrant) -> String {
    let place = match &grant.place {
        GrantPlace::Machine(node) => format!("node {node}"),
        GrantPlace::Launch(bin, kind) => format!("{bin} as {kind}"),
    };
    let device = |granted: &GrantedDevice| {
        let GrantedDevice { request, pool, device, .. } = granted;
        let wanted = if request.as_str().contains('/') { format!(" for {request}") } else { String::new() };
        format!("{pool}/{device}{wanted}")
    };
    let devices: Vec<String> = grant.devices.iter().map(device).collect();
    format!("grant {} on {place}: {}", grant.claim, devices.join(" "))
}

fn launched(launch: &Launch) -> Vec<String> {
    let mut first = format!("launch {} pool={}", launch.bin, launch.pool);
    if let Some(cheapest) = &launch.cheapest {
        let (name, zone, capacity) = (&cheapest.instance_type, &cheapest.zone, cheapest.capacity_type);
        let _ = write!(first, " cheapest={name}/{zone}/{capacity}/{}", cheapest.price);
    }
    let mut types: Vec<String> =
        launch.instance_types.iter().take(SHOWN_TYPES).map(ToString::to_string).collect();
    if launch.instance_types.len() > SHOWN_TYPES {
        types.push(format!("+{}", launch.instance_types.len() - SHOWN_TYPES));
    }
    let pods: Vec<String> = launch.pods.iter().map(|pod| pod.name.to_string()).collect();
    let shown = launch.requirements.iter().filter(|requirement| requirement.key() != label::INSTANCE_TYPE);
    let requirements: Vec<String> = shown.map(ToString::to_string).collect();
    let mut lines = vec![
        first,
        format!("  types {}", types.join(" ")),
        format!("  pods {}", pods.join(" ")),
        format!("  requests {}", launch.requests),
        format!("  requirements {}", requirements.join(", ")),
    ];
    let own = launch.labels.iter().filter(|(key, _)| !key.as_str().contains("karpenter"));
    let labels: Vec<String> = own.map(|(key, value)| format!("{key}={value}")).collect();
    if !labels.is_empty() {
        lines.push(format!("  labels {}", labels.join(" ")));
    }
    if launch.annotations.get(annotation::MIN_VALUES_RELAXED).is_some_and(|relaxed| relaxed == "true") {
        lines.push("  minValues relaxed".to_owned());
    }
    if let Some(drivers) = launch.annotations.get(annotation::REQUESTED_DRIVERS) {
        lines.push(format!("  waits for {drivers}"));
    }
    lines
}

fn pod_outcome(outcome: &PodOutcome) -> Vec<String> {
    match outcome {
        PodOutcome::Existing(node) => vec![format!("on node {node}")],
        PodOutcome::InFlight(claim) => vec![format!("on claim {claim}")],
        PodOutcome::New(bin) => vec![format!("on {bin}")],
        PodOutcome::Ignored(reasons) => reasons.iter().map(|reason| format!("ignored: {reason}")).collect(),
        PodOutcome::Unschedulable(refusals) => {
            let refusal = |refusal: &karpenter_model::PoolRefusal| {
                let pool = refusal.pool.as_ref().map(|pool| format!(" in {pool}")).unwrap_or_default();
                format!("waits{pool}: {}", refusal.reason)
            };
            refusals.iter().map(refusal).collect()
        }
    }
}
