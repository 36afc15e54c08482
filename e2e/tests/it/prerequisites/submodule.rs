//! The page for those who come from terraform-aws-modules/eks: every variable and output of its submodule `karpenter`
//! (version 21, from its README) has an equal in our module, or a reason why it has none; and what the pages configure of
//! that module gives nodes a security group that its node groups have.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_e2e::prepare::cache;

const PAGE: &str = "docs/guides/terraform-aws-eks.md";

const VARIABLES: &str = "access_entry_type ami_id_ssm_parameter_arns cluster_ip_family cluster_name create \
    create_access_entry create_iam_role create_instance_profile create_node_iam_role create_pod_identity_association \
    enable_inline_policy enable_spot_termination iam_policy_description iam_policy_name iam_policy_path \
    iam_policy_statements iam_policy_use_name_prefix iam_role_description iam_role_max_session_duration iam_role_name \
    iam_role_override_assume_policy_documents iam_role_path iam_role_permissions_boundary_arn iam_role_policies \
    iam_role_source_assume_policy_documents iam_role_tags iam_role_use_name_prefix namespace \
    node_iam_role_additional_policies node_iam_role_arn node_iam_role_attach_cni_policy node_iam_role_description \
    node_iam_role_max_session_duration node_iam_role_name node_iam_role_path node_iam_role_permissions_boundary \
    node_iam_role_tags node_iam_role_use_name_prefix queue_kms_data_key_reuse_period_seconds queue_kms_master_key_id \
    queue_managed_sse_enabled queue_name queue_policy_statements region rule_name_prefix service_account tags";

const OUTPUTS: &str = "event_rules iam_role_arn iam_role_name iam_role_unique_id instance_profile_arn \
    instance_profile_id instance_profile_name instance_profile_unique namespace node_access_entry_arn \
    node_iam_role_arn node_iam_role_name node_iam_role_unique_id queue_arn queue_name queue_url service_account";

fn read(path: &str) -> String {
    std::fs::read_to_string(cache::repository().join(path)).unwrap()
}

/// Names that a file of our module declares, as `variable` or `output`.
fn declared(file: &str, kind: &str) -> BTreeSet<String> {
    let text = read(&format!("terraform/{file}"));
    let start = format!("{kind} \"");
    let names = text.lines().filter_map(|line| line.strip_prefix(&start)?.split('"').next());
    names.map(str::to_owned).collect()
}

/// The table below a heading of the page: what the second cell says, by the name in the first.
fn table(heading: &str) -> BTreeMap<String, String> {
    let text = read(PAGE);
    let section = text.split(&format!("\n## {heading}\n")).nth(1).unwrap_or_else(|| panic!("no `{heading}`"));
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(name, rest)| (name.to_owned(), rest.trim_end_matches(" |").to_owned())).collect()
}

#[test]
fn every_variable_and_output_of_the_well_known_submodule_has_an_equal_or_a_reason() {
    for (heading, theirs, ours) in [
        ("Variables", VARIABLES, declared("variables.tf", "variable")),
        ("Outputs", OUTPUTS, declared("outputs.tf", "output")),
    ] {
        let table = table(heading);
        let theirs: BTreeSet<&str> = theirs.split_whitespace().collect();
        let listed: BTreeSet<&str> = table.keys().map(String::as_str).collect();
        assert_eq!(listed, theirs, "{heading}");
        for (name, cell) in &table {
            if let Some(reason) = cell.strip_prefix("none") {
                assert!(reason.len() > 10, "`{name}` has neither equal nor reason: {cell}");
                continue;
            }
            let equal = cell.strip_prefix('`').and_then(|rest| rest.split(['`', ' ']).next());
            let equal = equal.unwrap_or_else(|| panic!("`{name}`: {cell}"));
            assert!(ours.contains(equal), "`{name}`: our module has no `{equal}`");
        }
    }
}

/// The module's node groups do not have the cluster security group unless that is asked for, and theirs admits DNS from
/// itself only: a node with the cluster's alone would not reach `CoreDNS`.
#[test]
fn no_page_gives_nodes_a_security_group_that_does_not_reach_coredns() {
    const ATTACHED: &str = "attach_cluster_primary_security_group = true";
    for page in [PAGE, "docs/install.md", "terraform/README.md"] {
        let text = read(page);
        let blocks = text.split("```hcl\n").skip(1).filter_map(|rest| rest.split("```").next());
        let mut clusters = 0;
        for block in blocks {
            let attached = block.contains(ATTACHED);
            assert!(attached || !block.contains("cluster_primary_security_group_id"), "{page}:\n{block}");
            if block.contains("\"terraform-aws-modules/eks/aws\"") {
                clusters += 1;
                assert!(attached || block.contains("node_security_group_tags"), "{page}:\n{block}");
            }
        }
        assert!(clusters > 0, "{page} configures no cluster");
    }
}
