//! Between a controller and AWS: every call of EC2 and of the interruption queue passes here.
//!
//! A call that was sent is carried out also when its sender dies, as at the API server. Calls of other services go straight to
//! the account: they are few, and what they bring is asked for again.

mod ec2;
mod sqs;

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_aws_api::ec2::Instance;
use karpenter_aws_api::id::InstanceId;
use karpenter_aws_api::{Clients, Error, Result};
use parking_lot::Mutex;

use crate::check::Truth;
use crate::defect::Defect;
use crate::fault_injector::{Chances, Fate};
use crate::life::Life;
use crate::trace::Trace;

/// The port of one process. Clones are the same port.
#[derive(Clone)]
pub(crate) struct AwsPort {
    pub(crate) who: String,
    pub(crate) life: Life,
    pub(crate) chances: Chances,
    pub(crate) truth: Truth,
    pub(crate) trace: Trace,
    pub(crate) defect: Option<Defect>,
    known: Arc<Mutex<BTreeMap<InstanceId, Instance>>>,
}

impl std::fmt::Debug for AwsPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AwsPort").field("who", &self.who).finish_non_exhaustive()
    }
}

impl AwsPort {
    /// A port that has seen nothing yet.
    pub(crate) fn new(
        who: &str,
        life: Life,
        chances: Chances,
        truth: Truth,
        trace: Trace,
        defect: Option<Defect>,
    ) -> Self {
        Self { who: who.to_owned(), life, chances, truth, trace, defect, known: Arc::default() }
    }

    /// Clients of the account whose calls pass this port.
    pub(crate) fn clients(&self, account: &Clients) -> Clients {
        Clients {
            ec2: Arc::new(ec2::Port { port: self.clone(), inner: Arc::clone(&account.ec2) }),
            sqs: Arc::new(sqs::Port { port: self.clone(), inner: Arc::clone(&account.sqs) }),
            ..account.clone()
        }
    }

    /// One call.
    async fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        act: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.life.boundary().await;
        let port = self.clone();
        let way = tokio::spawn(async move { port.way(operation, act).await });
        let answer = way.await.unwrap_or_else(|_| Err(lost(operation)));
        self.life.boundary().await;
        answer
    }

    async fn way<T>(self, operation: &'static str, act: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let lot = self.chances.of_aws();
        tokio::time::sleep(lot.before).await;
        if self.life.is_dead() && !lot.lands {
            return Err(lost(operation));
        }
        if let Fate::Refused(which) = lot.fate {
            let code =
                ["RequestLimitExceeded", "InternalError", "ServiceUnavailable"][usize::from(which).min(2)];
            self.trace.note(&self.who, operation, code);
            return Err(Error::answered(operation, "call", code, "the weather is bad"));
        }
        let answer = act.await;
        self.truth.account_changed(operation);
        let outcome = answer.as_ref().err().map_or("ok".to_owned(), |error| error.kind.as_str().to_owned());
        self.trace.note(&self.who, operation, &format!("{outcome} {:?}", lot.fate));
        tokio::time::sleep(lot.after).await;
        if lot.fate == Fate::Lost { Err(lost(operation)) } else { answer }
    }

    /// Returns the answer of `DescribeInstances`: sometimes part of an earlier answer.
    fn described(&self, mut instances: Vec<Instance>) -> Vec<Instance> {
        let mut known = self.known.lock();
        let stale = self.chances.stale();
        for instance in &mut instances {
            match known.get(&instance.id) {
                Some(before) if stale => instance.clone_from(before),
                // Nearly all of them are as they were.
                Some(before) if before == instance => {}
                _ => drop(known.insert(instance.id.clone(), instance.clone())),
            }
        }
        instances
    }
}

fn lost(operation: &'static str) -> Error {
    Error::transient(operation, "call", "connection closed before the answer arrived")
}
