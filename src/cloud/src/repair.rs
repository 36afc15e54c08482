//! Repair policies of a provider, declared as plain text and checked when the process starts.

use std::collections::BTreeMap;
use std::time::Duration;

use karpenter_model::ConditionStatus;
use karpenter_model::repair::{ReasonPattern, RepairAction, RepairPolicy as Checked, WrittenPolicy};

/// Largest priority a policy may have.
const PRIORITY_MAX: u8 = 100;

/// A node condition that, held long enough, means the machine is broken (spec disruption 4.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairPolicy {
    /// Type of the node condition: `Ready`.
    pub condition: &'static str,
    /// Its bad status: `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// Regular expression over the reason of the condition; without one the policy is for all reasons that no other policy of
    /// the same condition and status is for.
    pub reason: Option<&'static str>,
    /// Time for which the status is tolerated, from its transition.
    pub toleration: Duration,
    /// Longest time the drain may take; `None` leaves that to the claim.
    pub termination_grace: Option<Duration>,
    /// 0 to 100; the higher one counts where several policies ask for the same.
    pub priority: u8,
    /// Action to take.
    pub action: RepairAction,
}

/// Faults in the policies of a provider; every problem, each with its policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot use the repair policies of the provider with those of setting `repair-policies`: {}; correct the setting, or switch \
     the feature gate NodeRepair off", .0.join("; ")
)]
pub struct InvalidPolicies(pub Vec<String>);

/// Reads `declared`, with those of `own` in place of all that are for the same condition and status. For each of these there must
/// be exactly one policy without a pattern, which replaces: a reason that no pattern is for would be overlooked otherwise.
pub fn repair_policies(
    declared: &[RepairPolicy],
    own: &[WrittenPolicy],
) -> Result<Vec<Checked>, InvalidPolicies> {
    let replaced = |policy: &&RepairPolicy| {
        own.iter().any(|own| own.condition == policy.condition && own.status == policy.status)
    };
    let kept = declared.iter().filter(|policy| !replaced(policy)).map(RepairPolicy::written);
    let all: Vec<WrittenPolicy> = kept.chain(own.iter().cloned()).collect();
    checked(&all)
}

impl RepairPolicy {
    fn written(&self) -> WrittenPolicy {
        WrittenPolicy {
            condition: self.condition.to_owned(),
            status: self.status.to_owned(),
            reason: self.reason.map(str::to_owned),
            toleration: self.toleration,
            termination_grace: self.termination_grace,
            priority: self.priority,
            action: self.action,
        }
    }
}

fn checked(written: &[WrittenPolicy]) -> Result<Vec<Checked>, InvalidPolicies> {
    let (mut checked, mut problems) = (Vec::new(), Vec::new());
    let mut fallbacks: BTreeMap<(&str, &str), Vec<RepairAction>> = BTreeMap::new();
    for (number, policy) in (1..).zip(written) {
        let mut problem =
            |text: String| problems.push(format!("policy {number} (`{}`): {text}", policy.condition));
        if policy.condition.is_empty() {
            problem("the condition has no type".to_owned());
        }
        if policy.priority > PRIORITY_MAX {
            problem(format!("priority {} is above {PRIORITY_MAX}", policy.priority));
        }
        let status = status(&policy.status);
        if status.is_none() {
            problem(format!("status `{}` is not True, False or Unknown", policy.status));
        }
        let reason = policy.reason.as_deref().map(ReasonPattern::new).transpose();
        let reason = reason.map_err(|error| problem(format!("the pattern cannot be read, {error}"))).ok();
        let fallback = fallbacks.entry((policy.condition.as_str(), policy.status.as_str())).or_default();
        fallback.extend(policy.reason.is_none().then_some(policy.action));
        if let (Some(status), Some(reason)) = (status, reason) {
            checked.push(Checked {
                condition: policy.condition.clone(),
                status,
                reason,
                toleration: policy.toleration,
                termination_grace: policy.termination_grace,
                priority: policy.priority,
                action: policy.action,
            });
        }
    }
    for ((condition, status), actions) in fallbacks {
        let of = format!("`{condition}` {status}");
        match actions[..] {
            [RepairAction::Replace] => {}
            [RepairAction::Reboot] => {
                problems.push(format!("{of}: the policy without a pattern does not replace"));
            }
            [] => problems.push(format!("{of}: no policy without a pattern")),
            [_, _, ..] => problems.push(format!("{of}: {} policies without a pattern", actions.len())),
        }
    }
    if problems.is_empty() { Ok(checked) } else { Err(InvalidPolicies(problems)) }
}

