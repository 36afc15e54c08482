//! Running and stopping pods.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use karpenter_model::clock::later;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{Machine, Pass, hash};
use crate::apiserver::object::rfc3339;

impl Pass<'_> {
    /// Lets a bound pod run once its images had time to arrive.
    pub(super) async fn start_pod(&mut self, pod: &Pod, machine: &Machine) {
        let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or("Pending");
        if phase != "Pending" || !self.is_due(later(bound_at(pod), self.agent.options.pod_start)) {
            return;
        }
        let patch = json!({"status": running(pod, machine, &rfc3339(self.now))});
        let pods: Api<Pod> = Api::namespaced(self.agent.client.clone(), &pod.namespace().unwrap_or_default());
        let started =
            pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await;
        self.report("start pod", &pod.name_any(), started);
    }

    /// Ends a running pod whose containers have all ended and are not started again.
    pub(super) async fn end_pod(&mut self, pod: &Pod) {
        let Some((started, end)) = started(pod).zip(end(pod)) else { return };
        if !self.is_due(later(started, end.after)) {
            return;
        }
        let patch = json!({"status": ended(pod, end.fails, &rfc3339(self.now))});
        let pods: Api<Pod> = Api::namespaced(self.agent.client.clone(), &pod.namespace().unwrap_or_default());
        let ended =
            pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await;
        self.report("end pod", &pod.name_any(), ended);
    }

    /// Removes a deleted pod once its processes have stopped.
    pub(super) async fn stop_pod(&mut self, pod: &Pod) {
        let Some(deadline) = pod.metadata.deletion_timestamp.as_ref().map(|t| t.0) else { return };
        let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or(0));
        let begun = deadline.checked_sub(grace).unwrap_or(deadline);
        let stopped = self.agent.options.pod_stop.map_or(deadline, |stop| later(begun, stop).min(deadline));
        if self.is_due(stopped) {
            self.remove_pod(pod).await;
        }
    }

    /// Removes the pods of a node that no longer exists.
    pub(super) async fn collect_pods(&mut self, node: &str) {
        let pods = self.view.pods_on(node);
        if pods.is_empty() || self.view.node(node).is_some() {
            self.notes.lock().nodes_missing_since.remove(node);
            return;
        }
        let since = *self.notes.lock().nodes_missing_since.entry(node.to_owned()).or_insert(self.now);
        if self.is_due(later(since, self.agent.options.pod_collection)) {
            for pod in pods {
                self.remove_pod(&pod).await;
            }
        }
    }
}

fn bound_at(pod: &Pod) -> Timestamp {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let scheduled = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "True");
    let bound = scheduled.and_then(|c| c.last_transition_time.as_ref()).map(|t| t.0);
    bound.or_else(|| pod.creation_timestamp().map(|t| t.0)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns the time at which a running pod was started.
fn started(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref().filter(|status| status.phase.as_deref() == Some("Running"))?;
    status.start_time.as_ref().map(|time| time.0)
}

/// End of a container or of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    after: Duration,
    fails: bool,
}

/// Returns the end of a pod whose containers all end and are not started again: that of the last one.
fn end(pod: &Pod) -> Option<End> {
    let spec = pod.spec.as_ref()?;
    let restarts = spec.restart_policy.as_deref().unwrap_or("Always");
    let of = |container: &Container| {
        let words = container.command.iter().chain(&container.args).flatten().map(String::as_str);
        program(&words.collect::<Vec<_>>())
    };
    let all = spec.containers.iter().map(of).try_fold(
        End { after: Duration::ZERO, fails: false },
        |last, one| {
            let one = one?;
            Some(End { after: last.after.max(one.after), fails: last.fails || one.fails })
        },
    )?;
    (restarts == "Never" || restarts == "OnFailure" && !all.fails).then_some(all)
}

