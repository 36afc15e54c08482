//! `CapacityBuffer` to the model, and the pods of what it names (spec scheduling 6 and 23).

use k8s_openapi::api::core::v1::PodTemplateSpec;
use karpenter_model::{Buffer, BufferKey, Like, Pod, PodKey};

use super::Error;
use super::admission::Admission;
use super::pod;
use super::resources;
use crate::CapacityBuffer;

/// Reads a buffer.
pub fn buffer(object: &CapacityBuffer) -> Result<Buffer, Error> {
    let (metadata, spec) = (&object.metadata, &object.spec);
    let key = BufferKey::new(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    );
    let limits = spec.limits.as_ref().map(|limits| resources("spec.limits", Some(limits))).transpose();
    let limits = limits.map_err(|error| error.of("CapacityBuffer", &key.to_string()))?;
    // The schema refuses numbers below zero.
    let count = |number: Option<i32>| number.map(|number| u32::try_from(number).unwrap_or_default());
    let like = match (&spec.pod_template_ref, &spec.scalable_ref) {
        (Some(template), _) => Some(Like::PodTemplate(template.name.clone())),
        (None, Some(workload)) => Some(Like::Workload {
            group: workload.api_group.clone(),
            kind: workload.kind.clone(),
            name: workload.name.clone(),
        }),
        (None, None) => None,
    };
    Ok(Buffer {
        key,
        uid: metadata.uid.clone().unwrap_or_default(),
        like,
        replicas: count(spec.replicas),
        percentage: count(spec.percentage),
        limits,
    })
}

/// A pod as `template` of an object of this kind, namespace and name would make one, admitted. Annotations are not taken
/// over.
pub fn template_pod(
    kind: &str,
    (namespace, name): (&str, &str),
    template: Option<&PodTemplateSpec>,
    admission: &Admission,
) -> Result<Pod, Error> {
    let mut admitted = admission.of_template(template, namespace);
    admitted.metadata.annotations = None;
    pod::read(&admitted, PodKey::new(namespace, name))
        .map_err(|error| error.below("template").of(kind, &format!("{namespace}/{name}")))
}

#[cfg(test)]
mod tests {
    use karpenter_model::DoNotDisrupt;
    use serde_json::{Value, json};

    use super::*;

    fn object(spec: &Value) -> CapacityBuffer {
        let metadata = json!({"namespace": "shop", "name": "spare", "uid": "u"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let read = buffer(&object(&json!({
            "scalableRef": {"kind": "Deployment", "name": "web"},
            "percentage": 20, "replicas": 3, "limits": {"cpu": "4"},
        })))
        .unwrap();
        let like = Like::Workload { group: String::new(), kind: "Deployment".into(), name: "web".into() };
        assert_eq!(read.like, Some(like));
        assert_eq!((read.replicas, read.percentage), (Some(3), Some(20)));
        assert_eq!(read.limits.unwrap().amount("cpu").to_string(), "4");
        assert_eq!(read.key.to_string(), "shop/spare");
        let template = buffer(&object(&json!({"podTemplateRef": {"name": "web"}}))).unwrap();
        assert_eq!(template.like, Some(Like::PodTemplate("web".into())));
        assert_eq!(buffer(&object(&json!({}))).unwrap().like, None);
    }

    #[test]
    fn limits_that_cannot_be_read_are_named() {
        let error = buffer(&object(&json!({"limits": {"cpu": "lots"}}))).unwrap_err();
        assert_eq!(
            (error.object.as_str(), error.field.as_str()),
            ("CapacityBuffer `shop/spare`", "spec.limits.cpu")
        );
    }

    fn template(spec: &Value) -> PodTemplateSpec {
        let metadata = json!({
            "labels": {"app": "web"},
            "annotations": {"karpenter.sh/do-not-disrupt": "true"},
        });
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn sidecars_init_containers_and_limits_count_as_they_will_for_the_pod() {
        let container = |name: &str, resources: Value| json!({"name": name, "resources": resources});
        let mut sidecar = container("s", json!({"requests": {"cpu": "250m"}}));
        sidecar["restartPolicy"] = json!("Always");
        let spec = json!({
            "initContainers": [sidecar, container("i", json!({"requests": {"cpu": "3"}}))],
            "containers": [
                container("a", json!({"requests": {"cpu": "1"}})),
                container("b", json!({"limits": {"cpu": "500m"}})),
            ],
        });
        let read = |spec: &Value| {
            template_pod("PodTemplate", ("shop", "web"), Some(&template(spec)), &Admission::default())
                .unwrap()
        };
        let pod = read(&spec);
        // The init container next to the sidecar takes more than the containers next to it.
        assert_eq!(pod.requests.amount("cpu").to_string(), "3250m");
        assert_eq!(pod.requests.amount("pods").to_string(), "1");
        assert_eq!(pod.do_not_disrupt, DoNotDisrupt::No, "annotations are for pods that exist");
        assert_eq!(pod.labels.len(), 1);
        let mut without = spec;
        without["initContainers"] = json!([without["initContainers"][0]]);
        assert_eq!(read(&without).requests.amount("cpu").to_string(), "1750m");
    }

    #[test]
    fn limit_ranges_fill_in_what_the_template_does_not_say() {
        let given = Admission::of(&[json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": {"namespace": "shop", "name": "usual"},
            "spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "1Gi"}}]},
        })]);
        let spec = json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]});
        let pod = template_pod("Deployment", ("shop", "web"), Some(&template(&spec)), &given).unwrap();
        assert_eq!(pod.requests.amount("memory").to_string(), "1Gi");
    }

    #[test]
    fn an_odd_template_is_named() {
        let spec = json!({"containers": [], "tolerations": [{"effect": "Sometimes"}]});
        let error =
            template_pod("PodTemplate", ("shop", "web"), Some(&template(&spec)), &Admission::default())
                .unwrap_err();
        assert_eq!(error.object, "PodTemplate `shop/web`");
        assert_eq!(error.field, "template.spec.tolerations[0].effect");
    }
}
