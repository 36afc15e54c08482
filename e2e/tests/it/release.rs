//! The files of a release, made by the script that the workflow calls, of the binary under test; installed and used.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use karpenter_e2e::{command_line, manifests, prepare};

/// Runs a program with these arguments in a folder, and returns its output.
fn run(program: &Path, arguments: &[&str], folder: &Path) -> String {
    let Output { status, stdout, stderr } =
        Command::new(program).args(arguments).current_dir(folder).output().expect("the program starts");
    let (said, complained) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{} {arguments:?} ended with {status}:\n{said}{complained}", program.display());
    said.into_owned()
}

/// Makes the files of a release in `dist`.
fn make(dist: &Path, helm: &Path) {
    let script = prepare::cache::repository().join("scripts/release");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new(script)
        .args(["dry-run".as_ref(), command_line::binary().unwrap().as_os_str()])
        .env("DIST", dist)
        .env("PATH", format!("{}:{path}", helm.parent().unwrap().display()))
        .output()
        .expect("the script starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn files_of_a_release_can_be_checked_installed_and_used() {
    let helm = prepare::helm().expect("Helm can be built");
    let folder = tempfile::tempdir().unwrap();
    let dist = folder.path().join("dist");
    make(&dist, &helm);
    let sums = fs::read_to_string(dist.join("SHA256SUMS")).unwrap();
    run("sha256sum".as_ref(), &["--check", "--strict", "SHA256SUMS"], &dist);

    // As krew installs it: the archive of this machine by its checksum, then the program in it.
    let manifest = fs::read_to_string(dist.join("karpenter.yaml")).unwrap();
    let manifest = manifests::documents(&manifest).unwrap().remove(0);
    let version = manifest["spec"]["version"].as_str().unwrap().trim_start_matches('v').to_owned();
    let [platform] = manifest["spec"]["platforms"].as_array().unwrap().as_slice() else {
        panic!("one platform: {manifest}")
    };
    let uri = platform["uri"].as_str().unwrap();
    let archive = uri.rsplit('/').next().unwrap();
    let sum = format!("{}  {archive}\n", platform["sha256"].as_str().unwrap());
    assert!(sums.contains(&sum), "{sum} is not among\n{sums}");
    run("tar".as_ref(), &["--extract", "--gzip", "--file", archive], &dist);
    let program = dist.join(platform["files"][0]["from"].as_str().unwrap());
    assert_eq!(program.file_name(), Some(platform["bin"].as_str().unwrap().as_ref()));
    let said = run(&program, &["version"], &dist);
    assert!(said.starts_with(&format!("karpenter {version}\n")), "{said}");
    assert!(dist.join(platform["files"][1]["from"].as_str().unwrap()).is_file());

    for (chart, kind, set) in [
        ("karpenter-crd", "CustomResourceDefinition", ""),
        (
            "karpenter",
            "Deployment",
            "settings.clusterName=prod,controller.image.repository=example.com/karpenter",
        ),
        ("karpenter-nodepools", "NodePool", "clusterName=prod,nodePools.general.spec.weight=10"),
    ] {
        let package = format!("{chart}-{version}.tgz");
        assert!(sums.contains(&package), "{sums}");
        let rendered =
            run(&helm, &["template", "it", &package, "--kube-version", "1.35.0", "--set", set], &dist);
        assert!(rendered.contains(&format!("kind: {kind}\n")), "{package}: {rendered}");
    }
}

#[test]
fn a_tag_that_is_not_the_version_is_refused() {
    let script = prepare::cache::repository().join("scripts/release");
    let said = run(&script, &["version", &format!("v{}", env!("CARGO_PKG_VERSION"))], Path::new("/"));
    assert_eq!(said.trim_end(), env!("CARGO_PKG_VERSION"));
    let output = Command::new(&script).args(["version", "v99.0.0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("tag v99.0.0 is not v"));
}