/// Returns the end of a program. No process runs, so only those count whose end their words state.
fn program(words: &[&str]) -> Option<End> {
    match words {
        [shell, "-c", script] | [shell, "-c", "--", script]
            if matches!(name(shell), "sh" | "bash" | "ash") =>
        {
            let mut all = End { after: Duration::ZERO, fails: false };
            for command in script.split([';', '\n']).flat_map(|line| line.split("&&")) {
                let words: Vec<&str> = command.split_whitespace().collect();
                let one = if words.is_empty() { continue } else { program(&words)? };
                all = End { after: all.after + one.after, fails: one.fails };
                if one.fails || words.first() == Some(&"exit") {
                    break;
                }
            }
            Some(all)
        }
        [command, rest @ ..] => match (name(command), rest) {
            ("sleep", [time]) => Some(End { after: slept(time)?, fails: false }),
            ("true" | "echo" | ":", _) | ("exit", [] | ["0"]) => {
                Some(End { after: Duration::ZERO, fails: false })
            }
            ("false", _) | ("exit", [_]) => Some(End { after: Duration::ZERO, fails: true }),
            _ => None,
        },
        [] => None,
    }
}

/// The program's name without the folder.
fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// `30`, `30s`, `5m` and `1h`, as `sleep` has them.
fn slept(time: &str) -> Option<Duration> {
    let unit = |suffix: char, seconds: u64| time.strip_suffix(suffix).map(|number| (number, seconds));
    let (number, seconds) = unit('s', 1).or(unit('m', 60)).or(unit('h', 3_600)).unwrap_or((time, 1));
    Some(Duration::from_secs(number.parse::<u64>().ok()?.checked_mul(seconds)?))
}

/// The status of a pod whose containers have ended.
fn ended(pod: &Pod, fails: bool, now: &str) -> Value {
    let (phase, why) = if fails { ("Failed", "Error") } else { ("Succeeded", "Completed") };
    let reason = if fails { "PodFailed" } else { "PodCompleted" };
    let condition =
        |kind: &str| json!({"type": kind, "status": "False", "reason": reason, "lastTransitionTime": now});
    let containers = pod.spec.as_ref().map(|s| s.containers.as_slice()).unwrap_or_default();
    let status = |c: &Container| {
        let terminated = json!({"exitCode": i32::from(fails), "reason": why, "finishedAt": now});
        json!({
            "name": c.name, "image": c.image.as_deref().unwrap_or_default(), "imageID": "", "ready": false,
            "started": false, "restartCount": 0, "state": {"running": null, "terminated": terminated},
        })
    };
    let conditions = ["Ready", "ContainersReady"].map(condition);
    json!({
        "phase": phase, "conditions": conditions,
        "containerStatuses": containers.iter().map(status).collect::<Vec<_>>(),
    })
}

fn running(pod: &Pod, machine: &Machine, now: &str) -> Value {
    let containers = pod.spec.as_ref().map(|s| s.containers.as_slice()).unwrap_or_default();
    let ready = containers.iter().all(is_ready);
    let condition = |kind: &str| {
        let holds = ready || !matches!(kind, "Ready" | "ContainersReady");
        json!({"type": kind, "status": if holds { "True" } else { "False" }, "lastTransitionTime": now})
    };
    let kinds = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"];
    let status = |c: &Container| {
        json!({
            "name": c.name, "image": c.image.as_deref().unwrap_or_default(), "imageID": "", "ready": is_ready(c),
            "started": true, "restartCount": 0, "state": {"running": {"startedAt": now}},
        })
    };
    let address = address(pod);
    json!({
        "phase": "Running", "startTime": now, "hostIP": machine.private_ip,
        "hostIPs": [{"ip": machine.private_ip}], "podIP": address, "podIPs": [{"ip": address}],
        "conditions": kinds.map(condition),
        "containerStatuses": containers.iter().map(status).collect::<Vec<_>>(),
    })
}

