//! The objects of older versions that a cluster has, as texts for the converter.
//!
//! It asks and lists, and writes nothing. What may not be read ends the command with every missing right: half of a cluster's
//! pools and classes converted would be taken for all of them.

use anyhow::{Context, Result, bail, ensure};
use karpenter_convert::{Input, Options, convert};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, TypeMeta};
use kube::{Error, ResourceExt};

/// A kind to read.
#[derive(Clone, Copy)]
struct Kind {
    group: &'static str,
    version: &'static str,
    name: &'static str,
    plural: &'static str,
}

/// The kinds that become NodePools and EC2NodeClasses. Machines and NodeClaims are left alone: each stands for an instance
/// that runs, and applied again it would launch one more.
const OLD: [Kind; 4] = [
    Kind::new("karpenter.sh", "v1alpha5", "Provisioner", "provisioners"),
    Kind::new("karpenter.k8s.aws", "v1alpha1", "AWSNodeTemplate", "awsnodetemplates"),
    Kind::new("karpenter.sh", "v1beta1", "NodePool", "nodepools"),
    Kind::new("karpenter.k8s.aws", "v1beta1", "EC2NodeClass", "ec2nodeclasses"),
];

/// The kinds whose pods are made from a template.
const WORKLOADS: [Kind; 4] = [
    Kind::new("apps", "v1", "Deployment", "deployments"),
    Kind::new("apps", "v1", "StatefulSet", "statefulsets"),
    Kind::new("apps", "v1", "DaemonSet", "daemonsets"),
    Kind::new("batch", "v1", "CronJob", "cronjobs"),
];

/// Objects per request.
const PAGE: u32 = 500;

/// Annotations that clients and controllers keep for themselves; the first of them repeats the object in its old form.
const KEPT_BY_OTHERS: [&str; 2] = ["kubectl.kubernetes.io/", "deployment.kubernetes.io/"];

impl Kind {
    const fn new(
        group: &'static str,
        version: &'static str,
        name: &'static str,
        plural: &'static str,
    ) -> Self {
        Self { group, version, name, plural }
    }

    fn api_version(self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    fn resource(self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: self.name.to_owned(),
            plural: self.plural.to_owned(),
        }
    }
}

/// Every old object of the cluster; with `workloads` also what names old labels in the template of its pods.
pub(super) async fn read(client: &Client, workloads: bool, options: &Options) -> Result<Vec<Input>> {
    let mut kinds = Vec::new();
    for kind in OLD {
        if is_served(client, kind).await? {
            kinds.push(kind);
        }
    }
    if kinds.is_empty() {
        let known = OLD.map(|kind| format!("{} of {}", kind.plural, kind.api_version())).join(", ");
        bail!(
            "cannot convert the objects of the cluster: it serves none of {known}; if they are v1 by now there is nothing \
             to convert, and manifests are given with `--filename`"
        );
    }
    let templates = if workloads { &WORKLOADS[..] } else { &[] };
    let (mut inputs, mut missing) = (Vec::new(), Vec::new());
    for kind in kinds.iter().chain(templates) {
        let objects = match list(client, *kind).await {
            Ok(objects) => objects,
            Err(Error::Api(status)) if status.is_forbidden() => {
                missing.push(format!("{} (API group `{}`)", kind.plural, kind.group));
                continue;
            }
            Err(error) => {
                let text = format!("cannot list {} of the cluster; try again", kind.plural);
                return Err(error).context(text);
            }
        };
        let is_workload = kind.group == "apps" || kind.group == "batch";
        for object in objects {
            inputs.extend(if is_workload {
                workload(object, *kind, options)?
            } else {
                Some(input(&object, *kind)?)
            });
        }
    }
    ensure!(
        missing.is_empty(),
        "cannot read all that is to be converted: the API server forbids to list {}; grant verb `list` on these in the whole \
         cluster to the user of the kubeconfig",
        missing.join(", ")
    );
    Ok(inputs)
}

/// Returns whether the cluster has objects of a kind in this version.
async fn is_served(client: &Client, kind: Kind) -> Result<bool> {
    match client.list_api_group_resources(&kind.api_version()).await {
        Ok(known) => Ok(known.resources.iter().any(|resource| resource.name == kind.plural)),
        // Text and no status object: the server has never heard of the group.
        Err(Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error).with_context(|| {
            format!("cannot ask the cluster whether it serves `{}`; check the kubeconfig", kind.api_version())
        }),
    }
}

