//! Fields that NodePool templates and NodeClaims have in common: taints, requirements, labels, node class.
//!
//! Spec scheduling 3.1 and 4, with the allow-lists of spec aws-provider 1.10.

use karpenter_model::names::label;

use super::pattern;
use super::schema::Schema;

/// Text before the first `/` of a label key, or the whole key, as a CEL expression.
fn domain(key: &str) -> String {
    format!("{key}.find('^([^/]+)')")
}

/// CEL: `key` is not in the domain `karpenter.sh`, unless it is one of two labels with meaning.
///
/// A plain suffix test, so `mykarpenter.sh/x` is refused too; the reference does the same and objects that
/// pass there must pass here and the other way round.
fn outside_core_domain(key: &str) -> String {
    format!(
        "{key} in ['{}', '{}'] || !{}.endsWith('karpenter.sh')",
        label::CAPACITY_TYPE,
        label::NODE_POOL,
        domain(key)
    )
}

/// CEL: `key` is not in the domain of the AWS provider, unless the provider defines it. NodeOverlays change
/// what instance types are, so they may not select by how instances are placed.
fn outside_aws_domain(key: &str, owner: Owner) -> String {
    let allowed: Vec<String> = label::aws::WELL_KNOWN
        .iter()
        .filter(|label| label::domain(label) == label::aws::DOMAIN)
        .filter(|label| owner != Owner::Overlay || !label::aws::PLACEMENT.contains(label))
        .map(|label| format!("'{label}'"))
        .collect();
    format!("{key} in [{}] || !{}.endsWith('{}')", allowed.join(", "), domain(key), label::aws::DOMAIN)
}

/// Labels of a NodePool template.
pub(super) fn labels() -> Schema {
    let value = Schema::string().length(..=63).pattern(pattern::LABEL_VALUE);
    let every = |rule: &str| format!("self.all(x, {rule})");
    Schema::map(value)
        .entries(..=100)
        .atomic_map()
        .describe("Labels of every node of the pool.")
        .rule(&every(&outside_core_domain("x")), "label domain \"karpenter.sh\" is restricted")
        .rule(&every("x != 'karpenter.sh/nodepool'"), "label \"karpenter.sh/nodepool\" is restricted")
        .rule(&every("x != 'kubernetes.io/hostname'"), "label \"kubernetes.io/hostname\" is restricted")
        .rule(
            &every(&outside_aws_domain("x", Owner::Pool)),
            "label domain \"karpenter.k8s.aws\" is restricted",
        )
}

/// Taints or startup taints.
pub(super) fn taints(description: &str) -> Schema {
    let item = Schema::object()
        .required("effect", Schema::string().one_of(["NoSchedule", "PreferNoSchedule", "NoExecute"]))
        .required("key", Schema::string().length(1..).pattern(pattern::QUALIFIED_NAME))
        .optional("timeAdded", Schema::date_time())
        .optional("value", Schema::string().pattern(pattern::QUALIFIED_NAME));
    Schema::list(item).list_type("atomic").describe(description)
}

/// Owner of requirements: NodeClaims and NodeOverlays may name a pool, a NodePool must not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Pool,
    Claim,
    Overlay,
}

/// The list of requirements.
pub(super) fn requirements(owner: Owner) -> Schema {
    let item = Schema::object()
        .required("key", requirement_key(owner))
        .optional(
            "minValues",
            Schema::int64()
                .within(1..=50)
                .describe("Least number of different values the chosen instance types must offer. Alpha."),
        )
        .required("operator", Schema::string().one_of(crate::Operator::ALL.map(crate::Operator::as_str)))
        .optional("values", Schema::list(Schema::string()).list_type("atomic"));
    Schema::list(item)
        .items(..=100)
        .list_type("atomic")
        .describe("Conditions on node labels that must all hold.")
        .rule(
            "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",
            "requirements with operator 'In' must have a value defined",
        )
        .rule(
            "self.all(x, x.operator in ['Gt', 'Lt', 'Gte', 'Lte'] ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
            "requirements with operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value",
        )
        .rule(
            "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
            "requirements with 'minValues' must have at least that many values specified in the 'values' field",
        )
}

/// One key of a requirement.
pub(super) fn requirement_key(owner: Owner) -> Schema {
    let key = Schema::string()
        .length(..=316)
        .pattern(pattern::QUALIFIED_NAME)
        .rule(&outside_core_domain("self"), "label domain \"karpenter.sh\" is restricted");
    let key = match owner {
        Owner::Pool => {
            key.rule("self != 'karpenter.sh/nodepool'", "label \"karpenter.sh/nodepool\" is restricted")
        }
        Owner::Claim | Owner::Overlay => key,
    };
    key.rule("self != 'kubernetes.io/hostname'", "label \"kubernetes.io/hostname\" is restricted")
        .rule(&outside_aws_domain("self", owner), "label domain \"karpenter.k8s.aws\" is restricted")
}

/// The reference to the node class.
pub(super) fn node_class_ref() -> Schema {
    let name = |what: &str| Schema::string().rule("self != ''", &format!("{what} may not be empty"));
    Schema::object()
        .describe("The node class that describes the machines.")
        .required("group", name("group").pattern(pattern::GROUP))
        .required("kind", name("kind"))
        .required("name", name("name"))
}

/// Longest time of a drain.
pub(super) fn termination_grace_period() -> Schema {
    Schema::string().pattern(pattern::DURATION).describe(
        "How long draining may take before pods are deleted by force, whatever protects them. Unset waits for ever.",
    )
}

/// Age at which a node is replaced.
pub(super) fn expire_after() -> Schema {
    Schema::string()
        .default_value("720h")
        .pattern(pattern::DURATION_OR_NEVER)
        .describe("Age at which a node is drained and deleted, or Never.")
}
