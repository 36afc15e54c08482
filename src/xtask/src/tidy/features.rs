//! Building and testing compile the AWS SDK once, ten minutes of the first run: so a crate the SDK is built from may
//! have no feature that only a development dependency switches on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The crate that uses the SDK.
const USER: &str = "karpenter-aws-sdk";

/// Name and version of a crate, and the features it is compiled with.
type Features = BTreeMap<String, BTreeSet<String>>;

/// Compares the features of a build with those of a test.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let sdk = tree(root, &["--package", USER, "--edges", "normal,build"])?;
    let built = tree(root, &["--workspace", "--edges", "normal,build"])?;
    let tested = tree(root, &["--workspace", "--edges", "normal,build,dev"])?;
    Ok(differences(&sdk, &built, &tested))
}

fn differences(sdk: &Features, built: &Features, tested: &Features) -> Vec<String> {
    let both = sdk.keys().filter_map(|name| Some((name, built.get(name)?, tested.get(name)?)));
    let differing = both.filter(|(_, built, tested)| built != tested);
    let say = |(name, built, tested): (&String, &BTreeSet<String>, &BTreeSet<String>)| {
        let only: Vec<&str> = tested.symmetric_difference(built).map(String::as_str).collect();
        format!(
            "`{name}` has `{}` in tests only, so building and testing each compile the AWS SDK: \
             switch it on in src/aws-sdk/Cargo.toml",
            only.join("`, `")
        )
    };
    differing.map(say).collect()
}

fn tree(root: &Path, selection: &[&str]) -> Result<Features> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["tree", "--locked", "--prefix", "none", "--format", "{p} {f}"])
        .args(selection)
        .current_dir(root)
        .output()
        .context("cannot run `cargo tree`")?;
    if !output.status.success() {
        bail!("`cargo tree` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(read(&String::from_utf8_lossy(&output.stdout)))
}

/// Lines `NAME VERSION [(proc-macro)] [FEATURE,...]`. Crates of ours, which have a path in brackets, are left out, and so
/// are repetitions, which end in `(*)`.
fn read(text: &str) -> Features {
    let mut features = Features::new();
    for line in text.lines().filter(|line| !line.contains("(/") && !line.ends_with("(*)")) {
        let mut words = line.split_whitespace().filter(|word| *word != "(proc-macro)");
        let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
        let of_this = words.flat_map(|word| word.split(',')).map(str::to_owned);
        features.entry(format!("{name} {version}")).or_default().extend(of_this);
    }
    features
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_that_only_tests_have_is_named_if_the_sdk_is_built_from_it() {
        let sdk = read("either v1.19.0 default\nkarpenter-aws-sdk v0.1.0 (/src)\n");
        let built = read("either v1.19.0 default\nrand v0.9.0 std\n");
        let tested = read("either v1.19.0 default,use_std\nrand v0.9.0 std,os_rng\n");
        assert!(differences(&sdk, &built, &built).is_empty());
        let found = differences(&sdk, &built, &tested);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("`either v1.19.0` has `use_std` in tests only"), "{found:?}");
    }
}
