//! The page of settings.

use karpenter_aws_controllers::settings as aws;
use karpenter_controllers::settings::{FLAGS, Flag, GATES, OWN};

use super::table;

/// The page below its title.
pub(super) fn body() -> String {
    let mut text = INTRODUCTION.to_owned();
    for (title, flags) in [("AWS", aws::FLAGS), ("Core", FLAGS), ("Not in the reference", OWN)] {
        text.push_str(&format!("## {title}\n\n"));
        if title == "Not in the reference" {
            text.push_str(OWN_NOTE);
        }
        text.push_str(&table(&["flag", "environment", "default", "meaning"], flags.iter().map(row)));
        text.push('\n');
    }
    text.push_str("## Feature gates\n\n");
    text.push_str(&table(
        &["gate", "default", "meaning"],
        GATES
            .iter()
            .map(|gate| vec![format!("`{}`", gate.name), gate.default.to_string(), gate.help.to_owned()]),
    ));
    text.push_str("\nOf the AWS provider, all off by default:\n\n");
    text.push_str(&table(&["gate", "meaning"], aws::GATES.iter().map(aws_gate)));
    text
}

fn aws_gate(gate: &aws::Gate) -> Vec<String> {
    vec![format!("`{}`", gate.name), gate.help.to_owned()]
}

fn row(flag: &Flag) -> Vec<String> {
    let default = if flag.default.is_empty() { "empty".to_owned() } else { format!("`{}`", flag.default) };
    let effect = flag.without_effect.map(|why| format!(". **No effect**: {why}")).unwrap_or_default();
    vec![
        format!("`--{}`", flag.name),
        format!("`{}`", flag.env),
        // The gates have a table of their own.
        if flag.name.ends_with("feature-gates") { "see below".to_owned() } else { default },
        format!("{}{effect}", flag.help),
    ]
}

const INTRODUCTION: &str = "\
Settings of `karpenter controller`. A flag takes precedence over its environment variable, which takes
precedence over the default; an empty variable counts as unset. Names, defaults and meaning are those of the reference
v1.15, except where a row says \"not in the reference\", in the table [Not in the reference](#not-in-the-reference), and in
what [differences.md](differences.md#settings-and-start) lists.

A value that cannot be used stops the start, and the message names the flag or variable, its value and what is allowed;
everything that is wrong is named at once. (The reference silently takes the default for variables it cannot read, and
ignores feature gates it does not know; here only those of `--aws-feature-gates` are ignored, and logged.) Flags that are on or off take `true` or `false` or stand alone; their variables
also take `1`, `t`, `T`, `TRUE`, `0` and so on.

Also read: `SYSTEM_NAMESPACE` (`--system-namespace`), the namespace of the lease unless it is set; the variables of the
AWS SDK (`AWS_REGION`, `AWS_ENDPOINT_URL`, `AWS_USE_FIPS_ENDPOINT`, ...); `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` for
calls of AWS, except those to this machine and to sources of credentials; `AWS_CA_BUNDLE`, a file with the
authorities AWS calls trust instead of the system's; `KUBECONFIG` outside a cluster.

";

const OWN_NOTE: &str = "\
Four kinds of defaults do more than the reference: `--nominated-node-name` names nodes to the scheduler;
`--batch-early-launch` launches full nodes before a batch is complete; the numbers per pass and per minute are limits, which only large clusters reach; the other `--disruption-` settings, but for those of
`many-to-many`, are [brakes](disruption.md#brakes), which hold disruption back when something looks wrong. The rest is off,
or does what the reference does.

";