/// Returns whether the readiness probe of a container succeeds. No process runs, so a port is served if the container declares
/// it; a command succeeds, and so does a container that is not asked.
fn is_ready(container: &Container) -> bool {
    let Some(probe) = &container.readiness_probe else { return true };
    let http = probe.http_get.as_ref().map(|probe| &probe.port);
    let tcp = probe.tcp_socket.as_ref().map(|probe| &probe.port);
    let grpc = probe.grpc.as_ref().map(|probe| IntOrString::Int(probe.port));
    let asked = [http, tcp, grpc.as_ref()];
    asked.into_iter().flatten().all(|port| {
        container.ports.iter().flatten().any(|served| match port {
            IntOrString::Int(number) => served.container_port == *number,
            IntOrString::String(name) => served.name.as_ref() == Some(name),
        })
    })
}

/// An address that only depends on the pod, so that equal runs stay equal.
fn address(pod: &Pod) -> String {
    let [.., a, b, c] = hash(&pod.uid()).to_be_bytes();
    format!("10.{a}.{b}.{c}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_ends_when_all_its_containers_have_ended_and_stay_so() {
        let pod = |policy: &str, containers: Value| -> Pod {
            serde_json::from_value(json!({"spec": {"restartPolicy": policy, "containers": containers}}))
                .expect("a pod")
        };
        let command = |words: &[&str]| json!({"name": "c", "command": words});
        let ends = |seconds: u64, fails| Some(End { after: Duration::from_secs(seconds), fails });
        for (policy, words, expected) in [
            ("Never", &["sleep", "30"][..], ends(30, false)),
            ("OnFailure", &["/bin/sleep", "5m"], ends(300, false)),
            ("Always", &["sleep", "30"], None),
            ("Never", &["sh", "-c", "echo begun; sleep 10 && sleep 1h"], ends(3_610, false)),
            ("Never", &["/bin/bash", "-c", "--", "exit 0; sleep 9"], ends(0, false)),
            ("Never", &["sh", "-c", "sleep 3; exit 2"], ends(3, true)),
            ("OnFailure", &["sh", "-c", "exit 1"], None),
            ("Never", &["false"], ends(0, true)),
            ("Never", &["sh", "-c", "while true; do sleep 30; done"], None),
            ("Never", &["sh", "-c", "trap : TERM; sleep 9"], None),
            ("Never", &["sleep", "infinity"], None),
            ("Never", &["nginx"], None),
            ("Never", &[], None),
        ] {
            assert_eq!(end(&pod(policy, json!([command(words)]))), expected, "{policy} {words:?}");
        }
        let both = json!([command(&["sleep", "5"]), command(&["sleep", "9"])]);
        assert_eq!(end(&pod("Never", both)), ends(9, false));
        let server = json!([command(&["sleep", "5"]), command(&["nginx"])]);
        assert_eq!(end(&pod("Never", server)), None, "one goes on");
    }

    #[test]
    fn a_probe_succeeds_on_a_port_that_is_declared() {
        let container = |probe: Value| -> Container {
            let ports = json!([{"containerPort": 8080, "name": "web"}]);
            let probed = json!({"name": "c", "ports": ports, "readinessProbe": probe});
            serde_json::from_value(probed).expect("a container")
        };
        for (probe, ready) in [
            (json!(null), true),
            (json!({"exec": {"command": ["true"]}}), true),
            (json!({"httpGet": {"port": 8080}}), true),
            (json!({"httpGet": {"port": "web"}}), true),
            (json!({"httpGet": {"port": 81}}), false),
            (json!({"httpGet": {"port": "admin"}}), false),
            (json!({"tcpSocket": {"port": 8080}}), true),
            (json!({"tcpSocket": {"port": 81}}), false),
            (json!({"grpc": {"port": 81}}), false),
        ] {
            assert_eq!(is_ready(&container(probe.clone())), ready, "{probe}");
        }
    }
}
