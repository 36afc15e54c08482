//! The controller's settings for a plan, from `--set name=value` and from exports.

use std::sync::Arc;

use anyhow::{Result, bail};
use karpenter_aws::NODE_CLASS_KIND;
use karpenter_aws::registry::label_registry;
use karpenter_aws_controllers::settings as aws;
use karpenter_controllers::Settings;
use karpenter_controllers::settings::{FLAGS, Flag, Home, OWN, Source};
use karpenter_plan::Ground;

/// What decisions are made by, and what the provider is asked with. Of two values for one name the last one counts.
pub(super) fn resolve(settings: &[String], cluster_name: &str) -> Result<(Ground, karpenter_aws::Settings)> {
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
        let name = if cluster_name.is_empty() { "plan" } else { cluster_name };
        let text = given.or_else(|| (flag.name == "cluster-name").then_some(name));
        text.map(|text| (text, Source::Flag))
    };
    let (core, of_aws) = (Settings::resolve(Home::Machine, last), aws::Settings::resolve(last));
    let (core, of_aws) = match (core, of_aws) {
        (Ok(core), Ok(of_aws)) => (core, of_aws),
        (core, of_aws) => {
            let errors = of_aws.err().into_iter().chain(core.err()).flatten();
            let lines: Vec<String> = errors.map(|error| error.to_string()).collect();
            bail!("{}", lines.join("\n       "));
        }
    };
    let of_provider = karpenter_aws::Settings {
        isolated_vpc: of_aws.isolated_vpc,
        price_file: of_aws.price_file,
        vm_memory_overhead_ppm: of_aws.vm_memory_overhead_ppm,
        reserved_enis: of_aws.reserved_enis,
        reserved_capacity: core.decisions.gates.reserved_capacity,
        zonal_shift: of_aws.enable_zonal_shift,
        ..karpenter_aws::Settings::new(&of_aws.cluster_name, &of_aws.cluster_endpoint)
    };
    let ground = Ground {
        registry: Arc::new(label_registry()),
        classes: vec![NODE_CLASS_KIND],
        settings: core.decisions,
    };
    Ok((ground, of_provider))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_core_and_provider_are_taken_and_the_last_one_counts() {
        let given = ["reserved-enis=1", "reserved-enis=2", "feature-gates=StaticCapacity=true"];
        let (ground, of_provider) = resolve(&given.map(str::to_owned), "").unwrap();
        assert!(ground.settings.gates.static_capacity);
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
