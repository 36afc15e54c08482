//! `karpenter controller`: from flags to a running controller.

mod cluster_dns;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use base64::Engine;
use clap::Args;
use karpenter_aws_api::Clients;
use karpenter_aws_controllers::MetricsObserver;
use karpenter_aws_controllers::settings::Settings as Given;
use karpenter_aws_sdk as sdk;
use karpenter_compose::{self as compose, Parts, WallClock};
use karpenter_controllers::Settings;
use karpenter_kube_harness::client::{self, Connected, Limits};
use karpenter_telemetry::logging;
use karpenter_telemetry::metrics::Metrics;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::api_server;
use crate::flags::controller::{ControllerFlags, provider_settings};

/// Path in a pod of the authority of its API server.
const SERVICE_ACCOUNT_CA: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// Arguments of `karpenter controller`.
#[derive(Args)]
#[command(after_help = "Exit codes: 0 stopped by SIGTERM or Ctrl-C, 1 failed.\n\n\
                        On a machine of yours, with the cluster of the kubeconfig:\n  \
                        karpenter controller --cluster-name prod --disable-leader-election")]
pub(crate) struct Arguments {
    #[command(flatten)]
    flags: ControllerFlags,
    /// Namespace the controller runs in, where its Lease is; set by the chart
    #[arg(long, env, default_value = "kube-system")]
    system_namespace: String,
}

/// Runs the controller until SIGTERM or Ctrl-C.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let (settings, aws) = arguments.flags.settings()?;
    let logging = logging::Settings {
        level: settings.log_level,
        format: settings.log_format,
        outputs: settings.log_outputs.clone(),
        error_outputs: settings.log_error_outputs.clone(),
        commit: option_env!("KARPENTER_COMMIT").unwrap_or_default(),
    };
    logging::init(&logging).context("cannot set up logging")?;
    for (setting, why) in arguments.flags.without_effect() {
        tracing::warn!(setting, why, "setting has no effect");
    }
    for gate in &aws.unknown_gates {
        tracing::warn!(setting = "aws-feature-gates", gate, "unknown feature gate is ignored");
    }
    let runtime = tokio::runtime::Runtime::new().context("cannot start the async runtime")?;
    let differing = arguments.flags.differing();
    let outcome = runtime.block_on(control(arguments.system_namespace, settings, aws, &differing));
    // A plan that is still computed has no use any more, and would hold up the end.
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn control(
    system_namespace: String,
    settings: Settings,
    given: Given,
    differing: &[String],
) -> Result<()> {
    let shutdown = CancellationToken::new();
    let mut terminated = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let stop = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        tracing::info!("stopping");
        stop.cancel();
    });

    let mut config = api_server::config().await?;
    let agent = concat!("karpenter/", env!("CARGO_PKG_VERSION"));
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(agent)));
    let authority = config.root_cert.clone();
    let metrics = Arc::new(Metrics::new());
    metrics.add_process();
    // Renewals of the lease do not wait behind other requests.
    let leases = kube::Client::try_from(config.clone()).context("cannot set up the Kubernetes client")?;
    let limits = Limits { per_second: settings.kube_client_qps, burst: settings.kube_client_burst };
    let Connected { client: kubernetes, hints, events } =
        client::connect(&config, limits, Arc::clone(&metrics))
            .context("cannot set up the Kubernetes client")?;
    let watch = Arc::new(MetricsObserver(Arc::clone(&metrics)));
    let aws = sdk::connect_watched(sdk::Config::default(), watch).await;
    let aws = aws.context("cannot set up the AWS clients")?;
    introduce(&given.cluster_name, &aws.region, differing);
    aws.ec2.dry_run_describe_instance_types().await.context("EC2 does not answer as it should")?;
    let aws_settings = tokio::select! {
        learnt = aws_settings(&given, &settings, &kubernetes, &aws, authority) => learnt?,
        // It may wait long for a cluster that does not answer.
        () = shutdown.cancelled() => return Ok(()),
    };
    let namespace = settings.leader_election.namespace.clone();
    let parts = Parts {
        kubernetes,
        hints,
        events,
        leases,
        metrics,
        aws,
        clock: Arc::new(WallClock),
        settings,
        aws_settings,
        lease_namespace: namespace.unwrap_or(system_namespace),
    };
    compose::run(parts, shutdown).await
}

/// Logs what runs, where, and how it is configured: the first thing to know about a log.
fn introduce(cluster: &str, region: &str, differing: &[String]) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        cluster,
        region,
        settings = differing.join(" "),
        "karpenter controller"
    );
}

/// The provider's settings: flags, completed by facts of the cluster and EKS (spec aws-provider 2.2).
async fn aws_settings(
    flags: &Given,
    settings: &Settings,
    kubernetes: &kube::Client,
    aws: &Clients,
    authority: Option<Vec<Vec<u8>>>,
) -> Result<karpenter_aws::Settings> {
    let mut provider = provider_settings(settings, flags);
    let cluster = cluster_dns::known_to_eks(aws.eks.as_ref(), &flags.cluster_name).await;
    if provider.cluster_endpoint.is_empty() {
        provider.cluster_endpoint =
            cluster.as_ref().and_then(|cluster| cluster.endpoint.clone()).with_context(|| {
                format!(
                    "EKS does not say the endpoint of cluster `{}`; set --cluster-endpoint",
                    flags.cluster_name
                )
            })?;
    }
    if provider.cluster_ca_bundle.is_none() {
        // In a pod the file as it is: the bundle is part of the drift hash, so it must be the same to the byte.
        let file = std::fs::read(SERVICE_ACCOUNT_CA).ok();
        let bundle = file.or_else(|| authority.map(|certificates| pem(&certificates).into_bytes()));
        provider.cluster_ca_bundle =
            bundle.map(|bundle| base64::engine::general_purpose::STANDARD.encode(bundle));
    }
    provider.ipv6_cluster = cluster.as_ref().and_then(cluster_dns::is_ipv6);
    let of_range = cluster.as_ref().and_then(cluster_dns::of_range);
    provider.kube_dns_ip = cluster_dns::kube_dns_ip(kubernetes, of_range).await;
    Ok(provider)
}

/// DER certificates as PEM, the form user data carries.
fn pem(certificates: &[Vec<u8>]) -> String {
    certificates
        .iter()
        .map(|der| {
            let text = base64::engine::general_purpose::STANDARD.encode(der);
            let lines: Vec<&str> =
                text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
            format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use karpenter_telemetry::logging::{Level, MemoryLog};

    use super::introduce;

    #[test]
    fn the_log_begins_with_what_runs_where() {
        let (log, _guard) = MemoryLog::of_this_thread(Level::Info);
        introduce("prod", "eu-west-1", &["log-level=debug".to_owned(), "batch-idle-duration=2s".to_owned()]);
        let told = log.lines("karpenter controller");
        let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
        for part in
            [&*version, "cluster=\"prod\"", "region=\"eu-west-1\"", "log-level=debug batch-idle-duration=2s"]
        {
            assert!(told.len() == 1 && told[0].contains(part), "{part}: {told:?}");
        }
    }
}
