//! The program under test: the `karpenter` binary as a child process, with the rights of its chart and nothing
//! more.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::{Guard, Process, Program, sibling};

/// How long an orderly stop may take: workers drain, the Lease is released.
const STOP_WITHIN: Duration = Duration::from_secs(15);

/// Where the account is, as the environment of every `karpenter` process says it.
#[derive(Clone, Debug)]
pub struct AwsEnvironment {
    /// Endpoint of the emulated account.
    pub endpoint: String,
    /// Region.
    pub region: String,
    /// Name of the EKS cluster in that account.
    pub cluster: String,
}

impl AwsEnvironment {
    /// Variables for the SDK. The credentials mean nothing to an emulator, which still wants to see some.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        self.variables_as("test")
    }

    /// The same for a caller whose calls must be distinguishable from those of others, by access key.
    fn variables_as(&self, access_key: &str) -> Vec<(&'static str, OsString)> {
        let mut variables = self.location();
        variables
            .extend([("AWS_ACCESS_KEY_ID", access_key.into()), ("AWS_SECRET_ACCESS_KEY", "test".into())]);
        variables
    }

    /// Where the account is, without credentials.
    fn location(&self) -> Vec<(&'static str, OsString)> {
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
    let output = tokio::process::Command::new(binary()?)
        .args(arguments)
        .envs(aws.variables_as(&caller(arguments)))
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("run `karpenter {}`", arguments.join(" ")))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok((output.status.code().unwrap_or(-1), text))
}

/// The access key a command signs with: the command without flags and names, e.g. `bootstrap-apply`. A signature knows
/// no slash in a key.
pub fn caller(arguments: &[&str]) -> String {
    let is_word = |word: &&str| word.chars().all(|letter| letter.is_ascii_lowercase());
    let words: Vec<&str> = arguments.iter().copied().take_while(is_word).collect();
    if words.is_empty() { "karpenter".to_owned() } else { words.join("-") }
}

/// What differs between the controllers of scenarios.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether it waits for the Lease before it acts.
    pub election: bool,
    /// `FEATURE_GATES`; empty leaves the defaults.
    pub feature_gates: String,
    /// Where it serves metrics and explanations.
    pub metrics_port: u16,
    /// How it comes to its role; `None`: without one.
    pub identity: Option<PodIdentity>,
}

/// What EKS Pod Identity puts into a pod's environment.
#[derive(Clone, Debug)]
pub struct PodIdentity {
    /// Where the credentials are.
    pub credentials: String,
    /// The token to ask for them with.
    pub token: PathBuf,
}

/// A running controller.
pub struct Controller {
    process: Process,
}

impl Controller {
    /// Starts a controller that speaks as `kubeconfig` says. Its log is `<folder>/controller.log`.
    pub fn start(
        kubeconfig: &Path,
        aws: &AwsEnvironment,
        settings: &Settings,
        folder: &Path,
        guard: &Arc<Guard>,
    ) -> Result<Self> {
        let mut environment = match &settings.identity {
            None => aws.variables(),
            Some(identity) => {
                let mut environment = aws.location();
                environment.extend([
                    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", identity.credentials.clone().into()),
                    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", identity.token.clone().into()),
                ]);
                environment
            }
        };
        environment.extend([
            ("KUBECONFIG", kubeconfig.as_os_str().to_owned()),
            ("SYSTEM_NAMESPACE", "kube-system".into()),
            ("INTERRUPTION_QUEUE", aws.cluster.clone().into()),
            ("METRICS_PORT", settings.metrics_port.to_string().into()),
            ("HEALTH_PROBE_PORT", "0".into()),
            ("LOG_LEVEL", "debug".into()),
            ("ENABLE_ZONAL_SHIFT", "true".into()),
            ("DISABLE_LEADER_ELECTION", if settings.election { "false" } else { "true" }.into()),
        ]);
        if !settings.feature_gates.is_empty() {
            environment.push(("FEATURE_GATES", settings.feature_gates.clone().into()));
        }
        let name = "controller";
        let program = Program { name, binary: binary()?, arguments: vec!["controller".into()], environment };
        Ok(Self { process: Process::start(program, folder, false, guard)? })
    }

    /// Fails with the controller's last words when it has ended by itself.
    pub fn check(&mut self) -> Result<()> {
        match self.process.ended()? {
            None => Ok(()),
            Some(status) => bail!("the controller ended with {status}; {}", self.process.last_words()),
        }
    }

    /// Its last log lines.
    pub fn last_words(&self) -> String {
        self.process.last_words()
    }

    /// Ends it as Kubernetes would: SIGTERM, then time to finish.
    pub async fn stop(self) -> Result<()> {
        self.process.stop(STOP_WITHIN).await
    }

    /// Ends it at once, wherever it is, as a crash would; its successor can bind the same port.
    pub async fn kill(self) -> Result<()> {
        self.process.kill().await
    }
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
