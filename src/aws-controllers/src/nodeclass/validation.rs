//! Validation of a resolved `NodeClass` by trial launches (condition `ValidationSucceeded`; spec aws-provider 12.2).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use karpenter_api::ec2nodeclass::AmiFamily;
use karpenter_api::{ConditionStatus, EC2NodeClass};
use karpenter_aws::catalogue::instance_types::Unevaluated;
use karpenter_aws::class::kubelet;
use karpenter_aws::image::family::family_of;
use karpenter_aws::launch::check::{self, DryRunOutcome};
use karpenter_aws::tags;
use karpenter_aws::userdata::{overruled, unread};
use karpenter_aws_api::Kind;
use karpenter_model::names::{condition, reason};
use karpenter_model::{CapacityType, Pool};
use kube::ResourceExt;
use serde_json::json;

use super::Reconciler;
use super::conditions::Part;
use crate::Error;

const AGAIN: Duration = Duration::from_mins(10);
/// Delay before a value that AWS does not take is tried again.
const SOON: Duration = Duration::from_mins(1);
const REQUIRED: [&str; 4] = [
    condition::aws::AMIS_READY,
    condition::aws::INSTANCE_PROFILE_READY,
    condition::aws::SECURITY_GROUPS_READY,
    condition::aws::SUBNETS_READY,
];

/// Verdict on a kubelet block.
enum Block {
    /// Nodes can be launched with it; but for the types that are missing, if any.
    Usable { missing: Option<String> },
    /// The condition has the reason.
    Refused,
}

impl Reconciler {
    /// Decides the condition; returns when to look again.
    pub(super) async fn validate(&self, mut part: Part<'_, '_>) -> Result<Option<Duration>, Error> {
        if family_of(&part.class.spec) == AmiFamily::AL2023 && !self.service_cidr(&mut part).await? {
            return Ok(Some(AGAIN));
        }
        if let Some((status, message)) = waiting_for(&part) {
            part.conditions.set(
                condition::VALIDATION_SUCCEEDED,
                status,
                reason::aws::DEPENDENCIES_NOT_READY,
                &message,
            );
            return Ok(Some(AGAIN));
        }
        if let Err(error) = tags::of_class(&part.class.spec) {
            part.refuse(
                condition::VALIDATION_SUCCEEDED,
                reason::aws::TAG_VALIDATION_FAILED,
                &error.to_string(),
            );
            return Ok(Some(AGAIN));
        }
        let missing = match self.kubelet(&mut part) {
            Ok(Block::Usable { missing }) => missing,
            Ok(Block::Refused) => return Ok(Some(AGAIN)),
            Err(error) => {
                part.unanswered(condition::VALIDATION_SUCCEEDED, reason::aws::VALIDATION_UNANSWERED, &error);
                return Err(error);
            }
        };
        let verdict = match self.verdict(part.class).await {
            Ok(verdict) => verdict,
            Err(error) => {
                part.unanswered(condition::VALIDATION_SUCCEEDED, reason::aws::VALIDATION_UNANSWERED, &error);
                return Err(error);
            }
        };
        match verdict {
            DryRunOutcome::Passed => {
                let kind = condition::VALIDATION_SUCCEEDED;
                let spec = &part.class.spec;
                let cluster = &self.context.aws.settings.cluster_name;
                let overruled = overruled::caveat(family_of(spec), spec, Some(cluster));
                let unread = unread::caveat(family_of(spec), spec);
                let own = self.caveat(part.class).into_iter().chain(overruled).chain(unread);
                let caveats: Vec<String> = missing.into_iter().chain(own).collect();
                part.conditions.set(kind, ConditionStatus::True, kind, &caveats.join("; "));
            }
            DryRunOutcome::Failed { reason, message } => {
                part.refuse(condition::VALIDATION_SUCCEEDED, reason, &message);
            }
            DryRunOutcome::Refused { reason, message } => {
                part.refuse(condition::VALIDATION_SUCCEEDED, reason, &message);
                return Ok(Some(SOON));
            }
        }
        Ok(Some(AGAIN))
    }

