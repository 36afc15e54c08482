//! The API server that the environment names, for every command that asks it: how to reach it, and what to do when it
//! does not answer as it should.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use karpenter_telemetry::observe::Chain;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Which cluster is meant, in the words of kubectl.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Reach {
    /// Path of the kubeconfig [default: `KUBECONFIG`, or ~/.kube/config, or the service account of the pod]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Cluster")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, global = true, value_name = "NAME", help_heading = "Cluster")]
    context: Option<String>,
}

/// Cluster of the command line: one process asks one cluster.
static REACH: OnceLock<Reach> = OnceLock::new();

impl Reach {
    /// Makes every client of this process one of this cluster. The first choice counts.
    pub(crate) fn choose(self) {
        let _chosen_before = REACH.set(self);
    }

    /// The kubeconfig with the context that is meant as its current one; `None` where none is named.
    fn named(&self) -> Result<Option<Kubeconfig>> {
        let mut kubeconfig = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig `{}`", path.display()))?,
            None if self.context.is_none() => return Ok(None),
            None => Kubeconfig::read().context(
                "cannot read the kubeconfig of `--context`; name its file with --kubeconfig or KUBECONFIG",
            )?,
        };
        if let Some(context) = &self.context {
            let names: Vec<&str> = kubeconfig.contexts.iter().map(|one| one.name.as_str()).collect();
            ensure!(
                names.contains(&context.as_str()),
                "cannot use context `{context}`: the kubeconfig has {}",
                if names.is_empty() { "none".to_owned() } else { format!("`{}`", names.join("`, `")) }
            );
            kubeconfig.current_context = Some(context.clone());
        }
        Ok(Some(kubeconfig))
    }
}

/// Configuration for the API server: by the kubeconfig and context of the command line; else as a pod, or by the current
/// context of the kubeconfig.
///
/// # Errors
/// There is neither, or the kubeconfig cannot be used.
pub(crate) async fn config() -> Result<Config> {
    let named = REACH.get_or_init(Reach::default).named()?;
    let mut config = if let Some(kubeconfig) = named.clone() {
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .context("cannot use the kubeconfig")?
    } else {
        let list = std::env::var("KUBECONFIG").unwrap_or_default();
        if let Some(missing) = missing(&list) {
            bail!(
                "cannot read the kubeconfig `{missing}`, which KUBECONFIG names: there is no such file; name another one with \
                 --kubeconfig"
            );
        }
        Config::infer().await.context(
            "cannot find out how to reach the API server; name a kubeconfig with --kubeconfig or KUBECONFIG",
        )?
    };
    if let Some(kubeconfig) = named.or_else(|| Kubeconfig::read().ok()) {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let [environment, exempt] = [["HTTPS_PROXY", "https_proxy"], ["NO_PROXY", "no_proxy"]]
            .map(|names| names.into_iter().find_map(variable).unwrap_or_default());
        config.proxy_url = proxy(&kubeconfig, &environment, &exempt, &config.cluster_url);
    }
    let server = &config.cluster_url;
    // kubectl takes an address without a scheme; the client ends the process over it.
    ensure!(
        server.scheme().is_some(),
        "cannot use `{server}`, the server of the current context of the kubeconfig: it has no scheme; write \
         `https://{server}`"
    );
    Ok(config)
}

/// The first file of a list as in KUBECONFIG, if none of the files is there.
fn missing(list: &str) -> Option<&str> {
    let mut files = list.split(':').filter(|file| !file.is_empty());
    let first = files.clone().next()?;
    files.all(|file| !Path::new(file).exists()).then_some(first)
}

/// The proxy on the way to `server`, as kubectl has it: that of the current context's cluster; else that of the environment,
/// unless the server is of this machine, or `NO_PROXY` names it. The library compares `NO_PROXY` with the proxy instead.
fn proxy(kubeconfig: &Kubeconfig, environment: &str, exempt: &str, server: &Uri) -> Option<Uri> {
    let current = kubeconfig.current_context.as_deref().unwrap_or_default();
    let context = kubeconfig.contexts.iter().find(|one| one.name == current)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|one| one.name == context.cluster)?.cluster.as_ref()?;
    if let Some(own) = cluster.proxy_url.as_ref().filter(|url| !url.is_empty()) {
        return own.parse().ok();
    }
    let exempt = format!("localhost,127.0.0.0/8,::1,{exempt}");
    let through = Matcher::builder().https(environment).no(exempt).build().intercept(server).is_some();
    environment.parse().ok().filter(|_| through)
}

