//! The CustomResourceDefinition of EC2NodeClass (spec aws-provider 1.1 to 1.6).

use karpenter_model::names::{label, tag};
use serde_json::Value;

use super::definition::{Column, Definition, Scope};
use super::schema::Schema;
use crate::ec2nodeclass::AmiFamily;

mod device;
mod kubelet;
mod network;
mod selector;
mod status;

/// Tag keys we write ourselves.
const RESERVED_TAGS: [&str; 4] =
    [tag::CLUSTER_NAME, label::NODE_POOL, tag::NODE_CLAIM, label::aws::EC2_NODE_CLASS];

pub(super) fn definition() -> Value {
    let definition = Definition {
        group: "karpenter.k8s.aws",
        version: "v1",
        kind: "EC2NodeClass",
        plural: "ec2nodeclasses",
        singular: "ec2nodeclass",
        short_names: &["ec2nc", "ec2ncs"],
        category: "karpenter",
        scope: Scope::Cluster,
        columns: vec![Column::ready(), Column::age(), Column::text("Role", ".spec.role").wide()],
        scale: None,
        description: "EC2NodeClass says how machines are made on EC2.",
        spec_required: false,
    };
    definition.render(spec(), status::status())
}

fn spec() -> Schema {
    let spec = Schema::object()
        .optional("amiFamily", ami_family())
        .required("amiSelectorTerms", selector::amis())
        .optional(
            "associatePublicIPAddress",
            Schema::boolean().describe("Give instances a public address; unset lets the subnet decide."),
        )
        .optional("blockDeviceMappings", device::block_device_mappings())
        .optional("capacityReservationSelectorTerms", selector::capacity_reservations())
        .optional("connectionTracking", network::connection_tracking())
        .optional("context", Schema::string().describe("Reserved field of the EC2 fleet API."))
        .optional(
            "cpuOptions",
            Schema::object()
                .optional("nestedVirtualization", Schema::string().one_of(["enabled", "disabled"])),
        )
        .optional("detailedMonitoring", Schema::boolean())
        .optional(
            "enclaveOptions",
            Schema::object()
                .optional("enabled", Schema::boolean().default_value(false))
                .describe("Nitro Enclaves; what an enclave takes is not taken off the capacity of its node."),
        )
        .optional(
            "instanceProfile",
            not_empty("instanceProfile").describe("An instance profile made by you; exclusive with role."),
        )
        .optional("instanceStorePolicy", Schema::string().one_of(["RAID0"]))
        .optional("ipPrefixCount", Schema::int32().within(0..))
        .optional("kubelet", kubelet::kubelet())
        .optional("metadataOptions", network::metadata_options())
        .optional("networkInterfaces", network::network_interfaces())
        .optional("placementGroupSelector", selector::placement_group())
        .optional(
            "role",
            not_empty("role").describe("Name of the node role; its instance profile is made for you."),
        )
        .required("securityGroupSelectorTerms", selector::security_groups())
        .required("subnetSelectorTerms", selector::subnets())
        .optional("tags", tags())
        .optional("userData", Schema::string().describe("Merged into the user data of the image family."))
        .rule(
            "has(self.role) != has(self.instanceProfile)",
            "must specify exactly one of ['role', 'instanceProfile']",
        )
        .rule(
            "has(self.amiFamily) || self.amiSelectorTerms.exists(x, has(x.alias))",
            "must specify amiFamily if amiSelectorTerms does not contain an alias",
        );
    AmiFamily::ALL.into_iter().filter(|family| *family != AmiFamily::Custom).fold(spec, alias_matches)
}

/// An alias of a family goes with that family's `amiFamily` or with `Custom`.
fn alias_matches(spec: Schema, family: AmiFamily) -> Schema {
    let (name, alias) = (family.as_str(), family.as_str().to_ascii_lowercase());
    spec.rule(
        &format!(
            "!has(self.amiFamily) || !self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.find('^[^@]+') == '{alias}') || self.amiFamily in ['{name}', 'Custom']"
        ),
        &format!("if set, amiFamily must be '{name}' or 'Custom' when using an {name} alias"),
    )
}

fn ami_family() -> Schema {
    Schema::string()
        .one_of(AmiFamily::ALL.map(AmiFamily::as_str))
        .describe("Decides user data and default volumes; unset means the family of the alias.")
}

fn not_empty(name: &str) -> Schema {
    Schema::string().rule("self != ''", &format!("{name} cannot be empty"))
}

fn tags() -> Schema {
    let tags = Schema::map(Schema::string())
        .describe("Tags of everything created for the class.")
        .rule("self.all(k, k != '')", "empty tag keys aren't supported")
        .rule(
            "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
            "tag contains a restricted tag matching kubernetes.io/cluster/",
        );
    RESERVED_TAGS.iter().fold(tags, |tags, key| {
        tags.rule(
            &format!("self.all(k, k != '{key}')"),
            &format!("tag contains a restricted tag matching {key}"),
        )
    })
}
