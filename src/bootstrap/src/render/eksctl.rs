//! The part of an `eksctl` cluster configuration that concerns Karpenter.
//!
//! `eksctl` makes the cluster and the controller's role; node role, policies and queue must exist before and come from
//! the CloudFormation template with `ControllerIdentity=PoliciesOnly AccessEntry=false`.

use serde_json::{Value, json};

use crate::desired::{DISCOVERY_TAG, desired};
use crate::settings::{Identity, Settings};

/// A `ClusterConfig` to merge with one's own.
pub fn config(settings: &Settings) -> String {
    format!(
        "# Roles and policies named here come from cloudformation/karpenter.yaml, deployed before the cluster with\n\
         # ControllerIdentity=PoliciesOnly AccessEntry=false.\n{}",
        super::yaml::document(&value(settings))
    )
}

fn value(settings: &Settings) -> Value {
    let desired = desired(settings);
    let policies: Vec<_> = desired.policies.iter().map(|policy| policy.arn.as_str()).collect();
    let mut config = json!({
        "apiVersion": "eksctl.io/v1alpha5",
        "kind": "ClusterConfig",
        "metadata": {
            "name": settings.cluster,
            "region": settings.region,
            // eksctl puts these on the cluster's subnets and security group too.
            "tags": { DISCOVERY_TAG: settings.cluster },
        },
    });
    if !desired.access_entries.is_empty() {
        let entries: Vec<_> = desired
            .access_entries
            .iter()
            .map(|entry| json!({ "principalARN": entry.principal, "type": entry.kind }))
            .collect();
        config["accessConfig"] =
            json!({ "authenticationMode": "API_AND_CONFIG_MAP", "accessEntries": entries });
    }
    match settings.identity {
        Identity::PodIdentity => {
            config["addons"] = json!([{ "name": "eks-pod-identity-agent" }]);
            let mut association = json!({
                "namespace": settings.namespace,
                "serviceAccountName": settings.service_account,
                "roleName": settings.controller_role(),
                "permissionPolicyARNs": policies,
            });
            extend(&mut association, settings, "permissionsBoundaryARN");
            config["iam"] = json!({ "podIdentityAssociations": [association] });
        }
        Identity::Irsa { .. } => {
            let mut account = json!({
                "metadata": { "namespace": settings.namespace, "name": settings.service_account },
                "roleName": settings.controller_role(),
                "roleOnly": true,
                "attachPolicyARNs": policies,
            });
            extend(&mut account, settings, "permissionsBoundary");
            config["iam"] = json!({ "withOIDC": true, "serviceAccounts": [account] });
        }
        Identity::None => {}
    }
    config
}

