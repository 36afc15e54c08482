//! The API server's answers.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use karpenter_kube_harness::watch::Readable;
use kube::api::{Api, ListParams, LogParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use crate::facts::{Answer, Cluster, Objects};

/// Lines of the log that are looked at.
const LINES: i64 = 2000;
/// Largest age of these lines: an hour, as long as API servers keep events. Faults from before may be repaired since.
const LOG_AGE_SECONDS: i64 = 60 * 60;
/// Namespace of EKS's own settings.
const SYSTEM: &str = "kube-system";
/// Objects of one page.
const PAGE: u32 = 500;
/// Leases of controllers: each node has one more, which is renewed all the time.
const NOT_OF_NODES: &str = "metadata.namespace!=kube-node-lease";

/// Asks for everything, one kind after the other.
pub async fn cluster(client: &Client) -> Cluster {
    let mut pods: Answer<Vec<Pod>> = list(Api::all(client.clone())).await;
    pods.as_mut().into_iter().flatten().for_each(forget_environment);
    let mut cluster = Cluster {
        nodes: list(Api::all(client.clone())).await,
        pods,
        deployments: list(Api::all(client.clone())).await,
        daemon_sets: list(Api::all(client.clone())).await,
        budgets: list(Api::all(client.clone())).await,
        volumes: list(Api::all(client.clone())).await,
        volume_claims: list(Api::all(client.clone())).await,
        storage_classes: list(Api::all(client.clone())).await,
        definitions: list(Api::all(client.clone())).await,
        node_pools: custom(client).await,
        node_claims: custom(client).await,
        node_classes: custom(client).await,
        events: list(Api::all(client.clone())).await,
        config_maps: list(Api::namespaced(client.clone(), SYSTEM)).await,
        service_accounts: list(Api::all(client.clone())).await,
        flow_schemas: list(Api::all(client.clone())).await,
        cluster_roles: list(Api::all(client.clone())).await,
        cluster_role_bindings: list(Api::all(client.clone())).await,
        leases: select(Api::all(client.clone()), NOT_OF_NODES).await,
        log: Answer::default(),
    };
    let variables = variables(client, &cluster).await;
    match (&mut cluster.config_maps, variables) {
        (Answer::Seen(maps), Ok(more)) => maps.extend(more),
        (maps, Err(why)) => *maps = Answer::Unseen(why),
        _ => {}
    }
    cluster.log = log(client, &cluster).await;
    cluster
}

/// Every page of a list, without what only servers need. A page that fails spoils the whole: half a list is none.
async fn pages<K>(api: Api<K>, fields: &str) -> kube::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut all = Vec::new();
    let mut parameters = ListParams::default().limit(PAGE).fields(fields);
    loop {
        let page = api.list(&parameters).await?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => break,
        }
    }
    for object in &mut all {
        object.meta_mut().managed_fields = None;
    }
    Ok(all)
}

async fn list<K>(api: Api<K>) -> Answer<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    select(api, "").await
}

/// The objects that a field selector selects.
async fn select<K>(api: Api<K>, fields: &str) -> Answer<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    pages(api, fields).await.map_err(|error| refusal::<K>(&error)).into()
}

/// A kind whose definition is not installed has no objects: nothing was refused. They are decoded one by one, because
/// another release may have written one that this release cannot decode.
async fn custom<K>(client: &Client) -> Answer<Objects<K>>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    match pages(Api::<Readable<K>>::all(client.clone()), "").await {
        Err(kube::Error::Api(status)) if status.code == 404 => Answer::Seen(Objects::default()),
        other => other.map(Objects::from_iter).map_err(|error| refusal::<K>(&error)).into(),
    }
}

fn refusal<K: Resource<DynamicType = ()>>(error: &kube::Error) -> String {
    let (plural, group) = (K::plural(&()), K::group(&()));
    let resource = if group.is_empty() { plural.to_string() } else { format!("{plural}.{group}") };
    format!("cannot list {plural}: {}", reason(error, "list", &resource))
}

/// Returns why the API server did not answer, and the right to add where the caller lacks one.
fn reason(error: &kube::Error, verb: &str, resource: &str) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            format!("403 {}; grant the caller `{verb}` on `{resource}`", status.message)
        }
        kube::Error::Api(status) => format!("{} {}", status.code, status.message),
        other => other.to_string(),
    }
}

/// Values of variables may be secrets, and no check looks at those of pods.
fn forget_environment(pod: &mut Pod) {
    let Some(spec) = &mut pod.spec else { return };
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        container.env = None;
    }
}

/// `ConfigMaps` outside [`SYSTEM`] that the controller takes variables from.
async fn variables(client: &Client, cluster: &Cluster) -> Result<Vec<ConfigMap>, String> {
    let Ok(Some(deployment)) = cluster.controller() else { return Ok(Vec::new()) };
    let namespace = deployment.metadata.namespace.as_deref().unwrap_or("default");
    let container = crate::facts::main_container(deployment).filter(|_| namespace != SYSTEM);
    let Some(container) = container else { return Ok(Vec::new()) };
    let whole = container.env_from.iter().flatten();
    let whole = whole.filter_map(|source| Some(&source.config_map_ref.as_ref()?.name));
    let single = container.env.iter().flatten();
    let single =
        single.filter_map(|variable| Some(&variable.value_from.as_ref()?.config_map_key_ref.as_ref()?.name));
    let names: BTreeSet<&String> = whole.chain(single).collect();
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let mut maps = Vec::new();
    for name in names {
        let found = api.get_opt(name).await;
        let refused = |error| {
            let reason = reason(&error, "get", "configmaps");
            format!("cannot get configmap {namespace}/{name}: {reason}")
        };
        maps.extend(found.map_err(refused)?);
    }
    Ok(maps)
}

/// The end of the last hour of the log of every replica; nothing without a controller.
async fn log(client: &Client, cluster: &Cluster) -> Answer<Vec<String>> {
    let deployment = match cluster.controller() {
        Ok(Some(deployment)) => deployment,
        Ok(None) => return Answer::Seen(Vec::new()),
        Err(unseen) => return Answer::Unseen(unseen.0),
    };
    let pods = match cluster.pods.get() {
        Ok(pods) => pods,
        Err(unseen) => return Answer::Unseen(unseen.0),
    };
    let selector = deployment.spec.as_ref().and_then(|spec| spec.selector.match_labels.clone());
    let Some(selector) = selector else { return Answer::Seen(Vec::new()) };
    let namespace = deployment.metadata.namespace.as_deref().unwrap_or("default");
    let container = crate::facts::main_container(deployment).map(|container| container.name.clone());
    let parameters = LogParams {
        container,
        tail_lines: Some(LINES),
        since_seconds: Some(LOG_AGE_SECONDS),
        ..LogParams::default()
    };
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut lines = Vec::new();
    for pod in pods {
        let labels = pod.metadata.labels.as_ref();
        let is_replica = pod.metadata.namespace.as_deref() == Some(namespace)
            && selector.iter().all(|(key, value)| crate::facts::label(labels, key) == Some(value));
        let is_started = pod.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Pending");
        let Some(name) = pod.metadata.name.as_deref().filter(|_| is_replica && is_started) else { continue };
        match api.logs(name, &parameters).await {
            Ok(text) => lines.extend(text.lines().map(str::to_owned)),
            Err(error) => {
                let reason = reason(&error, "get", "pods/log");
                return Answer::Unseen(format!("cannot read the log of {name}: {reason}"));
            }
        }
    }
    Answer::Seen(lines)
}
