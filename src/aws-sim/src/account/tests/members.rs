//! Members of a cluster: which nodes may join.

use karpenter_aws_api::Tags;
use karpenter_aws_api::eks::AccessEntrySpec;
use karpenter_aws_api::id::Arn;

use crate::{Account, Options};

/// EKS has no access entries in these modes, and says so to whatever call asks for one.
#[tokio::test]
async fn cluster_of_config_maps_refuses_every_call_about_access_entries() {
    for mode in [Some("CONFIG_MAP"), None] {
        let account = Account::new(Options::default());
        let eks = account.clients().eks;
        let mut cluster = eks.describe_cluster("demo").await.unwrap();
        cluster.authentication_mode = mode.map(str::to_owned);
        account.put_cluster(cluster);
        let principal = Arn::from(
            "arn:aws:iam::123456789012:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot",
        );
        let spec =
            AccessEntrySpec { principal: principal.clone(), kind: "EC2_LINUX".to_owned(), tags: Tags::new() };
        for refusal in [
            eks.create_access_entry("demo", &spec).await.map(drop),
            eks.describe_access_entry("demo", &principal).await.map(drop),
            eks.list_access_entries("demo").await.map(drop),
            eks.delete_access_entry("demo", &principal).await,
        ] {
            let refusal = refusal.unwrap_err();
            assert_eq!(refusal.code.as_deref(), Some("InvalidRequestException"), "{refusal}");
            assert!(refusal.message.contains("[API, API_AND_CONFIG_MAP]"), "{refusal}");
        }
    }
}
