//! The image against the chart and the workspace: what one says about user, ports, program and versions, the others
//! must say too.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn file(path: &str) -> String {
    fs::read_to_string(crate::repository_root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The rest of the only line of the Dockerfile that starts with `word`.
fn instruction(word: &str) -> String {
    let text = file("Dockerfile");
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(word)).collect();
    assert_eq!(lines.len(), 1, "one `{word}` in the Dockerfile");
    lines[0].trim_start().to_owned()
}

/// The instructions of the Dockerfile up to the end of a stage.
fn up_to(stage: &str) -> Vec<String> {
    let text = file("Dockerfile");
    let start = text.find(&format!(" AS {stage}\n")).unwrap_or_else(|| panic!("no stage `{stage}`"));
    let rest = &text[start..];
    let end = start + rest.find("\nFROM ").unwrap_or(rest.len());
    text[..end].lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(str::to_owned).collect()
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
fn the_classic_builder_can_make_the_image_of_a_binary_from_elsewhere() {
    let needed = up_to("prebuilt");
    let known = [
        "ARG ",
        "FROM ${RUNTIME} AS runtime",
        "FROM runtime AS prebuilt",
        "USER ",
        "EXPOSE ",
        "ENTRYPOINT ",
        "CMD ",
        "COPY root/ /",
    ];
    // It runs every stage up to the wanted one, and none that needs a mount, a platform or a compiler.
    for line in &needed {
        assert!(
            known.iter().any(|known| line.starts_with(known)),
            "`{line}` stands before the end of `prebuilt`"
        );
    }
    assert_eq!(instruction("FROM runtime AS"), "prebuilt");
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
    for chart in ["karpenter", "karpenter-crd", "karpenter-nodepools"] {
        let text = file(&format!("charts/{chart}/Chart.yaml"));
        assert!(text.contains(&format!("\nversion: {version}\nappVersion: {version}\n")), "{chart}");
    }
    let toolchain = manifest("Cargo.toml", "rust-version");
    assert_eq!(instruction("ARG TOOLCHAIN="), format!("rust:{toolchain}-alpine"));
}

#[test]
fn the_build_sees_every_folder_of_the_workspace() {
    let ignored = file(".dockerignore");
    for needed in ["Cargo.lock", "Cargo.toml", "src", "e2e"] {
        assert!(ignored.contains(&format!("\n!{needed}\n")), "{needed}");
    }
}

/// Folders and files that reach the build, from `.dockerignore`.
fn sent() -> Vec<String> {
    file(".dockerignore").lines().filter_map(|line| line.strip_prefix('!')).map(str::to_owned).collect()
}

/// Every source file below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace") {
        let path = entry.expect("an entry").path();
        match path.extension().and_then(OsStr::to_str) {
            _ if path.is_dir() && path.file_name().is_some_and(|name| name != "target") => {
                sources(&path, found);
            }
            Some("rs") => found.push(path),
            _ => {}
        }
    }
}

#[test]
fn the_build_sees_every_file_that_is_compiled_in() {
    let root = crate::repository_root();
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    let mut compiled_in = 0;
    for source in files {
        let text = fs::read_to_string(&source).unwrap();
        for rest in text.split("include_str!(\"").skip(1) {
            let relative = rest.split('"').next().unwrap_or_default();
            let target = source.parent().unwrap().join(relative);
            let Ok(target) = target.canonicalize() else { continue };
            let path =
                target.strip_prefix(root.canonicalize().unwrap()).unwrap().to_str().unwrap().to_owned();
            compiled_in += 1;
            assert!(
                sent().iter().any(|sent| path == *sent || path.starts_with(&format!("{sent}/"))),
                "`{path}`, which {} compiles in, does not reach the build",
                source.display()
            );
        }
    }
    assert!(compiled_in > 0);
}

#[test]
fn the_build_command_is_one_that_works_here() {
    let command = "cargo build --release --locked --package karpenter-cli --no-default-features";
    assert!(
        file("Dockerfile").contains(&format!("    {command} --target \"$target\" \\\n")),
        "the Dockerfile does not say `{command}`"
    );
    assert!(file("src/cli/Cargo.toml").contains("name = \"karpenter-cli\"\n"));
    // The lock file has everything the manifests name: this is what `--locked` asks for. Crates of other platforms are named
    // there, too, but a build has not fetched them.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let metadata = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", &platform])
        .current_dir(crate::repository_root())
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    // A program is static on musl as long as nothing links a library of the system. `ring` and mimalloc
    // bring their own code.
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let linking =
        metadata["packages"].as_array().unwrap().iter().filter(|package| package["links"].is_string());
    let names: Vec<&str> = linking.filter_map(|package| package["name"].as_str()).collect();
    let known = ["k8s-openapi", "libmimalloc-sys", "ring"];
    let unknown: Vec<_> = names.iter().filter(|name| !known.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?} may need a library that the image does not have");
}

#[test]
fn what_is_copied_exists() {
    for line in file("Dockerfile").lines().filter_map(|line| line.strip_prefix("COPY ")) {
        // These are copied from another stage, or from the folder that `prebuilt` is given.
        if line.starts_with("--from=") || line == "root/ /" {
            continue;
        }
        let from = line.split_whitespace().next().unwrap_or_default();
        assert!(crate::repository_root().join(from).exists(), "`COPY {line}`");
    }
    for sent in sent() {
        assert!(crate::repository_root().join(&sent).exists(), "`!{sent}` in .dockerignore");
    }
}
