//! Provisioner of v1alpha5 and NodePool of v1beta1 as NodePool of v1 (spec aws-operations 4.2 and 4.5).

use std::time::Duration as Span;

use k8s_openapi::Resource as _;
use karpenter_api::ec2nodeclass::KubeletConfiguration;
use karpenter_api::nodepool::{
    Budget, Disruption, NodeClaimTemplate, NodeClaimTemplateSpec, TemplateMetadata,
};
use karpenter_api::{EC2NodeClass, NillableDuration, NodeClassRef, NodePoolSpec, ResourceMap};
use karpenter_model::ConsolidationPolicy;

use crate::fields::{Fields, Found};
use crate::kind::kubelet;
use crate::kind::requirements::{self, Owner, add_defaults};
use crate::log::{Kind, Log};
use karpenter_api::yaml::Node;

const LABELS: &str = "spec.template.metadata.labels";
const ANNOTATIONS: &str = "spec.template.metadata.annotations";
const REQUIREMENTS: &str = "spec.template.spec.requirements";
const AFTER: &str = "spec.disruption.consolidateAfter";
const POLICY: &str = "spec.disruption.consolidationPolicy";
const EXPIRE: &str = "spec.template.spec.expireAfter";

/// A pool, with what is not part of it in v1.
pub(crate) struct Pool {
    pub(crate) spec: NodePoolSpec,
    /// Settings for its class.
    pub(crate) kubelet: Option<Found<KubeletConfiguration>>,
    /// Fields of a class inside a Provisioner.
    pub(crate) provider: Option<Found<Node>>,
}

/// The pool that a Provisioner describes. `inline` is the name of the class made from `spec.provider`.
pub(crate) fn from_alpha(mut fields: Fields, inline: &str, log: &Log) -> Pool {
    let labels = requirements::labels(&mut fields, LABELS, log);
    let annotations = requirements::annotations(&mut fields, ANNOTATIONS, log);
    let taints = requirements::taints(&mut fields, "taints", "spec.template.spec.taints", log);
    let startup_taints =
        requirements::taints(&mut fields, "startupTaints", "spec.template.spec.startupTaints", log);
    let mut requirements = requirements::requirements(&mut fields, REQUIREMENTS, Owner::Pool, log);
    add_defaults(&mut requirements, labels.as_ref(), REQUIREMENTS, log);
    let provider = fields.take("provider");
    let reference = fields.section("providerRef");
    let is_inline = reference.is_none();
    let name = class_of_provisioner(reference, provider.as_ref(), inline, log);
    let kubelet = kubelet::read(&mut fields, "kubeletConfiguration", log);
    let disruption = disruption_of_provisioner(&mut fields, log);
    let expire_after = expiry_of_provisioner(&mut fields, log);
    let mut limits = fields.section("limits");
    let amounts = limits.as_mut().and_then(|limits| amounts(limits, "resources", log));
    if let Some(limits) = limits {
        limits.finish();
    }
    let weight = weight(&mut fields, log);
    fields.finish();
    let metadata =
        (labels.is_some() || annotations.is_some()).then_some(TemplateMetadata { labels, annotations });
    let spec = NodeClaimTemplateSpec {
        taints,
        startup_taints,
        requirements,
        node_class_ref: class_reference(name),
        termination_grace_period: None,
        expire_after,
    };
    let template = NodeClaimTemplate { metadata, spec };
    let spec = NodePoolSpec { template, disruption, limits: amounts, weight, replicas: None };
    Pool { spec, kubelet, provider: provider.filter(|_| is_inline) }
}

