//! Programs that pipelines call: the script of the action `karpenter-plan`, and the command of the hook for pre-commit.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const POOL: &str = include_str!("../../../../docs/examples/nodepool.yaml");
const PODS: &str = include_str!("../../../../docs/examples/inflate.yaml");

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the script on a folder with these files; returns its output, its exit code and the plan it wrote.
fn planned(files: &[(&str, &str)], flags: &[&str]) -> (String, Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let deploy = folder.path().join("deploy");
    std::fs::create_dir(&deploy).expect("a folder can be made");
    for (name, text) in files {
        std::fs::write(deploy.join(name), text).expect("a file can be written");
    }
    let script = repository().join(".github/actions/karpenter-plan/plan.sh");
    let output = Command::new(script)
        .current_dir(folder.path())
        .args(["--karpenter", env!("CARGO_BIN_EXE_karpenter"), "--report", "report"])
        .args(flags)
        .arg("deploy")
        .output()
        .expect("the script starts");
    let plan = std::fs::read_to_string(folder.path().join("report/plan.md")).unwrap_or_default();
    (format!("{}{}", text(&output.stdout), text(&output.stderr)), output.status.code(), plan)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_script_of_the_action_plans_annotates_and_fails_as_it_is_asked_to() {
    let pods = PODS.replace("replicas: 0", "replicas: 3");
    let good = [("pool.yaml", POOL), ("pods.yaml", pods.as_str())];
    let (said, code, plan) = planned(&good, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(plan.contains("**Nodes would change, no pod would stay pending.**"), "{plan}");
    let (said, code, _) = planned(&good, &["--fail-on", "changes"]);
    assert_eq!(code, Some(5), "{said}");
    let wrong = POOL.replace("operator: Gt", "operator: GreaterThan");
    let (said, code, _) = planned(&[("pool.yaml", &wrong)], &[]);
    // No plan is made with what an API server refuses, and the annotation says where it is.
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("::error file=deploy/pool.yaml,line=14,title=NodePool/general"), "{said}");
    let weighted = POOL.replace("  limits:", "  weight: 10\n  limits:");
    let (said, code, _) = planned(&[("pool.yaml", &weighted)], &[]);
    assert_eq!(code, Some(0), "a warning is shown and fails nothing: {said}");
    assert!(said.contains("::warning file=deploy/pool.yaml,line=17,"), "{said}");
}

#[test]
fn the_hook_for_pre_commit_lints_the_files_of_a_commit() {
    let hooks = std::fs::read_to_string(repository().join(".pre-commit-hooks.yaml")).unwrap();
    let entry = hooks.lines().find_map(|line| line.trim().strip_prefix("entry: karpenter ")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.yaml"), POOL).unwrap();
    std::fs::write(folder.path().join("b.yaml"), POOL.replace("consolidateAfter:", "consolidateafter:"))
        .unwrap();
    let run = |files: &[&str]| -> Output {
        let mut program = Command::new(env!("CARGO_BIN_EXE_karpenter"));
        program.current_dir(folder.path()).args(entry.split(' ')).args(files).output().unwrap()
    };
    let output = run(&["a.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let output = run(&["a.yaml", "b.yaml"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("(unknown-field), b.yaml:"), "{}", text(&output.stdout));
}
