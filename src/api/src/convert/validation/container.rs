//! Containers of a pod: names, images, ports, mounts, amounts.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort, Probe};

use super::{Found, names};

/// Checks the containers of one list. `taken` are the names of containers before, `volumes` those of the pod.
pub(super) fn containers(
    list: &[Container],
    is_init: bool,
    path: &str,
    taken: &mut BTreeSet<String>,
    volumes: &BTreeSet<&str>,
    found: &mut Found,
) {
    for (index, one) in list.iter().enumerate() {
        let path = format!("{path}[{index}]");
        name(&one.name, &format!("{path}.name"), found);
        if !one.name.is_empty() && !taken.insert(one.name.clone()) {
            found.duplicate(&format!("{path}.name"), one.name.as_str());
        }
        if one.image.as_deref().unwrap_or_default().is_empty() {
            found.required(&format!("{path}.image"), "");
        }
        let policies = ["Always", "IfNotPresent", "Never"];
        found.one_of(&format!("{path}.imagePullPolicy"), one.image_pull_policy.as_ref(), &policies);
        let restarts: &[&str] =
            if is_init { &["Always", "Never", "OnFailure"] } else { &["Never", "OnFailure"] };
        found.one_of(&format!("{path}.restartPolicy"), one.restart_policy.as_ref(), restarts);
        ports(one.ports.as_deref().unwrap_or_default(), &format!("{path}.ports"), found);
        for (index, variable) in one.env.iter().flatten().enumerate() {
            if variable.name.is_empty() {
                found.required(&format!("{path}.env[{index}].name"), "");
            }
        }
        mounts(one, volumes, &path, found);
        let probes = [
            ("livenessProbe", &one.liveness_probe),
            ("readinessProbe", &one.readiness_probe),
            ("startupProbe", &one.startup_probe),
        ];
        for (field, probe) in probes {
            let field = format!("{path}.{field}");
            if let Some(probe) = probe {
                handlers(probe, &field, found);
            }
            let ends = is_init && one.restart_policy.as_deref() != Some("Always");
            if ends && probe.is_some() {
                found.forbidden(&field, "may not be set for init containers without restartPolicy=Always");
            }
        }
    }
}

/// Checks a name that is a label of DNS.
pub(super) fn name(written: &str, field: &str, found: &mut Found) {
    if written.is_empty() {
        found.required(field, "");
    } else if let Some(why) = names::label(written) {
        found.invalid(field, written, why);
    }
}

fn ports(list: &[ContainerPort], path: &str, found: &mut Found) {
    let mut taken = BTreeSet::new();
    for (index, one) in list.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if let Some(name) = one.name.as_deref().filter(|name| !name.is_empty()) {
            port_name(name, &format!("{path}.name"), found);
            if !taken.insert(name) {
                found.duplicate(&format!("{path}.name"), name);
            }
        }
        let why = "must be between 1 and 65535, inclusive";
        if one.container_port == 0 {
            found.required(&format!("{path}.containerPort"), "");
        } else if !(1..=65_535).contains(&one.container_port) {
            found.invalid(&format!("{path}.containerPort"), one.container_port, why);
        }
        if let Some(port) = one.host_port.filter(|port| !(0..=65_535).contains(port)) {
            found.invalid(&format!("{path}.hostPort"), port, why);
        }
        found.one_of(&format!("{path}.protocol"), one.protocol.as_ref(), &["SCTP", "TCP", "UDP"]);
    }
}

fn handlers(probe: &Probe, path: &str, found: &mut Found) {
    let there =
        [probe.exec.is_some(), probe.grpc.is_some(), probe.http_get.is_some(), probe.tcp_socket.is_some()];
    match there.into_iter().filter(|there| *there).count() {
        0 => found.required(path, "must specify a handler type"),
        1 => {}
        _ => found.forbidden(path, "may not specify more than 1 handler type"),
    }
}

fn port_name(name: &str, field: &str, found: &mut Found) {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let why = if name.len() > 15 {
        "must be no more than 15 characters"
    } else if !name.chars().all(is_letter) {
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    } else if !name.contains(|letter: char| letter.is_ascii_lowercase()) {
        "must contain at least one letter (a-z)"
    } else if name.contains("--") {
        "must not contain consecutive hyphens"
    } else if name.starts_with('-') || name.ends_with('-') {
        "must not begin or end with a hyphen"
    } else {
        return;
    };
    found.invalid(field, name, why);
}

fn mounts(one: &Container, volumes: &BTreeSet<&str>, path: &str, found: &mut Found) {
    let mut taken = BTreeSet::new();
    for (index, mount) in one.volume_mounts.iter().flatten().enumerate() {
        let path = format!("{path}.volumeMounts[{index}]");
        if mount.name.is_empty() {
            found.required(&format!("{path}.name"), "");
        } else if !volumes.contains(mount.name.as_str()) {
            found.not_found(&format!("{path}.name"), &mount.name);
        }
        if mount.mount_path.is_empty() {
            found.required(&format!("{path}.mountPath"), "");
        } else if !taken.insert(mount.mount_path.as_str()) {
            found.invalid(&format!("{path}.mountPath"), mount.mount_path.as_str(), "must be unique");
        }
    }
}