    /// Checks the kubelet block. One type without a result must not keep the others from being launched.
    fn kubelet(&self, part: &mut Part<'_, '_>) -> Result<Block, Error> {
        let (aws, kind) = (&self.context.aws, condition::VALIDATION_SUCCEEDED);
        if let Some(refusal) = kubelet::refusal(&part.class.spec, aws.settings.gates.node_class_cel) {
            part.refuse(kind, refusal.reason, &refusal.message);
            return Ok(Block::Refused);
        }
        let Unevaluated { failed, tried } = aws.types.unevaluated(part.class)?;
        if failed.is_empty() {
            return Ok(Block::Usable { missing: None });
        }
        let (reason, message) = (reason::aws::KUBELET_EXPRESSION_FAILED, without_result(&failed));
        if failed.len() == tried {
            part.refuse(kind, reason, &message);
            return Ok(Block::Refused);
        }
        Ok(Block::Usable { missing: Some(format!("{reason}: {message}")) })
    }

    /// Reads the service range of the cluster, which nodeadm needs. False when validation ends here.
    async fn service_cidr(&self, part: &mut Part<'_, '_>) -> Result<bool, Error> {
        match self.context.aws.cluster.resolve_service_cidr().await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind, Kind::Transient | Kind::Throttled) => {
                part.unanswered(
                    condition::VALIDATION_SUCCEEDED,
                    reason::aws::CLUSTER_CIDR_RESOLUTION_FAILED,
                    &error,
                );
                Err(error.into())
            }
            Err(error) => {
                let message = format!("failed to detect the cluster CIDR: {}", error.code_and_message());
                part.refuse(
                    condition::VALIDATION_SUCCEEDED,
                    reason::aws::CLUSTER_CIDR_RESOLUTION_FAILED,
                    &message,
                );
                Ok(false)
            }
        }
    }

    /// The verdict for exactly this `NodeClass`, remembered for half an hour. An annotation added by hand makes it
    /// another `NodeClass`, which is how people ask for another try.
    async fn verdict(&self, class: &EC2NodeClass) -> Result<DryRunOutcome, Error> {
        let aws = &self.context.aws;
        if aws.settings.disable_dry_run {
            // Makes no call to AWS: a class that no launch can use is refused here, not by each claim.
            return Ok(aws.launcher().check_user_data(class)?);
        }
        let pools = self.pools_of(class);
        let key = key(class, &check::capacity_types(&pools));
        if let Some(verdict) = self.verdicts.get(&key) {
            return Ok(verdict);
        }
        // A lack of capacity at the moment is no fault of the `NodeClass`.
        let types = aws.types.sold(&Arc::new(class.clone()))?;
        let verdict = aws.launcher().check(class, &types, &pools).await?;
        if !matches!(verdict, DryRunOutcome::Refused { .. }) {
            self.verdicts.put(key, verdict.clone());
        }
        Ok(verdict)
    }

    fn pools_of(&self, class: &EC2NodeClass) -> Vec<Arc<Pool>> {
        let name = class.name_any();
        let pools = self.context.common.view.pools().into_iter().map(|known| known.model);
        pools.filter(|pool| pool.template.node_class.name == name).collect()
    }

    fn caveat(&self, class: &EC2NodeClass) -> Option<String> {
        let aws = &self.context.aws;
        let types = aws.types.sold(&Arc::new(class.clone())).ok()?;
        aws.launcher().caveat(class, &types, &self.pools_of(class))
    }

    pub(super) fn forget_verdicts(&self, class: &str) {
        let prefix = format!("{class}\n");
        self.verdicts.retain(|key, _| !key.starts_with(&prefix));
    }
}

