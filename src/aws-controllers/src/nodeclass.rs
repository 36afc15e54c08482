//! EC2NodeClasses: what their selectors mean, whether they can be launched, and their end
//! (spec aws-provider 12, spec aws-operations 2.7).
//!
//! A pass works on a copy of the object: finalizer, hash, then each part of the status. A part that fails leaves
//! its condition alone and reports the reason; the others continue, and one status patch at the end writes what
//! changed.

mod conditions;
mod finalize;
mod hash;
mod images;
mod network;
mod placement;
mod profile;
mod reservations;
mod status;
mod validation;

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::EC2NodeClass;
use karpenter_aws::calls::cache::TtlCache;
use karpenter_aws::class::store::Lookup;
use karpenter_aws::launch::check::DryRunOutcome;
use karpenter_aws::{NODE_CLASS_KIND, NodeClassStore};
use karpenter_kube_harness::queue::{Done, Queue, Spec};
use karpenter_kube_harness::watch::{Readable, Seen, follow_readable};
use karpenter_kube_harness::write;
use karpenter_model::ClaimName;
use karpenter_model::names::finalizer;
use kube::ResourceExt;
use kube::api::Api;
use tokio_util::sync::CancellationToken;

use hash::Hashed;

use crate::{AwsContext, Error};

const SPEC: Spec = Spec {
    name: "nodeclass",
    concurrency: 10,
    backoff_min: Duration::from_millis(100),
    backoff_max: Duration::from_mins(1),
};
/// Follows claims only to notice when the last one of a `NodeClass` that is being deleted has gone.
const CLAIMS: Spec = Spec { name: "nodeclass.claims", concurrency: 1, ..SPEC };
/// Delay of the next look while the cluster is not known completely.
const SOON: Duration = Duration::from_secs(1);
const VERDICTS: Duration = Duration::from_mins(30);

/// The reconciler of EC2NodeClasses.
pub(crate) struct Reconciler {
    context: AwsContext,
    /// Outcomes of the dry runs by everything they depend on.
    verdicts: TtlCache<String, DryRunOutcome>,
}

/// Runs the reconciler until `shutdown`.
pub(crate) async fn run(context: AwsContext, shutdown: CancellationToken) {
    let metrics = Arc::clone(&context.common.metrics);
    let (queue, work) = Queue::new();
    let (claims, ended) = Queue::new();
    context.common.view.subscribers().claims(claims);
    let watched = follow(context.clone(), queue.clone(), shutdown.clone());
    let waiting = {
        let (context, queue) = (context.clone(), queue.clone());
        let pass = move |claim: ClaimName| {
            wake_deleting(&context, &queue, &claim);
            async { Ok::<_, Error>(Done::idle()) }
        };
        ended.run(CLAIMS, Arc::clone(&metrics), shutdown.clone(), pass)
    };
    let reconciler = Arc::new(Reconciler::new(context));
    let pass = move |name: String| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.pass(&name).await }
    };
    tokio::join!(watched, waiting, work.run(SPEC, metrics, shutdown, pass));
}

/// Keeps the provider's store like the API server and asks for a pass over everything that changes.
async fn follow(context: AwsContext, queue: Queue<String>, shutdown: CancellationToken) {
    let (client, troubles) = (context.common.client.clone(), context.common.view.troubles().clone());
    let progress = context.common.metrics.progress.clone();
    let listener = move |seen: Seen<Readable<EC2NodeClass>>| {
        let _applying = progress.begin("watch", "EC2NodeClass");
        let store: &NodeClassStore = &context.aws.classes;
        match seen {
            Seen::Listing => {}
            Seen::Listed(class) | Seen::Applied(class) => {
                let name = class.name_any();
                let is_news = match class {
                    Readable::Whole(class) => store.put(class),
                    Readable::Undecoded(_) => {
                        store.put_undecoded(&name);
                        true
                    }
                };
                // Only now does the provider have the state that machines of this class should have.
                if is_news {
                    context.common.view.class_changed(NODE_CLASS_KIND.kind, &name);
                }
                queue.add(name);
            }
            Seen::Deleted(class) => forget(&context, &class),
            Seen::Complete(keys) => {
                store.keep_listed(&keys.into_iter().map(|(_, name)| name).collect());
                context.aws.types.forget_gone();
                context.common.view.provider_listed(NODE_CLASS_KIND.kind);
            }
        }
    };
    follow_readable("EC2NodeClass", Api::all(client), &troubles, shutdown, listener).await;
}

fn forget(context: &AwsContext, class: &impl ResourceExt) {
    context.aws.classes.remove(&class.name_any(), class.uid().as_deref());
    context.aws.types.forget_gone();
    context.common.view.class_changed(NODE_CLASS_KIND.kind, &class.name_any());
}

fn wake_deleting(context: &AwsContext, queue: &Queue<String>, claim: &ClaimName) {
    if context.common.view.claim(claim).is_some() {
        return;
    }
    for class in context.aws.classes.all().unwrap_or_default() {
        if class.metadata.deletion_timestamp.is_some() {
            queue.add(class.name_any());
        }
    }
}

impl Reconciler {
    pub(crate) fn new(context: AwsContext) -> Self {
        let verdicts = TtlCache::new(Arc::clone(&context.common.clock), VERDICTS);
        Self { context, verdicts }
    }

    /// One pass over one `NodeClass`.
    ///
    /// # Errors
    /// Whatever kept a part of the pass from being done; the rest has been done and written.
    pub(crate) async fn pass(&self, name: &str) -> Result<Done, Error> {
        let Lookup::Found(class) = self.context.aws.classes.get(name) else { return Ok(Done::idle()) };
        let outcome = if class.metadata.deletion_timestamp.is_some() {
            self.finalize(&class).await
        } else {
            self.resolve(&class).await
        };
        match outcome {
            // Another client wrote first: the watch brings the new version, which gets its own pass.
            Err(Error::Kube(error)) if error.is_conflict() => Ok(Done::idle().backoff()),
            other => other,
        }
    }

    async fn resolve(&self, class: &EC2NodeClass) -> Result<Done, Error> {
        let mut class = class.clone();
        let api = self.context.common.all::<EC2NodeClass>();
        if let Some(change) = write::with_finalizer(&class, finalizer::EC2_NODE_CLASS) {
            let Some(written) = write::merge(&api, &class.name_any(), &change).await? else {
                return Ok(Done::idle());
            };
            class = self.take(written);
        }
        let (again, hashed) = match self.hash(&class).await {
            Ok(Hashed::Current) => (None, Ok(())),
            Ok(Hashed::Written(written)) => {
                class = *written;
                (None, Ok(()))
            }
            Ok(Hashed::Wait) => (Some(SOON), Ok(())),
            Err(error) => (None, Err(error)),
        };
        match (hashed, self.status(class).await) {
            (Ok(()), Ok(done)) => Ok(again.map_or(done, |again| done.after(again))),
            (Err(one), Err(other)) => Err(Error::Several(vec![one, other])),
            (Err(error), Ok(_)) | (Ok(()), Err(error)) => Err(error),
        }
    }

    /// Takes over what the API server answered to a write.
    fn take(&self, written: EC2NodeClass) -> EC2NodeClass {
        if self.context.aws.classes.put_answer(written.clone()) {
            self.context.common.view.class_changed(NODE_CLASS_KIND.kind, &written.name_any());
        }
        written
    }
}
