//! The checks behind `cargo xtask tidy`. Each returns the violations it found, one line each.

mod dependencies;
mod edge_cases;
mod features;
mod files;
mod modules;
mod names;
mod openings;
mod references;
mod sources;
mod visibility;
mod words;

use std::path::Path;

use anyhow::Result;

/// Runs every check over the repository at `root`.
pub(crate) fn run(root: &Path) -> Result<Vec<String>> {
    let mut violations = dependencies::check(root)?;
    violations.extend(features::check(root)?);
    violations.extend(files::check(root)?);
    violations.extend(edge_cases::check(root)?);
    violations.extend(references::check(root)?);
    violations.extend(words::check(root)?);
    violations.extend(openings::check(root)?);
    let crates = sources::crates(root)?;
    violations.extend(modules::check(&crates));
    violations.extend(names::check(&crates));
    violations.extend(visibility::check(root, &crates)?);
    Ok(violations)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_repository_keeps_its_own_rules() {
        let violations = super::run(&crate::repository_root()).unwrap();
        assert!(violations.is_empty(), "\n{}", violations.join("\n"));
    }
}