/// Adds what only some settings ask of the controller's role. `eksctl` has two spellings for the boundary.
fn extend(role: &mut Value, settings: &Settings, boundary: &str) {
    if let Some(arn) = &settings.permissions_boundary {
        role[boundary] = json!(arn);
    }
    if !settings.tags.is_empty() {
        role["tags"] = json!(settings.tags);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;
    use crate::settings::{ExtraNodeRole, Platform};

    /// Every field the schema of `eksctl.io/v1alpha5` has in the objects that we write. It has no others: each of
    /// these objects refuses additional properties.
    const SCHEMA: [(&str, &[&str]); 9] = [
        (
            "",
            &[
                "kind",
                "apiVersion",
                "metadata",
                "upgradePolicy",
                "kubernetesNetworkConfig",
                "autoModeConfig",
                "remoteNetworkConfig",
                "iam",
                "iamIdentityMappings",
                "identityProviders",
                "accessConfig",
                "vpc",
                "addons",
                "addonsConfig",
                "privateCluster",
                "nodeGroups",
                "managedNodeGroups",
                "fargateProfiles",
                "availabilityZones",
                "localZones",
                "cloudWatch",
                "secretsEncryption",
                "gitops",
                "karpenter",
                "outpost",
                "controlPlaneScalingConfig",
                "zonalShiftConfig",
                "capabilities",
            ],
        ),
        (
            ".metadata",
            &["name", "region", "version", "forceUpdateVersion", "rollbackConfig", "tags", "annotations"],
        ),
        (
            ".accessConfig",
            &["authenticationMode", "bootstrapClusterCreatorAdminPermissions", "accessEntries"],
        ),
        (
            ".accessConfig.accessEntries",
            &["principalARN", "type", "kubernetesGroups", "kubernetesUsername", "accessPolicies"],
        ),
        (
            ".addons",
            &[
                "name",
                "version",
                "serviceAccountRoleARN",
                "attachPolicyARNs",
                "attachPolicy",
                "permissionsBoundary",
                "wellKnownPolicies",
                "tags",
                "resolveConflicts",
                "podIdentityAssociations",
                "useDefaultPodIdentityAssociations",
                "configurationValues",
                "namespaceConfig",
                "publishers",
                "types",
                "owners",
            ],
        ),
        (
            ".iam",
            &[
                "serviceRoleARN",
                "serviceRolePermissionsBoundary",
                "fargatePodExecutionRoleARN",
                "fargatePodExecutionRolePermissionsBoundary",
                "withOIDC",
                "serviceAccounts",
                "podIdentityAssociations",
                "vpcResourceControllerPolicy",
            ],
        ),
        (
            ".iam.podIdentityAssociations",
            &[
                "namespace",
                "serviceAccountName",
                "roleARN",
                "createServiceAccount",
                "roleName",
                "permissionsBoundaryARN",
                "permissionPolicyARNs",
                "permissionPolicyName",
                "permissionPolicy",
                "wellKnownPolicies",
                "tags",
                "targetRoleARN",
                "disableSessionTags",
                "policy",
            ],
        ),
        (
            ".iam.serviceAccounts",
            &[
                "metadata",
                "attachPolicyARNs",
                "wellKnownPolicies",
                "attachPolicy",
                "attachRoleARN",
                "permissionsBoundary",
                "status",
                "roleName",
                "roleOnly",
                "tags",
                "subjectPattern",
            ],
        ),
        (".iam.serviceAccounts.metadata", &["name", "namespace", "labels", "annotations"]),
    ];

    /// Checks every object against the schema; tags are free.
    fn assert_known(value: &Value, path: &str) {
        match value {
            Value::Array(elements) => elements.iter().for_each(|element| assert_known(element, path)),
            Value::Object(fields) if path.rsplit('.').next() != Some("tags") => {
                let known = SCHEMA.iter().find(|(object, _)| *object == path);
                let (_, known) =
                    known.unwrap_or_else(|| panic!("an object where the schema has none: {path}"));
                for (name, value) in fields {
                    assert!(known.contains(&name.as_str()), "eksctl knows no {path}.{name}");
                    assert_known(value, &format!("{path}.{name}"));
                }
            }
            _ => {}
        }
    }

    #[test]
    fn every_field_is_one_that_eksctl_has() {
        let mut full = settings();
        full.permissions_boundary = Some("arn:aws:iam::123456789012:policy/boundary".to_owned());
        full.tags.insert("team".to_owned(), "platform".to_owned());
        full.windows = true;
        let arn = "arn:aws:iam::123456789012:role/gpu".to_owned();
        full.extra_node_roles = vec![ExtraNodeRole { arn, platform: Platform::Linux }];
        let irsa = Identity::Irsa { issuer: "oidc.example/id/A".to_owned() };
        for identity in [Identity::PodIdentity, irsa, Identity::None] {
            for mut case in [settings(), full.clone()] {
                case.identity = identity.clone();
                assert_known(&value(&case), "");
            }
        }
        assert_eq!(value(&full)["accessConfig"]["accessEntries"].as_array().unwrap().len(), 3);
        let association = &value(&full)["iam"]["podIdentityAssociations"][0];
        assert_eq!(association["permissionsBoundaryARN"], "arn:aws:iam::123456789012:policy/boundary");
        assert_eq!(association["tags"]["team"], "platform");
    }

    #[test]
    fn names_the_policies_and_the_node_role_the_stack_makes() {
        let expected = "\
apiVersion: eksctl.io/v1alpha5
kind: ClusterConfig
metadata:
  name: prod
  region: eu-west-1
  tags:
    karpenter.sh/discovery: prod
accessConfig:
  authenticationMode: API_AND_CONFIG_MAP
  accessEntries:
    - principalARN: arn:aws:iam::123456789012:role/KarpenterNodeRole-prod
      type: EC2_LINUX
addons:
  - name: eks-pod-identity-agent
iam:
  podIdentityAssociations:
    - namespace: kube-system
      serviceAccountName: karpenter
      roleName: prod-karpenter
      permissionPolicyARNs:
        - arn:aws:iam::123456789012:policy/KarpenterNodeLifecycle-prod
        - arn:aws:iam::123456789012:policy/KarpenterIntegration-prod
";
        let config = config(&settings());
        assert!(config.ends_with(expected), "{config}");
    }
}
