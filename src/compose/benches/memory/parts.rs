//! Parts with which the controller is started where its memory is measured.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use karpenter_aws_sim::Account;
use karpenter_compose::{Parts, WallClock};
use karpenter_controllers::Settings;
use karpenter_controllers::settings::{Home, Source};
use karpenter_kube_harness::client::{self, Limits};
use karpenter_telemetry::metrics::Metrics;

/// The controller of `cluster` with the defaults, without fixed ports, and without a lease that a busy machine would lose.
pub(crate) fn parts(
    account: &Account,
    metrics: &Arc<Metrics>,
    leases: &kube::Client,
    config: &kube::Config,
    cluster: &str,
) -> Result<Parts> {
    let given = [("metrics-port", "0"), ("health-probe-port", "0"), ("disable-leader-election", "true")];
    let settings = Settings::resolve(Home::Machine, |flag| {
        let found = given.iter().find(|(name, _)| *name == flag.name);
        found.map(|(_, text)| (*text, Source::Flag))
    })
    .map_err(|errors| anyhow!("{errors:?}"))?;
    let limits = Limits { per_second: settings.kube_client_qps, burst: settings.kube_client_burst };
    let client::Connected { client, hints, events } = client::connect(config, limits, Arc::clone(metrics))?;
    Ok(Parts {
        kubernetes: client,
        hints,
        events,
        leases: leases.clone(),
        metrics: Arc::clone(metrics),
        aws: account.clients(),
        clock: Arc::new(WallClock),
        settings,
        aws_settings: karpenter_aws::Settings {
            cluster_ca_bundle: Some("Y2VydGlmaWNhdGU=".to_owned()),
            kube_dns_ip: Some("10.100.0.10".to_owned()),
            ..karpenter_aws::Settings::new(cluster, &format!("https://{cluster}.invalid"))
        },
        lease_namespace: "kube-system".to_owned(),
    })
}
