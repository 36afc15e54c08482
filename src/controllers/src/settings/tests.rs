//! Defaults are those of the reference, and the error of a wrong value names what to write instead.

use std::collections::BTreeMap;
use std::time::Duration;

use karpenter_model::settings::PreferencePolicy;
use karpenter_telemetry::logging::{Format, Level, Output};

use super::{FLAGS, GATES, Home, OWN, SettingError, Settings, Source};

fn resolve(given: &[(&'static str, &'static str)], source: Source) -> Result<Settings, Vec<SettingError>> {
    let given: BTreeMap<&str, &str> = given.iter().copied().collect();
    Settings::resolve(Home::Machine, |flag| given.get(flag.name).map(|value| (*value, source)))
}

#[test]
fn defaults_are_those_of_the_reference() {
    let settings = Settings::default();
    assert_eq!(*settings.decisions, karpenter_model::Settings::default());
    assert_eq!((settings.metrics_port, settings.health_probe_port), (8080, 8081));
    assert_eq!((settings.kube_client_qps, settings.kube_client_burst), (200, 300));
    assert!(settings.leader_election.enabled);
    assert_eq!(settings.leader_election.name, "karpenter-leader-election");
    assert_eq!(settings.leader_election.namespace, None);
    assert!(!settings.warm_up && settings.cluster_state_observability);
    assert_eq!(settings.log_format, Format::Json);
    assert_eq!((settings.memory_limit_bytes, settings.cpu_requests_millicores), (None, 1000));
    assert_eq!(settings.log_level, Level::Info);
    assert_eq!(settings.log_outputs, [Output::Stdout]);
}

#[test]
fn a_wrong_value_names_flag_value_and_what_is_allowed() {
    let table = [
        ("metrics-port", "70000", "flag `--metrics-port` is `70000`; use a port, 0 to 65535"),
        (
            "bind-address",
            "localhost",
            "flag `--bind-address` is `localhost`; use an IP address, such as 127.0.0.1, 0.0.0.0 or ::",
        ),
        ("log-level", "loud", "flag `--log-level` is `loud`; use debug, info, warn or error"),
        ("preference-policy", "respect", "flag `--preference-policy` is `respect`; use Respect or Ignore"),
        (
            "batch-max-duration",
            "10",
            "flag `--batch-max-duration` is `10`; use a duration above zero such as 10s, 1m30s or 500ms",
        ),
        ("disable-leader-election", "1", "flag `--disable-leader-election` is `1`; use true or false"),
        (
            "feature-gates",
            "NodeRepair=yes",
            "flag `--feature-gates` is `NodeRepair=yes`; use Name=true or Name=false, separated by commas; names are \
             ReservedCapacity, SpotToSpotConsolidation, NodeRepair, NodeOverlay, StaticCapacity, CapacityBuffer, \
             TerminateFirstDrift, TerminateFirstRepair and PodDeletionCostManagement",
        ),
        (
            "feature-gates",
            "NodeRepairs=true",
            "flag `--feature-gates` is `NodeRepairs=true`; use Name=true or Name=false, separated by commas; names are \
             ReservedCapacity, SpotToSpotConsolidation, NodeRepair, NodeOverlay, StaticCapacity, CapacityBuffer, \
             TerminateFirstDrift, TerminateFirstRepair and PodDeletionCostManagement",
        ),
        (
            "feature-gates",
            "NodeRepair",
            "flag `--feature-gates` is `NodeRepair`; use Name=true or Name=false, separated by commas; names are \
             ReservedCapacity, SpotToSpotConsolidation, NodeRepair, NodeOverlay, StaticCapacity, CapacityBuffer, \
             TerminateFirstDrift, TerminateFirstRepair and PodDeletionCostManagement",
        ),
    ];
    for (flag, value, want) in table {
        let errors = resolve(&[(flag, value)], Source::Flag).unwrap_err();
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [want]);
    }
}

#[test]
fn the_table_of_gates_is_that_of_the_flag() {
    let flag = FLAGS.iter().find(|flag| flag.name == "feature-gates").unwrap();
    let listed: std::collections::BTreeSet<String> = flag.default.split(',').map(ToOwned::to_owned).collect();
    assert_eq!(listed, GATES.iter().map(|gate| format!("{}={}", gate.name, gate.default)).collect());
    let error = resolve(&[("feature-gates", "x=true")], Source::Flag).unwrap_err().remove(0).to_string();
    assert!(GATES.iter().all(|gate| error.contains(gate.name)), "{error}");
}

