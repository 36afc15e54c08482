//! The controller's Deployment: where it runs, with which settings, and what stands in its way.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_model::names;

use super::{name, object, selects};
use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity};
use crate::facts::{Facts, Unseen, label, main_container};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "P-15",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "after an outage nothing starts: the controller cannot resolve names",
        cause: "its dnsPolicy is ClusterFirst while CoreDNS runs only on nodes that it must launch first",
        fix: "`helm upgrade karpenter <chart> --namespace <namespace> --reuse-values --set dnsPolicy=Default`, or run CoreDNS on other capacity",
        look: Look::At(dns_on_own_nodes),
    },
    Check {
        id: "P-24",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "the controller is evicted with its node and nothing launches a new one",
        cause: "a replica runs on a node that it manages",
        fix: "keep the chart's affinity, karpenter.sh/nodepool DoesNotExist: `helm get values karpenter --namespace <namespace>` shows what replaces it",
        look: Look::At(on_own_nodes),
    },
    Check {
        id: "P-25",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "the lease is lost when the API server is busy",
        cause: "outside kube-system, requests of the controller share the priority of all service accounts",
        fix: "`helm upgrade karpenter <chart> --namespace <namespace> --reuse-values --set flowSchemas.enabled=true`",
        look: Look::At(no_flow_schema),
    },
    Check {
        id: "P-27",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "zonal shifts are not followed",
        cause: "the setting is on, but the cluster is not registered with ARC zonal shift",
        fix: "`aws eks update-cluster-config --name <cluster> --zonal-shift-config enabled=true`",
        look: Look::At(unregistered_shift),
    },
    Check {
        id: "P-29",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "the start fails: no region",
        cause: "AWS_REGION is not set, and pods do not reach the instance metadata behind a hop limit of 1",
        fix: "`helm upgrade karpenter <chart> --namespace <namespace> --reuse-values --set settings.region=<region>`, or give the service account a role: Pod Identity and IRSA set the region",
        look: Look::At(no_region),
    },
    Check {
        id: "D-01",
        also: &[],
        severity: Severity::Advice,
        scope: Scope::Cluster,
        symptom: "the log does not say enough",
        cause: "the log level hides what happens",
        fix: "`helm upgrade karpenter <chart> --namespace <namespace> --reuse-values --set logLevel=info`, or debug while looking for something",
        look: Look::At(quiet_log),
    },
    Check {
        id: "D-06",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "the second replica is Pending",
        cause: "there are fewer nodes that Karpenter does not manage than replicas, and replicas never share one",
        fix: "grow the node group, or `helm upgrade karpenter <chart> --namespace <namespace> --reuse-values --set replicas=1`",
        look: Look::At(too_few_nodes),
    },
    Check {
        id: "D-07",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "the chart or the image cannot be pulled",
        cause: "a chart version or an image that does not exist, a Helm older than 3.8, or `helm repo add` for an OCI registry",
        fix: "name an image that is in your registry: `helm upgrade karpenter <chart> --namespace <namespace> --reuse-values --set controller.image.repository=<repository> --set controller.image.tag=<tag>`; use a current Helm",
        look: Look::At(missing_image),
    },
    Check {
        id: "D-12",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "DaemonSets do not fit on new nodes",
        cause: "the controller is v0.5.3 or older",
        fix: "upgrade by docs/guides/from-older-karpenter.md: `karpenter convert` rewrites its objects and values",
        look: Look::At(ancient),
    },
    Check {
        id: "D-36",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "spot nodes live for minutes",
        cause: "the AWS Node Termination Handler drains them on rebalance recommendations, in parallel",
        fix: "`helm uninstall` it, switch its drains off, or keep it off Karpenter's nodes by affinity: karpenter.sh/nodepool DoesNotExist; DISRUPTION_ON_REBALANCE=true heeds recommendations within budgets",
        look: Look::At(termination_handler),
    },
];

/// The controller, for checks that have nothing to say without it.
fn controller(facts: &Facts) -> Result<Option<&Deployment>, Unseen> {
    facts.cluster.controller()
}

fn pod_spec(deployment: &Deployment) -> Option<&PodSpec> {
    deployment.spec.as_ref()?.template.spec.as_ref()
}

/// Pods in the controller's namespace with its selector's labels.
pub(super) fn pods_of<'a>(deployment: &Deployment, pods: &'a [Pod]) -> Vec<&'a Pod> {
    let selector = deployment.spec.as_ref().map(|spec| &spec.selector);
    pods.iter()
        .filter(|pod| pod.metadata.namespace == deployment.metadata.namespace)
        .filter(|pod| selects(selector, pod.metadata.labels.as_ref()))
        .collect()
}

