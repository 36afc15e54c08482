//! The commands of `karpenter`, run on this machine as an operator runs them.
//!
//! Each signs with an access key of its own, so that the account can tell their calls apart.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::process::sibling;

/// Location of the account, as in the environment of every `karpenter` process.
#[derive(Clone, Debug)]
pub struct AwsEnvironment {
    /// Endpoint of the emulated account.
    pub endpoint: String,
    pub region: String,
    /// Name of the EKS cluster in that account.
    pub cluster: String,
}

impl AwsEnvironment {
    /// Variables for the SDK. The credentials mean nothing to an emulator, which still requires some.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        self.variables_as("test")
    }

    /// Returns variables for a caller whose calls must be distinguishable from those of others, by access key.
    fn variables_as(&self, access_key: &str) -> Vec<(&'static str, OsString)> {
        let mut variables = self.location();
        variables
            .extend([("AWS_ACCESS_KEY_ID", access_key.into()), ("AWS_SECRET_ACCESS_KEY", "test".into())]);
        variables
    }

    /// Returns the location of the account, without credentials.
    pub(crate) fn location(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("AWS_ENDPOINT_URL", self.endpoint.clone().into()),
            ("AWS_REGION", self.region.clone().into()),
            ("AWS_EC2_METADATA_DISABLED", "true".into()),
            ("CLUSTER_NAME", self.cluster.clone().into()),
        ]
    }
}

/// The `karpenter` binary beside the one that runs, or the one that `KARPENTER_BIN` names.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("KARPENTER_BIN") {
        return Ok(path.into());
    }
    sibling("karpenter")
}

/// Runs `karpenter` with `arguments` to its end and returns the exit code and what it printed.
pub async fn run(aws: &AwsEnvironment, arguments: &[&str]) -> Result<(i32, String)> {
    run_with(aws.variables_as(&caller(arguments)), arguments).await
}

/// Runs `karpenter` with access to a cluster, and to no account.
pub async fn run_at(kubeconfig: &Path, arguments: &[&str]) -> Result<(i32, String)> {
    run_with(vec![("KUBECONFIG", kubeconfig.into())], arguments).await
}

/// Runs `karpenter` with access to an account and a cluster.
pub async fn run_in(aws: &AwsEnvironment, kubeconfig: &Path, arguments: &[&str]) -> Result<(i32, String)> {
    let mut variables = aws.variables_as(&caller(arguments));
    variables.push(("KUBECONFIG", kubeconfig.into()));
    run_with(variables, arguments).await
}

async fn run_with(variables: Vec<(&str, OsString)>, arguments: &[&str]) -> Result<(i32, String)> {
    let output = tokio::process::Command::new(binary()?)
        .args(arguments)
        .envs(variables)
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("run `karpenter {}`", arguments.join(" ")))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok((output.status.code().unwrap_or(-1), text))
}

/// The custom resource definitions, as `karpenter` prints them.
pub(crate) async fn definitions(aws: &AwsEnvironment) -> Result<String> {
    let (code, definitions) = run(aws, &["crds"]).await?;
    ensure!(code == 0, "`karpenter crds` ended with {code}:\n{definitions}");
    Ok(definitions)
}

/// The access key a command signs with: the command without flags and names, e.g. `bootstrap-apply`. A signature knows
/// no slash in a key.
pub fn caller(arguments: &[&str]) -> String {
    let is_word = |word: &&str| word.chars().all(|letter| letter.is_ascii_lowercase());
    let words: Vec<&str> = arguments.iter().copied().take_while(is_word).collect();
    if words.is_empty() { "karpenter".to_owned() } else { words.join("-") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_apart_by_their_words() {
        for (arguments, key) in [
            (&["bootstrap", "apply", "--cluster-name", "x"][..], "bootstrap-apply"),
            (&["explain", "pod/default/a"], "explain"),
            (&["--version"], "karpenter"),
        ] {
            assert_eq!(caller(arguments), key);
        }
    }
}