#[test]
fn settings_of_our_own_have_limits_too() {
    let table = [
        ("log-format", "yaml", "json or text"),
        ("scheduling-default-spread", "zone:0:ScheduleAnyway", "maxSkew is at least 1"),
        ("scheduling-default-spread", "zone:1", "topologyKey:maxSkew:whenUnsatisfiable"),
        ("scheduling-default-spread", "zone:1:Maybe", "DoNotSchedule or ScheduleAnyway"),
        ("registration-timeout", "59s", "a duration of at least 1m"),
        ("disruption-simulations-per-pass", "0", "a whole number of at least 1"),
        ("disruption-commands-per-minute", "-1", "a whole number that is not negative"),
        ("disruption-many-to-many", "yes", "true or false"),
        ("disruption-many-to-many-min-saving", "-0.1", "dollars that are not negative"),
        ("disruption-many-to-many-min-saving-percent", "101", "a whole number from 0 to 100"),
        ("disruption-mass-drift-hold", "soon", "a duration such as 0s"),
        ("disable-controller-warmup", "maybe", "true or false"),
        ("enable-profiling", "maybe", "true or false"),
        ("leader-election-name", "Karpenter_lease", "the name of a Lease"),
        ("leader-election-name", "", "the name of a Lease"),
        ("leader-election-namespace", "kube.system", "the name of a namespace"),
    ];
    for (flag, value, allowed) in table {
        let errors = resolve(&[(flag, value)], Source::Flag).unwrap_err();
        let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(
            text.starts_with(&format!("flag `--{flag}` is `{value}`; use ")) && text.contains(allowed),
            "{text}"
        );
    }
}

#[test]
fn settings_of_our_own_are_read() {
    let settings = resolve(
        &[
            (
                "scheduling-default-spread",
                "topology.kubernetes.io/zone:5:ScheduleAnyway, host:1:DoNotSchedule",
            ),
            ("registration-timeout", "40m"),
            ("disruption-many-to-many", "true"),
            ("disruption-many-to-many-min-saving", "1.5"),
            ("disruption-anti-flap-window", "0s"),
            ("disruption-expiry-lead", "12h"),
            ("disruption-on-rebalance", "true"),
            ("disruption-launchable-capacity", "false"),
        ],
        Source::Flag,
    )
    .unwrap();
    let spread = &settings.decisions.default_spread;
    assert_eq!((spread.len(), spread[0].max_skew, spread[1].topology_key.as_str()), (2, 5, "host"));
    assert_eq!(settings.decisions.registration_timeout, Duration::from_mins(40));
    let disruption = &settings.decisions.disruption;
    assert!(disruption.many_to_many.enabled && disruption.brakes.anti_flap_window.is_zero());
    assert!(disruption.on_rebalance && !disruption.brakes.launchable_capacity);
    assert_eq!(disruption.expiry_lead, Duration::from_hours(12));
    assert_eq!(disruption.many_to_many.min_saving, karpenter_model::Price::from_nanos(1_500_000_000));
}

#[test]
fn the_configuration_of_the_scheduler_is_read_and_counts_before_the_older_way() {
    let config = "podTopologySpread: {defaultConstraints: [{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}";
    let older = ("scheduling-default-spread", "host:1:DoNotSchedule");
    let spread = |given: &[(&'static str, &'static str)]| {
        let settings = resolve(given, Source::Environment).unwrap();
        let all = settings.decisions.default_spread.iter();
        all.map(|one| (one.topology_key.to_string(), one.max_skew)).collect::<Vec<_>>()
    };
    assert_eq!(spread(&[]), []);
    assert_eq!(spread(&[older]), [("host".to_owned(), 1)]);
    assert_eq!(spread(&[("scheduler-config", config)]), [("zone".to_owned(), 2)]);
    assert_eq!(spread(&[("scheduler-config", config), older]), [("zone".to_owned(), 2)]);
    let errors = resolve(&[("scheduler-config", "podTopologySpread: {defaults: []}")], Source::Environment);
    let error = errors.unwrap_err().remove(0).to_string();
    assert!(error.starts_with("environment variable `SCHEDULER_CONFIG` is `podTopologySpread"), "{error}");
    assert!(error.contains("defaults"), "{error}");
}

