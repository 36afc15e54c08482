//! One replica: the composition of the program, started, killed, and started again.

pub(crate) mod planning;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use karpenter_compose::Parts;
use karpenter_controllers::Settings;
use karpenter_controllers::settings::{Flag, Home, Source};
use karpenter_kube_harness::client::Limits;
use karpenter_telemetry::metrics::Metrics;
use tokio_util::sync::CancellationToken;

use crate::aws_port::AwsPort;
use crate::kube_port::{self, KubePort};
use crate::life::Life;
use crate::seed::Seed;
use crate::world::World;

/// Keeps replica number `replica` running until `stop`.
pub(crate) async fn keep_running(world: Arc<World>, replica: usize, stop: CancellationToken) {
    let mut random = Seed(world.history.seed).stream(&format!("restarts/{replica}"));
    let mut number = 0;
    while !stop.is_cancelled() {
        let who = format!("r{replica}.{number}");
        let life = world.next_life(replica);
        world.trace.note(&who, "process", "starts");
        let shutdown = CancellationToken::new();
        let parts = match parts(&world, &who, &life) {
            Ok(parts) => parts,
            Err(error) => return world.truth.found("start", format!("{error:#}")),
        };
        let mut running = tokio::spawn(karpenter_compose::run(parts, shutdown.clone()));
        tokio::select! {
            biased;
            () = stop.cancelled() => running.abort(),
            () = life.died() => {
                running.abort();
                world.trace.note(&who, "process", "dies");
            }
            ended = &mut running => {
                world.trace.note(&who, "process", &outcome(&world, ended));
                // Tasks that it spawned and left behind reach the world no more.
                life.die();
            }
        }
        number += 1;
        tokio::time::sleep(Duration::from_millis(random.u64(500..8_000))).await;
    }
}

/// Describes how a process ended by itself. It may give up; it may not panic.
fn outcome(world: &World, ended: Result<Result<()>, tokio::task::JoinError>) -> String {
    match ended {
        Ok(Ok(())) => "ends".to_owned(),
        Ok(Err(error)) => format!("gives up: {error:#}"),
        Err(error) => {
            let text = error.try_into_panic().map_or_else(
                |error| error.to_string(),
                |panic| match panic.downcast::<String>() {
                    Ok(text) => *text,
                    Err(panic) => {
                        panic.downcast::<&str>().map_or_else(|_| String::new(), |text| (*text).to_owned())
                    }
                },
            );
            world.truth.found("no panic", text.clone());
            format!("panics: {text}")
        }
    }
}

fn parts(world: &Arc<World>, who: &str, life: &Life) -> Result<Parts> {
    let settings = settings(&world.settings)?;
    let metrics = Arc::new(Metrics::new());
    let defect = world.history.defect;
    let (truth, trace) = (world.truth.clone(), world.trace.clone());
    let aws = AwsPort::new(
        who,
        life.clone(),
        world.weather.port(&format!("aws/{who}")),
        truth.clone(),
        trace.clone(),
        defect,
    );
    let port = KubePort {
        who: who.to_owned(),
        server: world.server.client(),
        life: life.clone(),
        chances: world.weather.port(&format!("kube/{who}")),
        truth,
        trace,
        defect,
        led: crate::defect::Led::default(),
    };
    let limits = Limits { per_second: settings.kube_client_qps, burst: settings.kube_client_burst };
    let (connected, leases) = kube_port::clients(&port, limits, Arc::clone(&metrics));
    Ok(Parts {
        kubernetes: connected.client,
        hints: connected.hints,
        events: connected.events,
        leases,
        metrics,
        aws: aws.clients(&world.account.clients()),
        clock: world.clock.clone(),
        settings,
        aws_settings: aws_settings(world),
        lease_namespace: "kube-system".to_owned(),
    })
}

/// Settings of the provider.
pub(crate) fn aws_settings(world: &World) -> karpenter_aws::Settings {
    karpenter_aws::Settings {
        cluster_ca_bundle: Some("Y2VydGlmaWNhdGU=".to_owned()),
        kube_dns_ip: Some("10.100.0.10".to_owned()),
        interruption_queue: Some(world.cluster.clone()),
        ..karpenter_aws::Settings::new(&world.cluster, "https://sim.invalid")
    }
}

/// The defaults of the program but for what `differs`, on any port.
pub(crate) fn settings(differs: &BTreeMap<String, String>) -> Result<Settings> {
    let given = |flag: &Flag| {
        let named = differs.get(flag.name).map(String::as_str);
        named.or_else(|| flag.name.ends_with("-port").then_some("0")).map(|text| (text, Source::Flag))
    };
    Settings::resolve(Home::Machine, given).map_err(|errors| anyhow!("{errors:?}"))
}
