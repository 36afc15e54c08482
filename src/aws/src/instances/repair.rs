//! Node conditions that justify replacing a machine (spec aws-provider 5.12).
//!
//! The codes of the first two rows are those of NVIDIA's drivers, as the EKS node monitoring agent writes them into the
//! reason: `NvidiaXID48Error`. A row with a list is for those codes alone, the row without one for everything else.

use std::time::Duration;

use karpenter_cloud::RepairPolicy;
use karpenter_model::names::condition;
use karpenter_model::repair::RepairAction;

use crate::Gates;

const GPU: &str = "AcceleratedHardwareReady";
/// Codes that a restart usually clears. Without the gate `RebootForRepair` the machine is replaced all the same, after as short
/// a time.
const CLEARED_BY_RESTART: &str = "XID(46|48|54|62|63|95|109|110|136|140|143|155|156|158)([^0-9]|$)";
/// Codes of broken hardware.
const BROKEN: &str = "XID(64|74|79|119|120)([^0-9]|$)";

/// Returns the policies that the feature gates ask for.
pub fn declared(gates: Gates) -> &'static [RepairPolicy] {
    if gates.reboot_for_repair { &REBOOTING } else { &POLICIES }
}

/// The policies of the EKS node monitoring agent's conditions.
const POLICIES: [RepairPolicy; 9] = policies(RepairAction::Replace);
/// The same with reboots, for the gate `RebootForRepair`.
const REBOOTING: [RepairPolicy; 9] = policies(RepairAction::Reboot);

/// The policies, with this action for what a restart usually clears.
const fn policies(cleared: RepairAction) -> [RepairPolicy; 9] {
    [
        policy(condition::READY, "False"),
        policy(condition::READY, "Unknown"),
        RepairPolicy { action: cleared, ..gpu(CLEARED_BY_RESTART) },
        gpu(BROKEN),
        policy(GPU, "False"),
        policy("StorageReady", "False"),
        policy("NetworkingReady", "False"),
        policy("KernelReady", "False"),
        policy("ContainerRuntimeReady", "False"),
    ]
}

/// Any reason, which is given half an hour, and the drain ten minutes.
const fn policy(condition: &'static str, status: &'static str) -> RepairPolicy {
    RepairPolicy {
        condition,
        status,
        reason: None,
        toleration: Duration::from_mins(30),
        termination_grace: Some(Duration::from_mins(10)),
        priority: 0,
        action: RepairAction::Replace,
    }
}

/// Reasons in which `codes` is found: ten minutes, and five for the drain.
const fn gpu(codes: &'static str) -> RepairPolicy {
    RepairPolicy {
        reason: Some(codes),
        toleration: Duration::from_mins(10),
        termination_grace: Some(Duration::from_mins(5)),
        ..policy(GPU, "False")
    }
}

#[cfg(test)]
mod tests {
    use karpenter_cloud::repair_policies;

    use super::*;

    #[test]
    fn each_code_has_the_row_of_the_table_it_is_listed_in() {
        let policies = repair_policies(&POLICIES, &[]).unwrap();
        let minutes = |reason: &str| {
            let listed = policies.iter().find(|policy| {
                policy.condition == GPU && policy.reason.as_ref().is_some_and(|pattern| pattern.is_in(reason))
            });
            let any = policies.iter().find(|policy| policy.condition == GPU && policy.reason.is_none());
            let minutes = |span: Duration| span.as_secs() / 60;
            listed.or(any).map(|policy| (minutes(policy.toleration), policy.termination_grace.map(minutes)))
        };
        for code in [46, 48, 54, 62, 63, 95, 109, 110, 136, 140, 143, 155, 156, 158, 64, 74, 79, 119, 120] {
            assert_eq!(minutes(&format!("NvidiaXID{code}Error")), Some((10, Some(5))), "{code}");
            assert_eq!(minutes(&format!("XID{code}")), Some((10, Some(5))), "{code} at the end");
        }
        for other in ["NvidiaXID13Error", "NvidiaXID462Error", "NvidiaXID4Error", "NvidiaDoubleBitError", ""]
        {
            assert_eq!(minutes(other), Some((30, Some(10))), "{other}");
        }
    }

    #[test]
    fn only_what_a_restart_clears_is_rebooted_and_only_behind_the_gate() {
        let rebooted = |policies: &[RepairPolicy]| {
            let policies = repair_policies(policies, &[]).unwrap();
            let reboots = policies.iter().filter(|policy| policy.action == RepairAction::Reboot);
            reboots.map(|policy| policy.reason.as_ref().unwrap().as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(rebooted(&POLICIES), [""; 0]);
        assert_eq!(rebooted(&REBOOTING), [CLEARED_BY_RESTART]);
    }
}