/// The pool that a NodePool of v1beta1 describes.
pub(crate) fn from_beta(mut fields: Fields, log: &Log) -> Pool {
    let mut template = fields.section("template");
    let metadata = template.as_mut().and_then(|template| template.section("metadata")).map(|mut metadata| {
        let labels = requirements::labels(&mut metadata, LABELS, log);
        let annotations = requirements::annotations(&mut metadata, ANNOTATIONS, log);
        metadata.finish();
        TemplateMetadata { labels, annotations }
    });
    let (expire_after, disruption) = disruption_of_node_pool(&mut fields, log);
    let mut pool =
        Pool { spec: NodePoolSpec { disruption, ..Default::default() }, kubelet: None, provider: None };
    if let Some(mut claim) = template.as_mut().and_then(|template| template.section("spec")) {
        pool.spec.template.spec = NodeClaimTemplateSpec {
            taints: requirements::taints(&mut claim, "taints", "spec.template.spec.taints", log),
            startup_taints: requirements::taints(
                &mut claim,
                "startupTaints",
                "spec.template.spec.startupTaints",
                log,
            ),
            requirements: requirements::requirements(&mut claim, REQUIREMENTS, Owner::Pool, log),
            node_class_ref: class_of_claim(
                &mut claim,
                "nodeClassRef",
                "spec.template.spec.nodeClassRef",
                log,
            ),
            termination_grace_period: claim
                .read::<karpenter_api::Duration>("terminationGracePeriod")
                .map(|found| moved(found, "spec.template.spec.terminationGracePeriod", log)),
            expire_after,
        };
        pool.kubelet = kubelet::read(&mut claim, "kubelet", log);
        if let Some(resources) = claim.take("resources") {
            let text = "left out: a pool never used it";
            log.at(Kind::Noted, &resources.path, resources.line, text);
        }
        claim.finish();
    } else {
        log.say(Kind::Refused, "spec.template.spec", "is missing; v1 needs at least its `nodeClassRef`");
    }
    if let Some(template) = template {
        template.finish();
    }
    pool.spec.template.metadata = metadata.filter(|metadata| *metadata != TemplateMetadata::default());
    pool.spec.limits = amounts(&mut fields, "limits", log);
    pool.spec.weight = weight(&mut fields, log);
    fields.finish();
    pool
}

/// The class of a pool or claim of v1beta1.
pub(crate) fn class_of_claim(fields: &mut Fields, name: &'static str, to: &str, log: &Log) -> NodeClassRef {
    let Some(mut reference) = fields.section(name) else {
        log.say(Kind::Refused, to, format!("`{name}` is missing; name the EC2NodeClass"));
        return class_reference(String::new());
    };
    let group = group(&mut reference, log);
    let kind = reference.read::<String>("kind");
    let class = reference.read::<String>("name");
    reference.finish();
    let kind = kind.map_or_else(String::new, |kind| kind.value);
    let is_aws = kind.is_empty() || kind == EC2NodeClass::KIND || kind == "AWSNodeTemplate";
    let Some(class) = class else {
        log.say(Kind::Refused, &format!("{to}.name"), "is missing; name the EC2NodeClass");
        return class_reference(String::new());
    };
    if is_aws {
        let text = format!("-> {to}: EC2NodeClass `{}` of group `{}`", class.value, EC2NodeClass::GROUP);
        log.at(Kind::Mapped, &class.path, class.line, text);
        return class_reference(class.value);
    }
    let text =
        format!("{to}: kind `{kind}` is not one of ours; it is kept, check that its controller serves v1");
    log.at(Kind::Decide, &class.path, class.line, text);
    NodeClassRef { group, kind, name: class.value }
}

/// The group of a reference, which was part of `apiVersion`.
fn group(reference: &mut Fields, log: &Log) -> String {
    if let Some(group) = reference.read::<String>("group") {
        return group.value;
    }
    let Some(version) = reference.read::<String>("apiVersion") else { return String::new() };
    let group = version.value.split('/').next().unwrap_or_default().to_owned();
    log.at(Kind::Mapped, &version.path, version.line, format!("`{}` -> group `{group}`", version.value));
    group
}

fn class_reference(name: String) -> NodeClassRef {
    NodeClassRef { group: EC2NodeClass::GROUP.to_owned(), kind: EC2NodeClass::KIND.to_owned(), name }
}

