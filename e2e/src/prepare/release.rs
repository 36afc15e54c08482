//! The number of a Kubernetes release: read from `go.mod`, given by a person, or asked of a program.

use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail};

use super::{command, go};

/// A release of Kubernetes 1, e.g. 1.35.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    minor: u32,
    patch: u32,
}

impl Release {
    /// Reads the version of the `k8s.io/kubernetes` requirement.
    pub(super) fn from_go_mod(text: &str) -> Result<Self> {
        text.lines()
            .filter_map(|line| line.trim().trim_start_matches("require ").strip_prefix("k8s.io/kubernetes "))
            .find_map(|rest| rest.split_whitespace().next())
            .context("find the version of `k8s.io/kubernetes` in go.mod")?
            .parse()
    }

    /// Asks a program of Kubernetes, which answers `Kubernetes v1.35.4`.
    pub fn of(program: &Path) -> Result<Self> {
        let answer = command::run(Command::new(program).arg("--version"))?;
        let version = answer.split_whitespace().last().unwrap_or_default();
        version.parse().with_context(|| format!("read the version that `{}` prints", program.display()))
    }

    /// 35 of 1.35.4.
    pub fn minor(self) -> u32 {
        self.minor
    }

    /// The version of the libraries of this release, which are modules of their own: v0.35.4 of 1.35.4.
    pub(super) fn of_libraries(self) -> String {
        format!("v0.{}.{}", self.minor, self.patch)
    }

    /// Without these flags `/version` reports `v0.0.0-master`, which every client takes for an ancient server.
    pub(super) fn linker_flags(self) -> String {
        let package = "k8s.io/component-base/version";
        format!(
            "{} -X {package}.gitVersion={self} -X {package}.gitMajor=1 -X {package}.gitMinor={} \
             -X {package}.gitTreeState=clean -X k8s.io/client-go/pkg/version.gitVersion={self}",
            go::SMALL,
            self.minor,
        )
    }
}

impl FromStr for Release {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers: Option<Vec<u32>> =
            text.trim_start_matches('v').split('.').map(|number| number.parse().ok()).collect();
        match numbers.as_deref() {
            Some([1, minor, patch]) => Ok(Self { minor: *minor, patch: *patch }),
            _ => bail!("`{text}` is not a release like 1.35.4"),
        }
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "v1.{}.{}", self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_read_from_go_mod_and_from_what_people_write() {
        let release =
            Release::from_go_mod("require (\n\tk8s.io/kubernetes v1.35.4 // indirect\n)\n").unwrap();
        assert_eq!((release.minor(), release.of_libraries().as_str()), (35, "v0.35.4"));
        assert!(release.linker_flags().contains("version.gitVersion=v1.35.4 "));
        assert_eq!("1.35.4".parse::<Release>().unwrap(), release);
        for wrong in ["", "1.35", "2.35.4", "1.35.4-rc.1", "1.x.4", "latest"] {
            let error = wrong.parse::<Release>().unwrap_err().to_string();
            assert_eq!(error, format!("`{wrong}` is not a release like 1.35.4"));
        }
        assert!(Release::from_go_mod("module x\n").is_err());
        assert!(Release::from_go_mod("require k8s.io/kubernetes latest\n").is_err());
    }
}