fn status(text: &str) -> Option<ConditionStatus> {
    match text {
        "True" => Some(ConditionStatus::True),
        "False" => Some(ConditionStatus::False),
        "Unknown" => Some(ConditionStatus::Unknown),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn policy(
        condition: &'static str,
        status: &'static str,
        reason: Option<&'static str>,
    ) -> RepairPolicy {
        RepairPolicy {
            condition,
            status,
            reason,
            toleration: Duration::from_mins(30),
            termination_grace: None,
            priority: 0,
            action: RepairAction::Replace,
        }
    }

    #[test]
    fn valid_policies_are_taken_over() {
        let any = policy("Gpu", "False", None);
        let listed = RepairPolicy {
            termination_grace: Some(Duration::from_mins(5)),
            priority: 100,
            action: RepairAction::Reboot,
            ..policy("Gpu", "False", Some("XID(46|48)"))
        };
        let checked = repair_policies(&[listed, any, policy("Disk", "True", None)], &[]).unwrap();
        assert_eq!(checked.len(), 3);
        assert_eq!(checked[0].reason.as_ref().map(ReasonPattern::as_str), Some("XID(46|48)"));
        assert_eq!((checked[0].action, checked[0].priority), (RepairAction::Reboot, 100));
        assert_eq!((checked[2].status, checked[2].reason.clone()), (ConditionStatus::True, None));
        assert_eq!(repair_policies(&[], &[]), Ok(Vec::new()));
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let reboots = RepairPolicy { action: RepairAction::Reboot, ..policy("Net", "False", None) };
        let urgent = RepairPolicy { priority: 101, ..policy("Disk", "False", None) };
        let declared = [
            policy("", "False", None),
            policy("Gpu", "Broken", None),
            policy("Gpu", "False", Some("XID(")),
            policy("Ready", "False", None),
            policy("Ready", "False", None),
            reboots,
            urgent,
        ];
        let error = repair_policies(&declared, &[]).unwrap_err();
        let parts = [
            "policy 1 (``): the condition has no type",
            "policy 2 (`Gpu`): status `Broken` is not True, False or Unknown",
            "policy 3 (`Gpu`): the pattern cannot be read",
            "policy 7 (`Disk`): priority 101 is above 100",
            "`Gpu` False: no policy without a pattern",
            "`Net` False: the policy without a pattern does not replace",
            "`Ready` False: 2 policies without a pattern",
        ];
        assert_eq!(error.0.len(), parts.len(), "{error}");
        for (problem, part) in error.0.iter().zip(parts) {
            assert!(problem.starts_with(part), "{problem} is not {part}");
        }
    }

    #[test]
    fn own_policies_take_the_place_of_all_of_their_condition_and_status() {
        let declared = [
            policy("Gpu", "False", Some("XID")),
            policy("Gpu", "False", None),
            policy("Ready", "False", None),
            policy("Ready", "Unknown", None),
        ];
        let own = |condition, status, reason| {
            let minute = Duration::from_mins(1);
            RepairPolicy { toleration: minute, ..policy(condition, status, reason) }.written()
        };
        let listed = |own: &[WrittenPolicy]| {
            let checked = repair_policies(&declared, own)?;
            let row = |one: &Checked| (one.condition.clone(), one.status, one.toleration.as_secs() / 60);
            Ok(checked.iter().map(row).collect::<Vec<_>>())
        };
        let row = |condition: &str, status, minutes| (condition.to_owned(), status, minutes);
        let (no, unknown) = (ConditionStatus::False, ConditionStatus::Unknown);
        assert_eq!(
            listed(&[own("Gpu", "False", None), own("Disk", "False", None)]),
            Ok(vec![row("Ready", no, 30), row("Ready", unknown, 30), row("Gpu", no, 1), row("Disk", no, 1)])
        );
        let without_fallback: Result<_, InvalidPolicies> = listed(&[own("Gpu", "False", Some("XID48"))]);
        assert_eq!(without_fallback.unwrap_err().0, ["`Gpu` False: no policy without a pattern"]);
    }
}
