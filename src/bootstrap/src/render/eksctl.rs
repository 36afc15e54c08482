//! The part of an `eksctl` cluster configuration that concerns Karpenter.
//!
//! `eksctl` makes the cluster and the controller's role; node role, policies and queue must exist before and come from
//! the CloudFormation template with `ControllerIdentity=PoliciesOnly AccessEntry=false`.

use serde_json::json;

use crate::desired::{DISCOVERY_TAG, desired};
use crate::settings::{Identity, Settings};

/// A `ClusterConfig` to merge with one's own.
pub fn config(settings: &Settings) -> String {
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
            config["iam"] = json!({ "podIdentityAssociations": [{
                "namespace": settings.namespace,
                "serviceAccountName": settings.service_account,
                "roleName": settings.controller_role(),
                "permissionPolicyARNs": policies,
            }] });
        }
        Identity::Irsa { .. } => {
            config["iam"] = json!({ "withOIDC": true, "serviceAccounts": [{
                "metadata": { "namespace": settings.namespace, "name": settings.service_account },
                "roleName": settings.controller_role(),
                "roleOnly": true,
                "attachPolicyARNs": policies,
            }] });
        }
        Identity::None => {}
    }
    format!(
        "# Roles and policies named here come from cloudformation/karpenter.yaml, deployed before the cluster with\n\
         # ControllerIdentity=PoliciesOnly AccessEntry=false.\n{}",
        super::yaml::document(&config)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

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
