//! Learns how much memory nodes really have (spec aws-provider 3.7).

use std::sync::Arc;
use std::time::Duration;

use karpenter_aws::catalogue::instance_types::named;
use karpenter_aws::class::store::Lookup;
use karpenter_aws::image::image_for;
use karpenter_cloud::Provider;
use karpenter_kube_harness::queue::{Done, Queue, Spec};
use karpenter_model::NodeName;
use karpenter_model::names::label;
use karpenter_model::resources;
use tokio_util::sync::CancellationToken;

use crate::{AwsContext, Error};

const SPEC: Spec = Spec {
    name: "providers.instancetype.capacity",
    concurrency: 1,
    backoff_min: Duration::from_secs(1),
    backoff_max: Duration::from_mins(1),
};

pub(crate) async fn run(context: AwsContext, shutdown: CancellationToken) {
    let metrics = Arc::clone(&context.common.metrics);
    let (queue, work) = Queue::new();
    context.common.view.subscribers().nodes(queue.clone());
    for node in context.common.view.nodes() {
        queue.add(node.model.name.clone());
    }
    let pass = move |name: NodeName| {
        let learnt = learn(&context, &name);
        async move { Ok::<_, Error>(learnt.map_or_else(Done::idle, |()| Done::applied())) }
    };
    work.run(SPEC, metrics, shutdown, pass).await;
}

/// Records the memory of a registered node whose image is the one a launch of its type would use now.
pub(crate) fn learn(context: &AwsContext, name: &NodeName) -> Option<()> {
    let view = &context.common.view;
    let node = view.node(name)?.model;
    if node.labels.get(label::REGISTERED)?.as_str() != "true" {
        return None;
    }
    let claim = view.claims_of(node.provider_id.as_ref()?).into_iter().next()?.model;
    let Lookup::Found(class) = context.aws.classes.get(&claim.node_class.name) else { return None };
    let status = class.status.as_ref()?;
    let name = claim.instance_type()?;
    let memory = node.capacity.get(resources::MEMORY).filter(|memory| !memory.is_zero())?;
    // A Node is looked at whenever it changes, and most teach nothing that is not known.
    if !context.aws.discovered.is_news(name.as_str(), &status.amis, memory) {
        return None;
    }
    let types = context.aws.types.list(&class).ok()?;
    let of_type = named(&types, name.as_str())?;
    let wanted = image_for(&status.amis, &of_type.requirements, &context.aws.label_registry())?;
    if claim.image_id.as_ref()?.as_str() != wanted.id {
        return None;
    }
    context.aws.discovered.record(name.as_str(), &status.amis, memory);
    Some(())
}
