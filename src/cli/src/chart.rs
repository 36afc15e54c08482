//! The chart against the command line: what one sets, the other reads.

use std::collections::BTreeSet;

use clap::CommandFactory;

use crate::Cli;

/// Variables for other parts of the process, or accepted and ignored for the reference's sake.
const NOT_FLAGS: &[&str] = &["AWS_REGION", "KUBERNETES_MIN_VERSION"];

/// Variables of the template, those behind `- name:` and those behind `(list "`.
fn chart() -> BTreeSet<String> {
    let text = include_str!("../../../charts/karpenter/templates/_environment.tpl");
    let plain = text.lines().filter_map(|line| line.strip_prefix("- name: ")).map(str::to_owned);
    let listed = text.split("(list \"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned);
    plain.chain(listed).collect()
}

#[test]
fn the_controller_reads_what_the_chart_sets_and_the_chart_sets_what_the_controller_reads() {
    let cli = Cli::command();
    let controller = cli.find_subcommand("controller").expect("the subcommand");
    let read: BTreeSet<String> =
        controller.get_arguments().filter_map(|flag| flag.get_env()?.to_str().map(str::to_owned)).collect();
    let set = chart();
    let unread: Vec<_> = set.difference(&read).filter(|name| !NOT_FLAGS.contains(&name.as_str())).collect();
    assert!(unread.is_empty(), "the chart sets what the controller does not read: {unread:?}");
    let unset: Vec<_> = read.difference(&set).collect();
    assert!(
        unset.is_empty(),
        "no value of the chart sets {unset:?}; see charts/karpenter/values.schema.json"
    );
}