fn is_on(pod: &Pod, nodes: &[&Node]) -> bool {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    node.is_some_and(|node| nodes.iter().any(|managed| name(&managed.metadata) == node))
}

fn dns_on_own_nodes(facts: &Facts) -> Outcome {
    let Some(deployment) = controller(facts)? else { return Ok(Vec::new()) };
    let policy = pod_spec(deployment).and_then(|spec| spec.dns_policy.as_deref()).unwrap_or("ClusterFirst");
    let managed = facts.cluster.managed_nodes()?;
    let is_dns = |pod: &&Pod| label(pod.metadata.labels.as_ref(), "k8s-app") == Some("kube-dns");
    let dns: Vec<&Pod> = facts.cluster.pods.get()?.iter().filter(is_dns).collect();
    let is_trapped =
        policy == "ClusterFirst" && !dns.is_empty() && dns.iter().all(|pod| is_on(pod, &managed));
    Ok(is_trapped
        .then(|| {
            let seen =
                format!("dnsPolicy is {policy}; all {} pods of CoreDNS are on Karpenter's nodes", dns.len());
            Evidence::new(object("Deployment", &deployment.metadata), seen)
        })
        .into_iter()
        .collect())
}

fn on_own_nodes(facts: &Facts) -> Outcome {
    let Some(deployment) = controller(facts)? else { return Ok(Vec::new()) };
    let managed = facts.cluster.managed_nodes()?;
    let pods = pods_of(deployment, facts.cluster.pods.get()?);
    Ok(pods
        .into_iter()
        .filter(|pod| is_on(pod, &managed))
        .map(|pod| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
            Evidence::new(object("Pod", &pod.metadata), format!("runs on node `{node}`, which it manages"))
        })
        .collect())
}

fn no_flow_schema(facts: &Facts) -> Outcome {
    let Some(deployment) = controller(facts)? else { return Ok(Vec::new()) };
    let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
    if namespace == "kube-system" {
        return Ok(Vec::new());
    }
    let has_schema = facts.cluster.flow_schemas.get()?.iter().any(|schema| {
        let rules = schema.spec.as_ref().and_then(|spec| spec.rules.as_ref());
        rules.into_iter().flatten().flat_map(|rule| &rule.subjects).any(|subject| {
            subject
                .service_account
                .as_ref()
                .is_some_and(|account| account.namespace == namespace && account.name != "*")
        })
    });
    Ok((!has_schema)
        .then(|| {
            let seen = format!("is in `{namespace}`, and no FlowSchema names its service account");
            Evidence::new(object("Deployment", &deployment.metadata), seen)
        })
        .into_iter()
        .collect())
}

fn unregistered_shift(facts: &Facts) -> Outcome {
    if facts.cluster.setting("ENABLE_ZONAL_SHIFT")?.as_deref() != Some("true") {
        return Ok(Vec::new());
    }
    let cluster = facts.account.eks.get()?.as_ref();
    let is_registered = cluster.is_some_and(|cluster| cluster.zonal_shift == Some(true));
    Ok((!is_registered)
        .then(|| {
            let seen = "ENABLE_ZONAL_SHIFT is true, and EKS does not say that the cluster is registered";
            Evidence::new(format!("cluster {}", facts.cluster_name), seen)
        })
        .into_iter()
        .collect())
}

fn missing_image(facts: &Facts) -> Outcome {
    const REASONS: [&str; 3] = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"];
    let Some(deployment) = controller(facts)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for pod in pods_of(deployment, facts.cluster.pods.get()?) {
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        for status in statuses.into_iter().flatten() {
            let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
            let reason = waiting.and_then(|waiting| waiting.reason.as_deref()).unwrap_or_default();
            if REASONS.contains(&reason) {
                found
                    .push(Evidence::new(object("Pod", &pod.metadata), format!("{reason}: {}", status.image)));
            }
        }
    }
    Ok(found)
}

fn no_region(facts: &Facts) -> Outcome {
    let Some(deployment) = controller(facts)? else { return Ok(Vec::new()) };
    let is_set = facts.cluster.setting("AWS_REGION")?.is_some();
    let spec = pod_spec(deployment);
    let on_host = spec.is_some_and(|spec| spec.host_network == Some(true));
    if is_set || on_host || has_role(facts)? {
        return Ok(Vec::new());
    }
    let seen = "AWS_REGION is not set, and its service account has neither Pod Identity nor IRSA";
    Ok(vec![Evidence::new(object("Deployment", &deployment.metadata), seen)])
}

/// Returns whether something injects role and region into the pods.
fn has_role(facts: &Facts) -> Result<bool, Unseen> {
    Ok(facts.cluster.annotated_role()?.is_some() || facts.account.pod_identity.get()?.is_some())
}

