//! Probe of the API server: watches of a server that has gone are silent for minutes, so it is asked for its version.

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_kube_harness::ApiFailure;
use karpenter_model::Clock;
use kube::Client;
use parking_lot::Mutex;
use tokio::time::{Duration, sleep, timeout};

use crate::trouble::Trouble;

/// Interval of the requests.
const PERIOD: Duration = Duration::from_secs(5);
/// Longest time for an answer.
const WITHIN: Duration = Duration::from_secs(5);

/// Availability of the API server, as far as it is known.
pub(super) struct Probe {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    answered: Option<Timestamp>,
    away: Option<String>,
}

impl Probe {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default() }
    }

    /// Asks for ever; calls `changed` when the answer is another one.
    pub(super) async fn run(&self, client: &Client, changed: impl Fn()) {
        loop {
            let away = match timeout(WITHIN, client.apiserver_version()).await {
                Ok(Ok(_)) => None,
                Ok(Err(kube::Error::Api(status))) if status.code == 401 => Some(
                    "it does not accept the credentials (401); renew those of the kubeconfig, for EKS by `aws sso \
                     login` or `aws eks update-kubeconfig`"
                        .to_owned(),
                ),
                // An answer is an answer: a user who may not read the version may well read Nodes.
                Ok(Err(kube::Error::Api(status))) if status.code < 500 => None,
                Ok(Err(error)) => Some(ApiFailure::from(error).to_string()),
                Err(_elapsed) => Some(format!("no answer for {} s", WITHIN.as_secs())),
            };
            if self.note(away) {
                changed();
            }
            sleep(PERIOD).await;
        }
    }

    /// Returns whether that is news.
    fn note(&self, away: Option<String>) -> bool {
        let mut state = self.state.lock();
        if away.is_none() {
            state.answered = Some(self.clock.now());
        }
        let news = state.away.is_some() != away.is_some();
        state.away = away;
        news
    }

    /// Returns the trouble if the API server does not answer.
    pub(super) fn away(&self) -> Option<Trouble> {
        let state = self.state.lock();
        let why = state.away.clone()?;
        Some(Trouble::Away { since: state.answered.unwrap_or_else(|| self.clock.now()), why })
    }
}
