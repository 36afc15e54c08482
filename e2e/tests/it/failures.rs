//! A control plane that cannot start says why, and tries again only where that can help.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use karpenter_e2e::cluster::local::{LocalCluster, Options};
use karpenter_e2e::prepare::Binaries;

/// Programs of which etcd is `script` and the others do not exist.
fn binaries(folder: &Path, script: &str) -> Binaries {
    let etcd = folder.join("etcd.sh");
    std::fs::write(&etcd, format!("#!/bin/sh\necho start >> {}/starts\n{script}\n", folder.display()))
        .unwrap();
    std::fs::set_permissions(&etcd, std::fs::Permissions::from_mode(0o755)).unwrap();
    let missing = PathBuf::from("/nonexistent");
    Binaries {
        etcd,
        kube_apiserver: missing.clone(),
        kube_scheduler: missing.clone(),
        kube_controller_manager: missing,
    }
}

/// The error of a start with `script` as etcd, and how often it was started.
async fn failure(script: &str) -> (String, usize) {
    let scratch = tempfile::tempdir().unwrap();
    let options = Options {
        folder: Some(scratch.path().join("run")),
        binaries: Some(binaries(scratch.path(), script)),
    };
    let Err(error) = LocalCluster::start(options).await else { panic!("a cluster without etcd started") };
    let starts = std::fs::read_to_string(scratch.path().join("starts")).unwrap();
    (format!("{error:#}"), starts.lines().count())
}

#[tokio::test]
async fn a_program_that_ends_early_is_quoted_and_not_retried() {
    let (error, starts) = failure("echo 'fatal: disk on fire' >&2; exit 7").await;
    assert!(error.contains("etcd ended with exit status: 7"), "{error}");
    assert!(error.contains("fatal: disk on fire"), "{error}");
    assert!(error.contains("etcd.log"), "{error}");
    assert_eq!(starts, 1);
}

#[tokio::test]
async fn a_taken_port_is_worth_three_attempts() {
    let (error, starts) = failure("echo 'bind: address already in use' >&2; exit 1").await;
    assert!(error.contains("address already in use"), "{error}");
    assert_eq!(starts, 3);
}