fn class_of_provisioner(
    reference: Option<Fields>,
    provider: Option<&Found<Node>>,
    inline: &str,
    log: &Log,
) -> String {
    if let Some(mut reference) = reference {
        reference.take("apiVersion");
        let kind = reference.read::<String>("kind");
        let name = reference.read::<String>("name");
        reference.finish();
        if let Some(kind) = kind.filter(|kind| kind.value != "AWSNodeTemplate") {
            let text =
                format!("kind `{}` is not one of ours; only AWSNodeTemplate can be converted", kind.value);
            log.at(Kind::Refused, &kind.path, kind.line, text);
        }
        if let Some(provider) = provider {
            let text = "stands beside `providerRef`, which counts; remove one of them";
            log.at(Kind::Refused, &provider.path, provider.line, text);
        }
        if let Some(name) = name {
            let text = format!("-> spec.template.spec.nodeClassRef: EC2NodeClass `{}`", name.value);
            log.at(Kind::Mapped, &name.path, name.line, text);
            return name.value;
        }
        log.say(Kind::Refused, "spec.providerRef.name", "is missing; name the AWSNodeTemplate");
    } else if let Some(provider) = provider {
        let text = format!("-> EC2NodeClass `{inline}`, which spec.template.spec.nodeClassRef names");
        log.at(Kind::Mapped, &provider.path, provider.line, text);
    } else {
        let text =
            "is missing, and so is `spec.provider`; name the EC2NodeClass that says how machines are made";
        log.say(Kind::Refused, "spec.providerRef", text);
    }
    inline.to_owned()
}

/// `ttlSecondsAfterEmpty` and `consolidation`. With neither, nodes stayed, which v1 does only when asked to.
fn disruption_of_provisioner(fields: &mut Fields, log: &Log) -> Disruption {
    let empty = fields.read::<u64>("ttlSecondsAfterEmpty");
    let mut section = fields.section("consolidation");
    let enabled = section.as_mut().and_then(|section| section.read::<bool>("enabled"));
    if let Some(section) = section {
        section.finish();
    }
    let budgets = vec![Budget::default()];
    let text = "nodes \"10%\", the default of v1; v1alpha5 had no budgets and took one action at a time";
    log.say(Kind::Added, "spec.disruption.budgets", text);
    let when = |consolidation_policy, consolidate_after| Disruption {
        consolidate_after,
        consolidation_policy,
        budgets,
    };
    if let Some(enabled) = &enabled {
        let text = if enabled.value {
            format!("-> {POLICY}: WhenEmptyOrUnderutilized, {AFTER}: 0s")
        } else {
            format!("false is the same as absent: {AFTER} says it")
        };
        log.at(Kind::Mapped, &enabled.path, enabled.line, text);
    }
    match (enabled.is_some_and(|enabled| enabled.value), empty) {
        (true, empty) => {
            if let Some(empty) = empty {
                let text = "stands beside `consolidation.enabled`, which v1alpha5 refused; consolidation removes empty \
                            nodes too, so this is left out";
                log.at(Kind::Decide, &empty.path, empty.line, text);
            }
            when(ConsolidationPolicy::WhenEmptyOrUnderutilized, "0s".into())
        }
        (false, Some(empty)) => {
            let after = seconds(empty.value);
            let text = format!("-> {POLICY}: WhenEmpty, {AFTER}: {after}");
            log.at(Kind::Mapped, &empty.path, empty.line, text);
            when(ConsolidationPolicy::WhenEmpty, after)
        }
        (false, None) => {
            log.say(
                Kind::Added,
                AFTER,
                "Never: nodes stayed without `consolidation` and `ttlSecondsAfterEmpty`",
            );
            when(ConsolidationPolicy::WhenEmptyOrUnderutilized, NillableDuration::never())
        }
    }
}