async fn list(client: &Client, kind: Kind) -> Result<Vec<DynamicObject>, Error> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource());
    let mut parameters = ListParams::default().limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let page = api.list(&parameters).await?;
        objects.extend(page.items);
        match page.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => parameters = ListParams::default().limit(PAGE).continue_token(&more),
            None => return Ok(objects),
        }
    }
}

/// An object under the name that `kubectl get` takes. Items of a list do not contain their kind.
fn input(object: &DynamicObject, kind: Kind) -> Result<Input> {
    let types = TypeMeta { api_version: kind.api_version(), kind: kind.name.to_owned() };
    let object = DynamicObject { types: Some(types), ..object.clone() };
    let namespace = object.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let name = format!("{}.{}/{namespace}{}", kind.plural, kind.group, object.name_any());
    let text = serde_saphyr::to_string(&object).with_context(|| format!("cannot write `{name}` as YAML"))?;
    Ok(Input { name, text })
}

/// A workload as its owner wrote it, if the converter has a finding about it.
fn workload(mut object: DynamicObject, kind: Kind, options: &Options) -> Result<Option<Input>> {
    // An object that another one creates is changed there.
    if !object.owner_references().is_empty() {
        return Ok(None);
    }
    let metadata = &mut object.metadata;
    metadata.annotations = metadata.annotations.take().map(|mut annotations| {
        annotations.retain(|key, _| !KEPT_BY_OTHERS.iter().any(|start| key.starts_with(start)));
        annotations
    });
    metadata.managed_fields = None;
    metadata.owner_references = None;
    metadata.uid = None;
    metadata.resource_version = None;
    metadata.generation = None;
    metadata.creation_timestamp = None;
    if let Some(fields) = object.data.as_object_mut() {
        fields.shift_remove("status");
    }
    let input = input(&object, kind)?;
    let report = convert(std::slice::from_ref(&input), options).report;
    Ok(report.objects.iter().any(|object| !object.entries.is_empty()).then_some(input))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;
    use std::sync::Arc;

    use http::{Request, Response};
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;

    /// The requests, in order.
    type Requests = Arc<Mutex<Vec<String>>>;

    /// A cluster that answers by path and query; any other path is unknown to it.
    fn cluster(answers: &[(&str, u16, Value)]) -> (Client, Requests) {
        let answers: BTreeMap<String, (u16, Value)> =
            answers.iter().map(|(path, code, body)| ((*path).to_owned(), (*code, body.clone()))).collect();
        let answers = Arc::new(answers);
        let asked = Requests::default();
        let log = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (answers, log) = (Arc::clone(&answers), Arc::clone(&log));
            async move {
                let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
                log.lock().push(format!("{} {path}", request.method()));
                let (code, body) = match answers.get(&path) {
                    Some((code, body)) => (*code, serde_json::to_vec(body).unwrap()),
                    None => (404, b"404 page not found\n".to_vec()),
                };
                let body = Body::from(body);
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        (Client::new(service, "default"), asked)
    }

    fn status(code: u16, reason: &str) -> Value {
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
            "message": reason})
    }

    fn serves(version: &str, plural: &str, kind: &str) -> Value {
        let resource =
            json!({"name": plural, "singularName": "", "namespaced": false, "kind": kind, "verbs": ["list"]});
        json!({"kind": "APIResourceList", "groupVersion": version, "resources": [resource]})
    }

    fn list_of(items: &Value, more: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "List", "metadata": {"continue": more}, "items": items})
    }

    fn provisioner(name: &str) -> Value {
        json!({"metadata": {"name": name, "uid": "u", "resourceVersion": "1"},
            "spec": {"providerRef": {"name": "default"}}})
    }

    #[tokio::test]
    async fn every_page_of_what_is_served_is_read_and_nothing_is_written() {
        let (client, asked) = cluster(&[
            (
                "/apis/karpenter.sh/v1alpha5",
                200,
                serves("karpenter.sh/v1alpha5", "provisioners", "Provisioner"),
            ),
            ("/apis/karpenter.sh/v1beta1", 200, serves("karpenter.sh/v1beta1", "nodeclaims", "NodeClaim")),
            (
                "/apis/karpenter.sh/v1alpha5/provisioners?&limit=500",
                200,
                list_of(&json!([provisioner("a")]), "next"),
            ),
            (
                "/apis/karpenter.sh/v1alpha5/provisioners?&limit=500&continue=next",
                200,
                list_of(&json!([provisioner("b")]), ""),
            ),
        ]);
        let inputs = read(&client, false, &Options::default()).await.unwrap();
        let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
        assert_eq!(names, ["provisioners.karpenter.sh/a", "provisioners.karpenter.sh/b"]);
        let converted = convert(&inputs, &Options::default());
        assert_eq!(converted.report.exit_code(), 0, "{}", converted.report.text());
        let text = converted.report.text();
        assert!(text.contains("provisioners.karpenter.sh/a:1 Provisioner/a -> NodePool/a"), "{text}");
        assert!(asked.lock().iter().all(|line| line.starts_with("GET ")), "{asked:?}");
    }

    #[tokio::test]
    async fn every_missing_right_is_named_and_nothing_is_converted() {
        let forbidden = || status(403, "Forbidden");
        let (client, _) = cluster(&[
            ("/apis/karpenter.sh/v1beta1", 200, serves("karpenter.sh/v1beta1", "nodepools", "NodePool")),
            (
                "/apis/karpenter.k8s.aws/v1beta1",
                200,
                serves("karpenter.k8s.aws/v1beta1", "ec2nodeclasses", "EC2NodeClass"),
            ),
            ("/apis/karpenter.sh/v1beta1/nodepools?&limit=500", 403, forbidden()),
            ("/apis/karpenter.k8s.aws/v1beta1/ec2nodeclasses?&limit=500", 403, forbidden()),
        ]);
        let error = read(&client, false, &Options::default()).await.unwrap_err().to_string();
        let expected = "forbids to list nodepools (API group `karpenter.sh`), ec2nodeclasses (API group `karpenter.k8s.aws`); \
                        grant verb `list`";
        assert!(error.contains(expected), "{error}");
    }

    #[tokio::test]
    async fn a_cluster_without_old_kinds_has_nothing_to_convert() {
        let (client, asked) = cluster(&[]);
        let error = read(&client, true, &Options::default()).await.unwrap_err().to_string();
        assert!(error.contains("it serves none of provisioners of karpenter.sh/v1alpha5, "), "{error}");
        assert_eq!(asked.lock().len(), OLD.len());
    }

    #[tokio::test]
    async fn of_workloads_only_those_with_old_names_are_read_without_what_the_cluster_wrote() {
        let of = |name: &str, selector: &Value, owners: &Value| {
            json!({
                "metadata": {
                    "name": name, "namespace": "shop", "uid": "u", "resourceVersion": "1", "generation": 2,
                    "ownerReferences": owners,
                    "annotations": {
                        "kubectl.kubernetes.io/last-applied-configuration": "karpenter.sh/provisioner-name",
                        "deployment.kubernetes.io/revision": "3", "team": "web",
                    },
                },
                "spec": {"template": {"spec": {"nodeSelector": selector, "containers": []}}},
                "status": {"replicas": 1},
            })
        };
        let old = json!({"karpenter.sh/provisioner-name": "default"});
        let owner = json!([{"apiVersion": "a/v1", "kind": "A", "name": "a", "uid": "u"}]);
        let deployments = json!([
            of("web", &old, &json!([])),
            of("today", &json!({"karpenter.sh/nodepool": "default"}), &json!([])),
            of("owned", &old, &owner),
        ]);
        let (client, _) = cluster(&[
            (
                "/apis/karpenter.sh/v1alpha5",
                200,
                serves("karpenter.sh/v1alpha5", "provisioners", "Provisioner"),
            ),
            ("/apis/karpenter.sh/v1alpha5/provisioners?&limit=500", 200, list_of(&json!([]), "")),
            ("/apis/apps/v1/deployments?&limit=500", 200, list_of(&deployments, "")),
            ("/apis/apps/v1/statefulsets?&limit=500", 200, list_of(&json!([]), "")),
            ("/apis/apps/v1/daemonsets?&limit=500", 200, list_of(&json!([]), "")),
            ("/apis/batch/v1/cronjobs?&limit=500", 200, list_of(&json!([]), "")),
        ]);
        let inputs = read(&client, true, &Options::default()).await.unwrap();
        let [input] = inputs.as_slice() else { panic!("{inputs:?}") };
        assert_eq!(input.name, "deployments.apps/shop/web");
        let written: Value =
            serde_saphyr::from_str(&convert(&inputs, &Options::default()).manifests).unwrap();
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "annotations": {"team": "web"}},
            "spec": {"template": {"spec": {"nodeSelector": {"karpenter.sh/nodepool": "default"}, "containers": []}}},
        });
        assert_eq!(written, expected);
    }
}
