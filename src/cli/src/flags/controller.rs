//! Flags of `karpenter controller`: the tables of the libraries, put on the command line.
//!
//! The tables are the one source of names, variables, defaults and help; this file only hands clap's findings to
//! those who know what each value may be, and puts everything that is wrong into one error.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use karpenter_aws_controllers::settings::{self as aws, Settings as AwsSettings};
use karpenter_controllers::Settings;
use karpenter_controllers::settings::{FLAGS, Flag, Home, OWN, Source};

/// The tables with the headings of `--help`.
const TABLES: [(&str, &[Flag]); 3] =
    [("AWS settings", aws::FLAGS), ("Core settings", FLAGS), ("Settings the reference does not have", OWN)];

/// The texts that were given, by flag name, with where they came from.
#[derive(Clone, Debug, Default)]
pub(crate) struct ControllerFlags(BTreeMap<&'static str, (String, Source)>);

impl ControllerFlags {
    /// The settings, or every value that cannot be used, one per line.
    pub(crate) fn settings(&self) -> anyhow::Result<(Settings, AwsSettings)> {
        let given = |flag: &Flag| self.0.get(flag.name).map(|(text, source)| (text.as_str(), *source));
        // Every pod has this variable, and nothing else does.
        let in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        resolve(if in_pod { Home::Pod } else { Home::Machine }, given)
    }

    /// The settings that were given although they change nothing, with the reason why.
    pub(crate) fn without_effect(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let flags = TABLES.into_iter().flat_map(|(_, table)| table);
        flags.filter_map(|flag| {
            let (text, _) = self.0.get(flag.name)?;
            flag.without_effect.filter(|_| text != flag.default).map(|why| (flag.name, why))
        })
    }
}

/// The settings that follow from the texts that were given, or every value that cannot be used, one per line.
pub(crate) fn resolve<'a>(
    home: Home,
    given: impl Fn(&Flag) -> Option<(&'a str, Source)>,
) -> anyhow::Result<(Settings, AwsSettings)> {
    match (Settings::resolve(home, &given), AwsSettings::resolve(&given)) {
        (Ok(mut core), Ok(aws)) => {
            if aws.gates.foresee_devices() {
                Arc::make_mut(&mut core.decisions).ignore_dra_requests = false;
            }
            Ok((core, aws))
        }
        (core, aws) => {
            let errors = aws.err().into_iter().chain(core.err()).flatten();
            let lines: Vec<_> = errors.map(|error| error.to_string()).collect();
            Err(anyhow::anyhow!("{}", lines.join("\n       ")))
        }
    }
}

/// Returns the settings of the provider, as far as flags give them. What they leave out, and the address of the cluster's
/// DNS, is read from the cluster.
pub(crate) fn provider_settings(core: &Settings, aws: &AwsSettings) -> karpenter_aws::Settings {
    karpenter_aws::Settings {
        cluster_name: aws.cluster_name.clone(),
        cluster_endpoint: aws.cluster_endpoint.clone(),
        cluster_ca_bundle: Some(aws.cluster_ca_bundle.clone()).filter(|bundle| !bundle.is_empty()),
        kube_dns_ip: None,
        ipv6_cluster: None,
        isolated_vpc: aws.isolated_vpc,
        price_file: aws.price_file.clone(),
        eks_control_plane: aws.eks_control_plane,
        vm_memory_overhead_ppm: aws.vm_memory_overhead_ppm,
        reserved_enis: aws.reserved_enis,
        disable_dry_run: aws.disable_dry_run,
        reserved_capacity: core.decisions.gates.reserved_capacity,
        zonal_shift: aws.enable_zonal_shift,
        interruption_queue: aws.interruption_queue.clone(),
        ami_refresh_seconds: aws.ami_refresh_interval.as_secs(),
        subnet_refresh_seconds: aws.subnet_refresh_interval.as_secs(),
        security_group_refresh_seconds: aws.security_group_refresh_interval.as_secs(),
        capacity_backoff_seconds: aws.capacity_backoff_max.as_secs(),
        gates: aws.gates,
    }
}

impl ControllerFlags {
    /// The settings that are not what they would be by themselves, as `name=value`, in the order of the tables.
    pub(crate) fn differing(&self) -> Vec<String> {
        let flags = TABLES.into_iter().flat_map(|(_, table)| table);
        let differing = flags.filter(|flag| flag.without_effect.is_none()).filter_map(|flag| {
            let (text, _) = self.0.get(flag.name)?;
            let text = match flag.name {
                GATES | AWS_GATES => new_parts(text, flag.default),
                CERTIFICATE if !text.is_empty() => "(set)".to_owned(),
                _ if text == flag.default => String::new(),
                _ => text.clone(),
            };
            (!text.is_empty()).then(|| format!("{}={text}", flag.name))
        });
        differing.collect()
    }
}

/// The settings that list parts of themselves in any order.
const GATES: &str = "feature-gates";
const AWS_GATES: &str = "aws-feature-gates";
/// The setting that would fill a page.
const CERTIFICATE: &str = "cluster-ca-bundle";

/// The parts of `text` that `default` does not have.
fn new_parts(text: &str, default: &str) -> String {
    let known: Vec<&str> = default.split(',').map(str::trim).collect();
    let new = text.split(',').map(str::trim).filter(|part| !part.is_empty() && !known.contains(part));
    new.collect::<Vec<_>>().join(",")
}

impl Args for ControllerFlags {
    fn augment_args(command: Command) -> Command {
        let flags =
            TABLES.into_iter().flat_map(|(heading, table)| table.iter().map(move |flag| (heading, flag)));
        flags.fold(command, |command, (heading, flag)| command.arg(arg(heading, flag)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn arg(heading: &'static str, flag: &'static Flag) -> Arg {
    let default = if flag.default.is_empty() { "none" } else { flag.default };
    let effect = flag.without_effect.map(|why| format!("; no effect: {why}")).unwrap_or_default();
    let arg = Arg::new(flag.name)
        .long(flag.name)
        .env(flag.env)
        .hide_env_values(true)
        .help(format!("{}{effect} [default: {default}]", flag.help))
        .help_heading(heading);
    if flag.boolean {
        return arg.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("BOOL");
    }
    // Negative numbers are values, not flags.
    arg.allow_hyphen_values(true).value_name(flag.env)
}

impl FromArgMatches for ControllerFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut given = BTreeMap::new();
        for flag in TABLES.into_iter().flat_map(|(_, table)| table) {
            let Some(text) = matches.get_one::<String>(flag.name) else { continue };
            let source = match matches.value_source(flag.name) {
                Some(ValueSource::EnvVariable) => Source::Environment,
                _ => Source::Flag,
            };
            // The reference chart leaves some variables empty to mean "the default".
            if source == Source::Flag || !text.is_empty() {
                given.insert(flag.name, (text.clone(), source));
            }
        }
        Ok(Self(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Parsed {
        #[command(flatten)]
        flags: ControllerFlags,
    }

    fn parse(arguments: &[&str]) -> ControllerFlags {
        let name = ["karpenter", "--cluster-name=demo"];
        Parsed::try_parse_from(name.iter().chain(arguments)).unwrap().flags
    }

    #[test]
    fn flags_reach_the_settings() {
        let given = ["--batch-idle-duration", "2s", "--disable-leader-election", "--memory-limit", "-1"];
        let (core, aws) = parse(&given).settings().unwrap();
        assert_eq!(core.decisions.batch_idle, std::time::Duration::from_secs(2));
        assert!(!core.leader_election.enabled);
        assert_eq!(aws.cluster_name, "demo");
    }

    #[test]
    fn a_type_that_lists_its_devices_has_resource_claims_planned_for() {
        let ignored = |given: &[&str]| parse(given).settings().unwrap().0.decisions.ignore_dra_requests;
        assert!(ignored(&[]) && ignored(&["--aws-feature-gates=NodeClassCEL=true"]));
        for gate in ["DRANVIDIAGPU", "DRAEFA"] {
            let gate = format!("--aws-feature-gates={gate}=true");
            assert!(!ignored(&[&gate]) && !ignored(&["--ignore-dra-requests=true", &gate]), "{gate}");
        }
    }

    #[test]
    fn every_wrong_value_of_every_table_is_named_in_one_error() {
        let given =
            ["--metrics-port", "http", "--feature-gates", "NodeRepairs=true", "--reserved-enis", "-1"];
        let error = parse(&given).settings().unwrap_err().to_string();
        for wrong in [
            "flag `--reserved-enis` is `-1`; use a whole number that is not negative",
            "flag `--metrics-port` is `http`",
            "flag `--feature-gates` is `NodeRepairs=true`",
        ] {
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn settings_reach_the_provider_and_what_only_the_cluster_knows_is_left_out() {
        let provider = |given: &[&str]| {
            let (core, aws) = parse(given).settings().unwrap();
            provider_settings(&core, &aws)
        };
        let defaults = provider(&[]);
        assert_eq!((&*defaults.cluster_name, &*defaults.cluster_endpoint), ("demo", ""));
        assert_eq!(defaults.cluster_ca_bundle, None);
        let given = provider(&[
            "--cluster-ca-bundle=LS0tLS1CRUdJTg==",
            "--interruption-queue=queue",
            "--capacity-backoff-max=5m",
            "--security-group-refresh-interval=7m",
            "--aws-feature-gates=NodeClassCEL=true",
            "--feature-gates=ReservedCapacity=false",
        ]);
        assert_eq!(given.cluster_ca_bundle.as_deref(), Some("LS0tLS1CRUdJTg=="));
        assert_eq!(given.interruption_queue.as_deref(), Some("queue"));
        assert_eq!((given.capacity_backoff_seconds, given.reserved_capacity), (300, false));
        assert_eq!((given.security_group_refresh_seconds, given.gates.node_class_cel), (420, true));
        assert_eq!((defaults.security_group_refresh_seconds, defaults.gates.node_class_cel), (60, false));
    }

    #[test]
    fn settings_without_effect_are_told_when_somebody_counts_on_them() {
        let given = parse(&["--enable-profiling", "--disable-controller-warmup=true"]);
        let names: Vec<&str> = given.without_effect().map(|(name, _)| name).collect();
        assert_eq!(names, ["enable-profiling"], "a value that is the default asks for nothing");
    }

    #[test]
    fn settings_that_differ_are_told_and_those_that_only_repeat_the_default_are_not() {
        let given = [
            "--batch-idle-duration=2s",
            "--batch-max-duration=10s",
            "--disable-leader-election",
            "--feature-gates=StaticCapacity=false, NodeRepair=true",
            "--cluster-ca-bundle=LS0tLS1CRUdJTg==",
            "--enable-profiling",
        ];
        let told = parse(&given).differing();
        assert_eq!(
            told,
            [
                "cluster-ca-bundle=(set)",
                "cluster-name=demo",
                "disable-leader-election=true",
                "batch-idle-duration=2s",
                "feature-gates=NodeRepair=true",
            ]
        );
        for known in [GATES, AWS_GATES, CERTIFICATE] {
            assert!(TABLES.iter().any(|(_, table)| table.iter().any(|flag| flag.name == known)), "{known}");
        }
    }

    #[test]
    fn no_flag_is_in_two_tables() {
        let names: Vec<&str> =
            TABLES.iter().flat_map(|(_, table)| table.iter().map(|flag| flag.name)).collect();
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }
}
