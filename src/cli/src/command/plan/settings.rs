//! The controller's settings for a plan, from `--set name=value` and from exports.

use std::sync::Arc;

use anyhow::{Result, bail};
use karpenter_aws::NODE_CLASS_KIND;
use karpenter_aws::instances::repair;
use karpenter_aws::registry::label_registry;
use karpenter_aws_controllers::settings as aws;
use karpenter_controllers::repair_policies;
use karpenter_controllers::settings::{FLAGS, Flag, Home, OWN, Source};
use karpenter_plan::PlanInputs;

use crate::flags::controller;

/// Name of a cluster that was given none.
pub(crate) const NO_NAME: &str = "CLUSTER-NAME";

/// Returns the settings for decisions and for the provider. Of two values for one name the last one counts.
pub(super) fn resolve(
    settings: &[String],
    cluster_name: &str,
) -> Result<(PlanInputs, karpenter_aws::Settings)> {
    let mut given: Vec<(&str, &str)> = Vec::new();
    for setting in settings {
        let Some((name, value)) = setting.split_once('=') else {
            bail!(
                "cannot read setting `{setting}`; write it as name=value, like feature-gates=StaticCapacity=true"
            );
        };
        if ![FLAGS, OWN, aws::FLAGS].into_iter().flatten().any(|flag| flag.name == name) {
            bail!(
                "cannot use setting `{name}`: there is none of that name; `karpenter controller --help` lists them"
            );
        }
        given.push((name, value));
    }
    let last = |flag: &Flag| {
        let given = given.iter().rev().find(|(name, _)| *name == flag.name).map(|(_, text)| *text);
        // The provider insists on a name, and a plan of files has none.
        let name = if cluster_name.is_empty() { NO_NAME } else { cluster_name };
        let text = given.or_else(|| (flag.name == "cluster-name").then_some(name));
        text.map(|text| (text, Source::Flag))
    };
    let (core, of_aws) = controller::resolve(Home::Machine, last)?;
    let of_provider = controller::provider_settings(&core, &of_aws);
    // Legacy repair is no method of disruption, so no command of a plan carries it out.
    let declared = if core.legacy_node_repair { &[] } else { repair::declared(of_provider.gates) };
    let plan_inputs = PlanInputs {
        registry: Arc::new(label_registry()),
        classes: vec![NODE_CLASS_KIND],
        repair: repair_policies(declared, &core)?,
        settings: core.decisions,
    };
    Ok((plan_inputs, of_provider))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_core_and_provider_are_taken_and_the_last_one_counts() {
        let given = ["reserved-enis=1", "reserved-enis=2", "feature-gates=StaticCapacity=true"];
        let (plan_inputs, of_provider) = resolve(&given.map(str::to_owned), "").unwrap();
        assert!(plan_inputs.settings.gates.static_capacity);
        assert_eq!(of_provider.reserved_enis, 2);
    }

    #[test]
    fn what_is_no_setting_is_refused_with_what_to_do() {
        for (given, expected) in [
            ("fature-gates=NodeRepair=true", "cannot use setting `fature-gates`"),
            ("feature-gates", "cannot read setting `feature-gates`"),
            ("reserved-enis=many", "reserved-enis"),
        ] {
            let error = resolve(&[given.to_owned()], "").err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