/// Returns the faults of the first types, and the number of further ones.
fn without_result(failed: &[(String, String)]) -> String {
    const NAMED: usize = 3;
    let mut parts: Vec<String> =
        failed.iter().take(NAMED).map(|(name, cause)| format!("{name}: {cause}")).collect();
    if failed.len() > NAMED {
        parts.push(format!("and {} more instance types", failed.len() - NAMED));
    }
    let causes = parts.join(", ");
    format!(
        "no result of expressions in spec.kubelet for {causes}; correct the expression, or exclude these types"
    )
}

/// `False` when something required is refused, `Unknown` when something is not decided.
fn waiting_for(part: &Part<'_, '_>) -> Option<(ConditionStatus, String)> {
    let status = |kind: &str| part.conditions.get(kind).map_or(ConditionStatus::Unknown, |one| one.status);
    let of = |wanted: ConditionStatus| -> Vec<&str> {
        REQUIRED.into_iter().filter(|kind| status(kind) == wanted).collect()
    };
    for missing in [ConditionStatus::False, ConditionStatus::Unknown] {
        let kinds = of(missing);
        if !kinds.is_empty() {
            return Some((missing, format!("waiting for {}", kinds.join(", "))));
        }
    }
    None
}

/// Returns the inputs of a verdict as a key (spec aws-provider 12.2.4). The order of subnets follows their free addresses
/// and is left out.
fn key(class: &EC2NodeClass, ways: &[CapacityType]) -> String {
    let status = class.status.clone().unwrap_or_default();
    let subnets: BTreeSet<&str> = status.subnets.iter().map(|subnet| subnet.id.as_str()).collect();
    let groups: BTreeSet<&str> = status.security_groups.iter().map(|group| group.id.as_str()).collect();
    let resolved = json!([subnets, groups, status.amis, status.instance_profile]);
    let ways: Vec<&str> = ways.iter().map(|way| way.as_str()).collect();
    let inputs = json!([class.spec, resolved, class.metadata.annotations, ways]);
    format!("{}\n{inputs}", class.name_any())
}

#[cfg(test)]
mod tests {
    use karpenter_api::ec2nodeclass::{Ec2NodeClassStatus, SecurityGroup, Subnet};

    use super::*;

    fn class() -> EC2NodeClass {
        let mut class = EC2NodeClass::new("default", Default::default());
        let subnet = |id: &str| Subnet { id: id.to_owned(), zone: "a".to_owned(), zone_id: None };
        let group = |id: &str| SecurityGroup { id: id.to_owned(), name: None };
        class.status = Some(Ec2NodeClassStatus {
            subnets: vec![subnet("subnet-1"), subnet("subnet-2")],
            security_groups: vec![group("sg-1"), group("sg-2")],
            instance_profile: Some("profile".to_owned()),
            ..Ec2NodeClassStatus::default()
        });
        class
    }

    #[test]
    fn a_verdict_lasts_while_nothing_it_depends_on_changes() {
        let edited = |edit: fn(&mut Ec2NodeClassStatus)| {
            let mut class = class();
            edit(class.status.as_mut().unwrap());
            key(&class, &[])
        };
        let before = key(&class(), &[]);
        assert_eq!(edited(|status| status.subnets.reverse()), before, "one has more free addresses now");
        assert_eq!(edited(|status| status.security_groups.reverse()), before);
        for edit in [
            (|status| drop(status.subnets.pop())) as fn(&mut Ec2NodeClassStatus),
            |status| drop(status.security_groups.pop()),
            |status| status.amis.push(Default::default()),
            |status| status.instance_profile = Some("another".to_owned()),
        ] {
            assert_ne!(edited(edit), before);
        }
        assert_ne!(key(&class(), &[CapacityType::Spot]), before, "pools that buy another way");
        let mut annotated = class();
        annotated.metadata.annotations = Some([("again".to_owned(), "1".to_owned())].into());
        assert_ne!(key(&annotated, &[]), before, "people ask for another try");
    }
}