#[test]
fn repair_policies_of_the_user_are_read_and_a_mistake_is_named() {
    let policies = "[{condition: Ready, status: Unknown, toleration: Never}]";
    let settings = resolve(&[("repair-policies", policies)], Source::Environment).unwrap();
    assert_eq!(settings.repair_policies.len(), 1);
    let errors = resolve(&[("repair-policies", "[{condition: Ready}]")], Source::Environment).unwrap_err();
    assert!(errors[0].to_string().starts_with("environment variable `REPAIR_POLICIES` is"), "{}", errors[0]);
}

#[test]
fn all_wrong_values_are_reported_together_and_name_the_variable_when_it_came_from_there() {
    let errors = resolve(&[("metrics-port", "x"), ("log-level", "x")], Source::Environment).unwrap_err();
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 2);
    assert!(texts[0].starts_with("environment variable `METRICS_PORT` is `x`"), "{texts:?}");
}

#[test]
fn values_are_read() {
    let settings = resolve(
        &[
            ("batch-max-duration", "1m30s"),
            ("preference-policy", "Ignore"),
            ("feature-gates", " NodeRepair=True, NodeOverlay=1 ,ReservedCapacity=f"),
            ("memory-limit", "1073741824"),
            ("cpu-requests", "-5"),
            ("leader-election-namespace", "karpenter"),
            ("log-output-paths", "stderr, /tmp/log"),
        ],
        Source::Flag,
    )
    .unwrap();
    assert_eq!(settings.decisions.batch_max, Duration::from_secs(90));
    assert_eq!(settings.decisions.preference_policy, PreferencePolicy::Ignore);
    assert!(settings.decisions.gates.node_repair && !settings.decisions.gates.reserved_capacity);
    assert_eq!(settings.memory_limit_bytes, Some(1 << 30));
    assert_eq!(settings.cpu_requests_millicores, 1000, "not above zero means the default");
    assert_eq!(settings.leader_election.namespace.as_deref(), Some("karpenter"));
    assert_eq!(settings.log_outputs, [Output::Stderr, Output::File("/tmp/log".into())]);
}

#[test]
fn the_environment_takes_booleans_as_go_writes_them() {
    for (text, want) in [("1", true), ("T", true), ("True", true), ("0", false), ("f", false)] {
        let settings = resolve(&[("disable-leader-election", text)], Source::Environment).unwrap();
        assert_eq!(!settings.leader_election.enabled, want, "{text}");
    }
}

#[test]
fn workers_grow_linearly_with_cores() {
    let workers = |millicores| {
        Settings { cpu_requests_millicores: millicores, ..Settings::default() }.concurrency(1000, 5000)
    };
    assert_eq!((workers(500), workers(1000), workers(60_000), workers(90_000)), (1000, 1000, 5000, 5000));
    assert_eq!(workers(2000), 1067);
    // The table of the reference's tests.
    for (millicores, expected) in
        [(500, 10), (1000, 10), (1500, 26), (15_000, 244), (60_000, 1000), (100_000, 1000)]
    {
        let settings = Settings { cpu_requests_millicores: millicores, ..Settings::default() };
        assert_eq!(settings.concurrency(10, 1000), expected, "{millicores}");
    }
}

#[test]
fn flags_and_variables_have_the_same_words() {
    for flag in FLAGS.iter().chain(OWN) {
        assert_eq!(flag.env, flag.name.replace('-', "_").to_uppercase());
    }
}

#[test]
fn only_a_pod_listens_beyond_loopback_unless_told() {
    let address = |home, given: Option<&'static str>| {
        let answer = |flag: &super::Flag| {
            given.filter(|_| flag.name == "bind-address").map(|text| (text, Source::Environment))
        };
        Settings::resolve(home, answer).unwrap().bind_address.to_string()
    };
    assert_eq!(address(Home::Machine, None), "127.0.0.1");
    assert_eq!(address(Home::Pod, None), "::");
    assert_eq!(address(Home::Pod, Some("")), "::");
    assert_eq!(address(Home::Pod, Some("127.0.0.1")), "127.0.0.1");
    assert_eq!(address(Home::Machine, Some("0.0.0.0")), "0.0.0.0");
}