/// A client of that server.
pub(crate) async fn client() -> Result<Client> {
    Client::try_from(config().await?).context("cannot set up the Kubernetes client")
}

/// Describes why a request failed, with all that is known, and the next step: `rights` if the server forbids it.
pub(crate) fn why(error: &kube::Error, rights: &str) -> String {
    let said = Chain(error).to_string();
    let next = match error {
        kube::Error::Api(status) => match status.code {
            401 => "log in again: the API server does not know these credentials",
            403 => rights,
            _ => return said,
        },
        kube::Error::Auth(_) => "log in again: the kubeconfig brings no credentials that can be used",
        _ => "look whether the server of the current context of the kubeconfig can be reached from here",
    };
    format!("{said}; {next}")
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_context_is_one_of_the_kubeconfig() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(
            &path,
            "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}, {name: b, context: {cluster: b, user: b}}]\n",
        )
        .unwrap();
        let reach = |file: &str, context: Option<&str>| {
            let kubeconfig = (!file.is_empty()).then(|| folder.path().join(file));
            let named = Reach { kubeconfig, context: context.map(str::to_owned) }.named();
            named.map(|found| found.and_then(|one| one.current_context)).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(reach("", None), Ok(None), "as the environment says");
        assert_eq!(reach("config", None), Ok(Some("a".to_owned())));
        assert_eq!(reach("config", Some("b")), Ok(Some("b".to_owned())));
        let wrong = reach("config", Some("c")).unwrap_err();
        assert_eq!(wrong, "cannot use context `c`: the kubeconfig has `a`, `b`");
        assert!(reach("missing", None).unwrap_err().contains("missing`"));
    }

    #[test]
    fn a_kubeconfig_that_is_not_there_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let there = file.path().display().to_string();
        assert_eq!(missing("/nope:/neither"), Some("/nope"));
        assert_eq!(missing(&format!("/nope:{there}")), None);
        assert_eq!(missing(""), None);
    }

    #[test]
    fn a_proxy_of_the_environment_is_for_servers_that_are_not_exempt() {
        let kubeconfig = |own: &str| {
            let text = format!(
                "current-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
                 clusters: [{{name: a, cluster: {{server: https://a, proxy-url: \"{own}\"}}}}]\n"
            );
            Kubeconfig::from_yaml(&text).unwrap()
        };
        let (of_environment, own) = ("http://proxy.example.com:3128", "http://localhost:8888");
        let eks = "https://abc.gr7.eu-west-1.eks.amazonaws.com";
        for (named, environment, exempt, server, expected) in [
            ("", of_environment, "", eks, of_environment),
            ("", of_environment, "127.0.0.1,10.0.0.0/8", eks, of_environment),
            ("", of_environment, "proxy.example.com", eks, of_environment),
            ("", of_environment, "127.0.0.1,.eks.amazonaws.com", eks, ""),
            ("", of_environment, "", "https://127.0.0.1:6443", ""),
            ("", of_environment, "", "http://abc.example.com", ""),
            ("", "", "", eks, ""),
            (own, of_environment, "localhost,.eks.amazonaws.com", eks, own),
        ] {
            let used = proxy(&kubeconfig(named), environment, exempt, &server.parse().unwrap());
            let used = used.map(|uri| uri.to_string()).unwrap_or_default();
            assert_eq!(used.trim_end_matches('/'), expected, "{named} {environment} {exempt} {server}");
        }
    }

    #[test]
    fn what_to_do_depends_on_how_the_request_failed() {
        let answered = |code: u16, reason: &str| {
            let status = Status::failure("it says no", reason).with_code(code);
            why(&kube::Error::Api(status.boxed()), "grant verb `list` on nodes")
        };
        assert!(answered(403, "Forbidden").ends_with("; grant verb `list` on nodes"));
        assert!(answered(401, "Unauthorized").contains("; log in again"));
        assert!(!answered(500, "InternalError").contains("grant"));
        let unreachable = std::io::Error::new(
            std::io::ErrorKind::ConnectionRefused,
            std::io::Error::other("port 6443 is closed"),
        );
        let unreachable = why(&kube::Error::Service(Box::new(unreachable)), "grant verb `list` on nodes");
        assert!(unreachable.contains("port 6443 is closed"), "{unreachable}");
        assert!(unreachable.ends_with("can be reached from here"), "{unreachable}");
    }
}
