//! Facts that registration waits for: the partition EC2 chose for an instance in a placement group (spec aws-provider 10).

use std::time::Duration;

use karpenter_aws_api as client;
use karpenter_aws_api::id::InstanceId;
use karpenter_cloud::{HookState, Read, RegistrationHook};
use karpenter_model::names::label::aws;
use karpenter_model::{Claim, Labels};

use crate::calls::fault::cloud_error;
use crate::instances::Instances;
use crate::instances::provider_id::instance_of;

/// Its name, as the reference's.
pub(crate) const PLACEMENT_GROUP_HOOK: &str = "PlacementGroupRegistrationHook";
/// EC2 assigns partitions within seconds.
const AGAIN: Duration = Duration::from_secs(5);

/// The answer of the hook about one claim. Only a claim launched without a partition of its own waits: pods that are
/// spread over partitions must not be bound before the Node has the label of its partition.
pub(crate) async fn placement_group(claim: &Claim, instances: &Instances) -> RegistrationHook {
    if !waits(claim) {
        return hook(HookState::Ready, None);
    }
    let Some(instance) = claim.provider_id.as_ref().and_then(instance_of) else { return pending() };
    match partition(instances, &instance).await {
        Ok(Some(partition)) => hook(HookState::Ready, Some(partition)),
        Ok(None) => pending(),
        Err(error) => {
            let error = cloud_error("read partition of instance of", claim.name.as_str(), &error);
            hook(HookState::Failed(error), None)
        }
    }
}

async fn partition(instances: &Instances, instance: &InstanceId) -> client::Result<Option<u32>> {
    let described = instances.get(instance, Read::Consistent).await?;
    Ok(described.and_then(|described| described.partition))
}

fn waits(claim: &Claim) -> bool {
    let value = |key: &str| claim.labels.get(key).map(karpenter_model::LabelValue::as_str);
    value(aws::PLACEMENT_GROUP_ID).is_some_and(|group| !group.is_empty())
        && value(aws::PLACEMENT_GROUP_PARTITION) == Some("")
}

fn pending() -> RegistrationHook {
    hook(HookState::Pending(Some(AGAIN)), None)
}

fn hook(state: HookState, partition: Option<u32>) -> RegistrationHook {
    let label = |partition: u32| (aws::PLACEMENT_GROUP_PARTITION.into(), partition.to_string().into());
    let labels: Labels = partition.map(label).into_iter().collect();
    RegistrationHook { name: PLACEMENT_GROUP_HOOK, state, labels }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::claim;

    #[test]
    fn only_claims_in_a_group_with_an_empty_partition_wait() {
        let (group, partition) = (aws::PLACEMENT_GROUP_ID, aws::PLACEMENT_GROUP_PARTITION);
        for (labels, expected) in [
            (&[][..], false),
            (&[(group, "pg-1")], false),
            (&[(group, "pg-1"), (partition, "2")], false),
            (&[(partition, "")], false),
            (&[(group, "pg-1"), (partition, "")], true),
        ] {
            let mut claim = claim(None);
            claim.labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
            assert_eq!(waits(&claim), expected, "{labels:?}");
        }
    }
}