fn quiet_log(facts: &Facts) -> Outcome {
    let Some(deployment) = controller(facts)? else { return Ok(Vec::new()) };
    let level = facts.cluster.setting("LOG_LEVEL")?.filter(|level| level == "error" || level == "warn");
    let object = object("Deployment", &deployment.metadata);
    Ok(level.map(|level| Evidence::new(object, format!("LOG_LEVEL is `{level}`"))).into_iter().collect())
}

fn too_few_nodes(facts: &Facts) -> Outcome {
    let Some(deployment) = controller(facts)? else { return Ok(Vec::new()) };
    let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let nodes = facts.cluster.nodes.get()?;
    // The chart keeps replicas off nodes of every NodePool.
    let others = nodes.len() - facts.cluster.nodes_of_pools()?.len();
    let is_short = usize::try_from(replicas).is_ok_and(|replicas| others < replicas);
    Ok(is_short
        .then(|| {
            let seen = format!("{replicas} replicas, {others} nodes that Karpenter does not manage");
            Evidence::new(object("Deployment", &deployment.metadata), seen)
        })
        .into_iter()
        .collect())
}

fn ancient(facts: &Facts) -> Outcome {
    let Some(deployment) = controller(facts)? else { return Ok(Vec::new()) };
    let image =
        main_container(deployment).and_then(|container| container.image.as_deref()).unwrap_or_default();
    let tag = image.strip_prefix("public.ecr.aws/karpenter/controller:v0.");
    let minor = tag.and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    let is_old = minor.is_some_and(|minor| minor <= 5);
    Ok(is_old
        .then(|| Evidence::new(object("Deployment", &deployment.metadata), format!("runs `{image}`")))
        .into_iter()
        .collect())
}

fn termination_handler(facts: &Facts) -> Outcome {
    if facts.cluster.setting("INTERRUPTION_QUEUE")?.is_none() {
        return Ok(Vec::new());
    }
    let sets = facts.cluster.daemon_sets.get()?.iter();
    let sets = sets.map(|set| ("DaemonSet", &set.metadata, set.spec.as_ref().map(|spec| &spec.template)));
    let deployments = facts.cluster.deployments.get()?.iter();
    let deployments = deployments
        .map(|found| ("Deployment", &found.metadata, found.spec.as_ref().map(|spec| &spec.template)));
    let handlers = sets.chain(deployments).filter(|(_, metadata, _)| name(metadata).contains(HANDLER));
    let evidence = |(kind, metadata, template): (&str, &ObjectMeta, Option<&PodTemplateSpec>)| {
        let object = object(kind, metadata);
        match drains(template?.spec.as_ref()?)? {
            Drain::Rebalance => Some(Evidence::new(object, "drains on rebalance recommendations")),
            Drain::Notice => Some(
                Evidence::new(object, "drains on interruption notices, as the controller does").advice_only(),
            ),
        }
    };
    Ok(handlers.filter_map(evidence).collect())
}

const HANDLER: &str = "node-termination-handler";

/// Occasion on which the handler drains nodes that Karpenter launched.
enum Drain {
    /// Long before they are taken back, if they ever are.
    Rebalance,
    /// Shortly before they are taken back or maintained.
    Notice,
}

/// Returns the event on which the handler drains nodes, by its settings and its own defaults.
fn drains(spec: &PodSpec) -> Option<Drain> {
    let variables = || spec.containers.iter().flat_map(|container| container.env.iter().flatten());
    let is = |wanted: &str, default: bool| {
        let found = variables().find(|variable| variable.name == wanted);
        found.and_then(|found| found.value.as_deref()).map_or(default, |value| value == "true")
    };
    if is("DRY_RUN", false) {
        return None;
    }
    if is("ENABLE_SQS_TERMINATION_DRAINING", false) {
        // It reads a queue, and leaves alone what does not carry its tag, as Karpenter's machines do not.
        return (!is("CHECK_TAG_BEFORE_DRAINING", true)).then_some(Drain::Notice);
    }
    if keeps_off(spec) {
        return None;
    }
    if is("ENABLE_REBALANCE_DRAINING", false) {
        return Some(Drain::Rebalance);
    }
    let by_notice =
        is("ENABLE_SPOT_INTERRUPTION_DRAINING", true) || is("ENABLE_SCHEDULED_EVENT_DRAINING", true);
    by_notice.then_some(Drain::Notice)
}

/// Its pods never run on nodes that Karpenter launched.
fn keeps_off(spec: &PodSpec) -> bool {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_some_and(|required| {
        required.node_selector_terms.iter().all(|term| {
            term.match_expressions.iter().flatten().any(|expression| {
                expression.key == names::label::NODE_POOL && expression.operator == "DoesNotExist"
            })
        })
    })
}
