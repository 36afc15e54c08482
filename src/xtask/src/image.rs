//! The image against the chart and the workspace: what one says about user, ports, program and versions, the others
//! must say too.

use std::fs;

use serde_json::Value;

fn file(path: &str) -> String {
    fs::read_to_string(crate::repository_root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The rest of the only line of the Dockerfile that starts with `word`.
fn instruction(word: &str) -> String {
    let text = file("Dockerfile");
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(&format!("{word} "))).collect();
    assert_eq!(lines.len(), 1, "one `{word}` in the Dockerfile");
    lines[0].to_owned()
}

/// The value behind `key = "` in a manifest of cargo.
fn manifest(path: &str, key: &str) -> String {
    let text = file(path);
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key} = \"")));
    line.and_then(|rest| rest.strip_suffix('"')).unwrap_or_else(|| panic!("{path}: no `{key}`")).to_owned()
}

#[test]
fn the_image_runs_the_binary_as_the_charts_user_and_starts_the_controller() {
    let deployment = file("charts/karpenter/templates/deployment.yaml");
    let number = |key: &str| {
        let line = deployment.lines().find_map(|line| line.trim().strip_prefix(&format!("{key}: ")));
        line.unwrap_or_else(|| panic!("no `{key}`")).to_owned()
    };
    assert_eq!(instruction("USER"), format!("{}:{}", number("runAsUser"), number("runAsGroup")));
    assert!(file("src/cli/Cargo.toml").contains("[[bin]]\nname = \"karpenter\"\n"));
    assert_eq!(instruction("ENTRYPOINT"), r#"["/karpenter"]"#);
    assert_eq!(instruction("CMD"), r#"["controller"]"#);
    assert_eq!(instruction("COPY --from=build"), "/karpenter /karpenter");
}

#[test]
fn the_image_exposes_the_charts_ports() {
    let schema: Value = serde_json::from_str(&file("charts/karpenter/values.schema.json")).unwrap();
    let controller = &schema["properties"]["controller"]["properties"];
    let port = |name: &str| controller[name]["properties"]["port"]["default"].clone();
    assert_eq!(instruction("EXPOSE"), format!("{} {}", port("metrics"), port("healthProbe")));
}

#[test]
fn versions_are_those_of_the_workspace() {
    let version = manifest("Cargo.toml", "version");
    for chart in ["karpenter", "karpenter-crd"] {
        let text = file(&format!("charts/{chart}/Chart.yaml"));
        assert!(text.contains(&format!("\nversion: {version}\nappVersion: {version}\n")), "{chart}");
    }
    let toolchain = manifest("Cargo.toml", "rust-version");
    assert!(file("Dockerfile").contains(&format!("\nFROM rust:{toolchain}-alpine AS build\n")));
}

#[test]
fn the_build_sees_every_folder_of_the_workspace() {
    let ignored = file(".dockerignore");
    for needed in ["Cargo.lock", "Cargo.toml", "src", "e2e"] {
        assert!(ignored.contains(&format!("\n!{needed}\n")), "{needed}");
    }
}
