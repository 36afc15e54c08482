//! Follows the reference of a buffer.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{PodTemplate, PodTemplateSpec};
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use karpenter_api::convert;
use karpenter_kube_harness::write::{self, Object};
use karpenter_lifecycle::buffer::{self, Pattern, Source, Unresolved};
use karpenter_model::device::ClaimTemplate;
use karpenter_model::{Buffer, BufferKey, Pod};
use kube::Resource;
use kube::api::Api;

use crate::view::KnownBuffer;
use crate::{Context, Error};

/// The result of following a reference.
pub(super) struct Found {
    /// The virtual pods of the buffer.
    pub(super) pods: Vec<Pod>,
    /// Generation of the pod template, if the reference is to one.
    pub(super) template_generation: Option<i64>,
}

/// The object a reference is to.
struct Referent {
    template: Option<PodTemplateSpec>,
    /// Absent for pod templates; one where the author gave none.
    replicas: Option<i32>,
    generation: Option<i64>,
}

/// The pods of `known`, or the reason why there are none; an error when the API server gave no answer.
pub(super) async fn resolve(
    context: &Context,
    key: &BufferKey,
    known: &KnownBuffer,
) -> Result<Result<Found, Unresolved>, Error> {
    let buffer = match &*known.model {
        Ok(buffer) => buffer,
        Err(error) => return Ok(Err(Unresolved::Unreadable(error.to_string()))),
    };
    let source = match buffer::source(buffer) {
        Ok(source) => source,
        Err(unresolved) => return Ok(Err(unresolved)),
    };
    let Some(referent) = fetch(context, key.namespace.as_str(), source).await? else {
        return Ok(Err(source.missing()));
    };
    let claims = match claims_to_make(context, key.namespace.as_str(), &referent).await? {
        Ok(claims) => claims,
        Err(unresolved) => return Ok(Err(unresolved)),
    };
    Ok(found(context, buffer, source, &referent, claims))
}

/// The claims that each pod of `referent` would have made for it; none while resource claims are ignored, or where the templates
/// may not be read: its pods get room then, and no devices.
async fn claims_to_make(
    context: &Context,
    namespace: &str,
    referent: &Referent,
) -> Result<Result<Vec<ClaimTemplate>, Unresolved>, Error> {
    let mut claims = Vec::new();
    if context.settings.decisions.ignore_dra_requests {
        return Ok(Ok(claims));
    }
    let spec = referent.template.as_ref().and_then(|template| template.spec.as_ref());
    let used = spec.and_then(|spec| spec.resource_claims.as_ref()).into_iter().flatten();
    for claim in used {
        // A pod that names a claim has none made for it.
        let Some(template) = &claim.resource_claim_template_name else { continue };
        let api = Api::<ResourceClaimTemplate>::namespaced(context.client.clone(), namespace);
        let object = match write::read(&api, template).await {
            Err(error) if error.is_forbidden() => {
                tracing::warn!(%error, "buffers get no devices: resource claim templates may not be read");
                return Ok(Ok(Vec::new()));
            }
            object => object?,
        };
        let Some(object) = object else { return Ok(Err(Unresolved::NoClaimTemplate(template.clone()))) };
        match convert::claim_template(&claim.name, &object) {
            Ok(claim) => claims.push(claim),
            Err(error) => return Ok(Err(Unresolved::Unreadable(error.to_string()))),
        }
    }
    Ok(Ok(claims))
}

async fn fetch(context: &Context, namespace: &str, source: Source<'_>) -> Result<Option<Referent>, Error> {
    Ok(match source {
        Source::PodTemplate(name) => get::<PodTemplate>(context, namespace, name).await?.map(|object| {
            Referent { template: object.template, replicas: None, generation: object.metadata.generation }
        }),
        Source::Deployment(name) => get::<Deployment>(context, namespace, name).await?.map(|object| {
            let spec = object.spec.unwrap_or_default();
            workload(Some(spec.template), spec.replicas)
        }),
        Source::StatefulSet(name) => get::<StatefulSet>(context, namespace, name).await?.map(|object| {
            let spec = object.spec.unwrap_or_default();
            workload(Some(spec.template), spec.replicas)
        }),
        Source::ReplicaSet(name) => get::<ReplicaSet>(context, namespace, name).await?.map(|object| {
            let spec = object.spec.unwrap_or_default();
            workload(spec.template, spec.replicas)
        }),
    })
}

fn workload(template: Option<PodTemplateSpec>, replicas: Option<i32>) -> Referent {
    // One is the default of the API server for all three kinds.
    Referent { template, replicas: Some(replicas.unwrap_or(1)), generation: None }
}

async fn get<K>(context: &Context, namespace: &str, name: &str) -> Result<Option<K>, Error>
where
    K: Object + Resource<Scope = NamespaceResourceScope>,
{
    Ok(write::read(&Api::namespaced(context.client.clone(), namespace), name).await?)
}

fn found(
    context: &Context,
    buffer: &Buffer,
    source: Source<'_>,
    referent: &Referent,
    claims: Vec<ClaimTemplate>,
) -> Result<Found, Unresolved> {
    let (kind, name) = source.named();
    let namespace = buffer.key.namespace.as_str();
    let admission = context.view.admission();
    let mut pod = convert::template_pod(kind, (namespace, name), referent.template.as_ref(), &admission)
        .map_err(|error| Unresolved::Unreadable(error.to_string()))?;
    if !claims.is_empty() {
        pod.claim_templates = claims;
    }
    let replicas = referent.replicas.map(|replicas| u32::try_from(replicas).unwrap_or_default());
    let pattern = Pattern { pod, replicas };
    let count = buffer::replicas(buffer, &pattern);
    let pods = buffer::pods(buffer, &pattern.pod, count, context.now());
    Ok(Found { pods, template_generation: referent.generation })
}
