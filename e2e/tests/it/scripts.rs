//! The two scripts refuse what cannot work in one line, before a build that takes minutes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};

use karpenter_e2e::prepare;

fn on_path(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("no `{program}` on PATH"))
}

/// Runs a script with the programs it needs to look around, and others as stubs: what builds would fail.
fn run(script: &str, arguments: &[&str], stubs: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    for name in ["bash", "dirname", "df", "awk"] {
        symlink(on_path(name), folder.path().join(name)).unwrap();
    }
    for (name, body) in stubs {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!{}\n{body}\n", folder.path().join("bash").display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let script = prepare::cache::repository().join("scripts").join(script);
    let mut command = Command::new(folder.path().join("bash"));
    command.arg(script).args(arguments).env("PATH", folder.path());
    // Variables chosen for these tests are not in a newcomer's environment.
    command.env_remove("KARPENTER_CONTAINERS").env_remove("KUBEBUILDER_ASSETS").output().unwrap()
}

fn refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

#[test]
fn a_demo_in_containers_without_an_engine_is_refused_before_the_build() {
    let stubs = [("docker", "exit 1"), ("cargo", "exit 3")];
    for arguments in [&["--cluster", "kind", "--aws", "moto"][..], &["--aws=localstack"]] {
        refused(
            &run("demo", arguments, &stubs),
            &["missing: a running Docker engine", "KARPENTER_CONTAINERS=own"],
        );
    }
}

#[test]
fn a_control_plane_without_go_is_refused_before_the_build() {
    let stubs = [("docker", "exit 0"), ("python3", "exit 0"), ("cargo", "exit 3")];
    for (script, arguments) in
        [("test", &[][..]), ("demo", &["--cluster", "local"]), ("demo", &["--cluster=kind", "--aws", "moto"])]
    {
        refused(&run(script, arguments, &stubs), &["missing: go (Go 1.25 or newer"]);
    }
}

#[test]
fn an_old_python_is_refused_before_the_build() {
    let stubs = [("python3", "exit 1"), ("cargo", "exit 3"), ("go", "exit 3")];
    for (script, arguments) in [("test", &[][..]), ("demo", &["--cluster", "local"][..])] {
        refused(&run(script, arguments, &stubs), &["missing: Python 3.11"]);
    }
}
