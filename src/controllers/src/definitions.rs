//! Readiness of the API server to serve our kinds: without them there is nothing to do, and the readiness probe fails.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use karpenter_kube_harness::server::Readiness;

/// Period of the requests until the kinds are served.
const PERIOD: Duration = Duration::from_secs(5);

const GROUP_VERSION: &str = "karpenter.sh/v1";
const RESOURCES: [&str; 2] = ["nodepools", "nodeclaims"];

/// Asks until the kinds are served or `shutdown`, and then sets `readiness`. Logs once what is missing.
pub async fn await_served(client: kube::Client, readiness: Readiness, shutdown: CancellationToken) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut warned = false;
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let problem = match client.list_api_group_resources(GROUP_VERSION).await {
            Ok(list) => {
                let served = |name: &&str| list.resources.iter().any(|resource| resource.name == **name);
                match RESOURCES.iter().find(|name| !served(name)) {
                    None => {
                        readiness.set_definitions(true);
                        return;
                    }
                    Some(name) => format!("`{name}.karpenter.sh` is not served"),
                }
            }
            Err(error) => error.to_string(),
        };
        if !std::mem::replace(&mut warned, true) {
            tracing::warn!(problem, "cannot find the custom resources; install the karpenter-crd chart");
        }
    }
}

#[cfg(test)]
mod tests {
    use karpenter_kube_sim::VirtualClock;
    use karpenter_kube_sim::apiserver::ApiServer;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_process_is_ready_once_the_definitions_are_there() {
        let clock = std::sync::Arc::new(VirtualClock::starting_at(jiff::Timestamp::UNIX_EPOCH));
        let server = ApiServer::new(clock);
        let (readiness, shutdown) = (Readiness::default(), CancellationToken::new());
        readiness.set(true);
        let asking = tokio::spawn(await_served(server.client(), readiness.clone(), shutdown.clone()));
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(!readiness.get());
        for definition in karpenter_api::crd::crd_values() {
            server.load(&definition).unwrap();
        }
        asking.await.unwrap();
        assert!(readiness.get());
    }
}