fn expiry_of_provisioner(fields: &mut Fields, log: &Log) -> NillableDuration {
    let Some(until) = fields.read::<u64>("ttlSecondsUntilExpired") else {
        log.say(
            Kind::Added,
            EXPIRE,
            "Never: nodes did not expire without `ttlSecondsUntilExpired`, in v1 after 720h",
        );
        return NillableDuration::never();
    };
    let after = seconds(until.value);
    let text = format!("-> {EXPIRE}: {after}; v1 drains an expired node at once, whatever the budgets");
    log.at(Kind::Mapped, &until.path, until.line, text);
    after
}

fn seconds(count: u64) -> NillableDuration {
    NillableDuration::from(Span::from_secs(count))
}

/// `disruption` of v1beta1, and the expiry that was part of it.
fn disruption_of_node_pool(fields: &mut Fields, log: &Log) -> (NillableDuration, Disruption) {
    let mut disruption = Disruption::default();
    let mut section = fields.section("disruption");
    let mut policy = None;
    let mut after = None;
    let mut expire = None;
    if let Some(section) = &mut section {
        policy = section.read::<String>("consolidationPolicy");
        after = section.read::<NillableDuration>("consolidateAfter");
        expire = section.read::<NillableDuration>("expireAfter");
        if let Some(budgets) = section.read::<Vec<Budget>>("budgets") {
            disruption.budgets = moved(budgets, "spec.disruption.budgets", log);
        }
    }
    if let Some(section) = section {
        section.finish();
    }
    if let Some(policy) = policy {
        disruption.consolidation_policy = match policy.value.as_str() {
            "WhenEmpty" => ConsolidationPolicy::WhenEmpty,
            "WhenUnderutilized" | "WhenEmptyOrUnderutilized" => ConsolidationPolicy::WhenEmptyOrUnderutilized,
            other => {
                let text = format!("`{other}` is unknown; use WhenEmpty or WhenEmptyOrUnderutilized");
                log.at(Kind::Refused, &policy.path, policy.line, text);
                ConsolidationPolicy::WhenEmpty
            }
        };
        let today = if disruption.consolidation_policy == ConsolidationPolicy::WhenEmpty {
            "WhenEmpty"
        } else {
            "WhenEmptyOrUnderutilized"
        };
        log.at(Kind::Mapped, &policy.path, policy.line, format!("-> {POLICY}: {today}"));
    } else {
        log.say(Kind::Added, POLICY, "WhenEmptyOrUnderutilized, the default of v1beta1");
    }
    match after {
        Some(after) => disruption.consolidate_after = moved(after, AFTER, log),
        None => log.say(Kind::Added, AFTER, "0s, the default of v1; v1beta1 waited 15 s"),
    }
    let expire = if let Some(expire) = expire {
        let text = format!("-> {EXPIRE}; v1 drains an expired node at once, whatever the budgets");
        log.at(Kind::Mapped, &expire.path, expire.line, text);
        expire.value
    } else {
        log.say(Kind::Added, EXPIRE, "720h, the default of v1beta1");
        NillableDuration::from("720h")
    };
    (expire, disruption)
}

/// A field of v1 at another path, or at the same.
fn moved<T>(found: Found<T>, to: &str, log: &Log) -> T {
    log.at(Kind::Mapped, &found.path, found.line, format!("-> {to}"));
    found.value
}

fn amounts(fields: &mut Fields, name: &'static str, log: &Log) -> Option<ResourceMap> {
    fields.read::<ResourceMap>(name).map(|found| moved(found, "spec.limits", log))
}

fn weight(fields: &mut Fields, log: &Log) -> Option<i32> {
    let found = fields.read::<i32>("weight")?;
    if found.value == 0 {
        log.at(
            Kind::Noted,
            &found.path,
            found.line,
            "left out: 0 is the same as absent, and v1 wants 1 to 100",
        );
        return None;
    }
    Some(moved(found, "spec.weight", log))
}
