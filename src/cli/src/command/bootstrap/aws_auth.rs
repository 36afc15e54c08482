//! Reads the `ConfigMap` `aws-auth` for `check`.

use k8s_openapi::api::core::v1::ConfigMap;
use karpenter_aws_api::eks;
use karpenter_bootstrap::aws_auth::{AwsAuth, Mapping};
use kube::{Api, Client};
use serde::Deserialize;

use super::kubernetes;

/// An element of `mapRoles`.
#[derive(Deserialize)]
struct Entry {
    rolearn: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    groups: Vec<String>,
}

/// Reads what lets roles join besides access entries, as far as it can be read.
pub(super) async fn read(cluster: Option<&eks::Cluster>) -> AwsAuth {
    let Some(cluster) = cluster else { return AwsAuth::Unread("the cluster is gone".to_owned()) };
    match kubernetes::connect(cluster).await {
        Ok(client) => of(client).await.unwrap_or_else(AwsAuth::Unread),
        Err(why) => AwsAuth::Unread(why),
    }
}

async fn of(client: Client) -> Result<AwsAuth, String> {
    let maps = Api::<ConfigMap>::namespaced(client, "kube-system");
    let map = maps.get_opt("aws-auth").await.map_err(|error| error.to_string())?;
    let roles = map.and_then(|map| map.data).and_then(|mut data| data.remove("mapRoles"));
    parse(roles.as_deref().unwrap_or_default())
}

fn parse(roles: &str) -> Result<AwsAuth, String> {
    if roles.trim().is_empty() {
        return Ok(AwsAuth::Read(Vec::new()));
    }
    let entries: Vec<Entry> = serde_saphyr::from_str(roles)
        .map_err(|error| format!("its `mapRoles` is not a list of roles: {error}"))?;
    let mapping =
        |entry: Entry| Mapping { role: entry.rolearn, username: entry.username, groups: entry.groups };
    Ok(AwsAuth::Read(entries.into_iter().map(mapping).collect()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use karpenter_bootstrap::settings::Platform;
    use karpenter_kube_sim::VirtualClock;
    use karpenter_kube_sim::apiserver::ApiServer;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn what_eksctl_writes_is_understood() {
        let server = ApiServer::new(Arc::new(VirtualClock::starting_at(jiff::Timestamp::UNIX_EPOCH)));
        let role = "arn:aws:iam::123456789012:role/KarpenterNodeRole-prod";
        assert_eq!(of(server.client()).await, Ok(AwsAuth::Read(Vec::new())), "no such ConfigMap");
        let roles = format!(
            "- groups:\n  - system:bootstrappers\n  - system:nodes\n  rolearn: {role}\n  username: \
             system:node:{{{{EC2PrivateDNSName}}}}\n"
        );
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "aws-auth", "namespace": "kube-system"},
            "data": {"mapRoles": roles},
        });
        server.load(&map).unwrap();
        assert!(of(server.client()).await.unwrap().lets_join(role, Platform::Linux));
    }

    #[test]
    fn what_is_no_list_of_roles_says_so() {
        assert_eq!(parse(""), Ok(AwsAuth::Read(Vec::new())));
        assert!(parse("rolearn: x").unwrap_err().contains("mapRoles"));
    }
}
