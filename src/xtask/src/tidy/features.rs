//! Nothing is compiled twice on a new machine: building and testing share the AWS SDK, minutes of the first run, and what
//! `scripts/demo` has built serves `scripts/test`. So a crate the SDK is built from may have no feature that only a
//! development dependency switches on, and one the demo is built from none that only others switch on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The crate that uses the SDK.
const USER: &str = "karpenter-aws-sdk";
/// The crate that `scripts/demo` builds.
const DEMO: &str = "karpenter-demo";

/// Name and version of a crate, and the features it is compiled with.
type Features = BTreeMap<String, BTreeSet<String>>;

/// Compares the features of a build with those of a test, and those of the demo with those of everything.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let sdk = tree(root, &["--package", USER, "--edges", "normal,build"])?;
    let built = tree(root, &["--workspace", "--edges", "normal,build"])?;
    let tested = tree(root, &["--workspace", "--edges", "normal,build,dev"])?;
    let demo = tree(root, &["--package", DEMO, "--edges", "normal,build"])?;
    let twice = differences(&sdk, &built, &tested).map(|(name, only)| {
        format!(
            "`{name}` has `{only}` in tests only, so building and testing each compile the AWS SDK: \
             switch it on in src/aws-sdk/Cargo.toml"
        )
    });
    let again = differences(&demo, &demo, &built).map(|(name, only)| {
        format!(
            "`{name}` has `{only}` only where not the demo alone is built, so both are compiled: \
             switch it on in src/demo/Cargo.toml"
        )
    });
    Ok(twice.chain(again).collect())
}

/// Returns the crates of `of` that are compiled with other features in `one` than in `other`, and these features.
fn differences<'f>(
    of: &'f Features,
    one: &'f Features,
    other: &'f Features,
) -> impl Iterator<Item = (&'f String, String)> {
    let both = of.keys().filter_map(|name| Some((name, one.get(name)?, other.get(name)?)));
    both.filter(|(_, one, other)| one != other).map(|(name, one, other)| {
        let only: Vec<&str> = other.symmetric_difference(one).map(String::as_str).collect();
        (name, only.join("`, `"))
    })
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
    fn a_feature_that_only_one_build_has_is_named_if_it_is_a_crate_of_these() {
        let sdk = read("either v1.19.0 default\nkarpenter-aws-sdk v0.1.0 (/src)\n");
        let built = read("either v1.19.0 default\nrand v0.9.0 std\n");
        let tested = read("either v1.19.0 default,use_std\nrand v0.9.0 std,os_rng\n");
        assert_eq!(differences(&sdk, &built, &built).next(), None);
        let found: Vec<_> = differences(&sdk, &built, &tested).collect();
        assert_eq!(found, [(&"either v1.19.0".to_owned(), "use_std".to_owned())]);
    }
}
