//! `karpenter doctor`: reads the account and the cluster, reports what is wrong, and repairs what is safe to repair.

mod kubeconfig;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use karpenter_aws_api::Clients;
use karpenter_aws_sdk as sdk;
use karpenter_bootstrap::names::{QUEUE_NAME_MAX, ROLE_NAME_MAX, bounded};
use karpenter_compose::WallClock;
use karpenter_doctor::check::Scope;
use karpenter_doctor::diagnose::{Health, Report, diagnose};
use karpenter_doctor::facts::{Account, Cluster, Names, export, import, unseen};
use karpenter_doctor::repair::{Connections, repair};
use karpenter_doctor::{Facts, Severity, gather, show};
use karpenter_model::Clock;
use karpenter_telemetry::stdout::print;

use crate::api_server;
use crate::output::{Output, json};

/// Longest time the first question may take before no further one is asked.
const FIRST_ANSWER: Duration = Duration::from_secs(15);

/// Arguments of `karpenter doctor`.
#[derive(Args)]
#[command(after_help = "Exit codes: 0 nothing to do, 1 the doctor itself failed, 2 something is wrong, \
                        3 nothing found but not everything could be checked.\n\n\
                        For a cluster and its account: karpenter doctor --cluster-name prod\n\
                        With safe repairs: karpenter doctor --cluster-name prod --fix")]
pub(crate) struct Arguments {
    /// Name of the EKS cluster
    #[arg(long, env, required_unless_present = "from")]
    cluster_name: Option<String>,
    /// Region of the cluster [default: what the AWS SDK finds in `AWS_REGION` or the profile]
    #[arg(long)]
    region: Option<String>,
    /// Name of the node role, if `bootstrap` was given one [default: the name that `bootstrap` chooses]
    #[arg(long)]
    node_role_name: Option<String>,
    /// Name of the controller role, if `bootstrap` was given one [default: the name that `bootstrap` chooses]
    #[arg(long)]
    controller_role_name: Option<String>,
    /// Name of the interruption queue, if `bootstrap` was given one [default: the name that `bootstrap` chooses]
    #[arg(long)]
    queue_name: Option<String>,
    /// Use this endpoint for every AWS service, such as that of an emulator
    #[arg(long, env = "AWS_ENDPOINT_URL")]
    endpoint_url: Option<String>,
    /// Check the AWS account only, for use before Karpenter is installed
    #[arg(long, conflicts_with = "from")]
    account_only: bool,
    /// Read the answers that `--export` wrote to this folder instead of asking the account and the cluster
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,
    /// Also write all answers of the account and the cluster to this folder, as JSON files
    #[arg(long, value_name = "FOLDER")]
    export: Option<PathBuf>,
    /// Run only these checks, separated by commas, such as D-06,P-16
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    only: Vec<String>,
    /// Carry out the fixes that the report marks with [--fix], then check again; a fix that is only advice needs its
    /// check named by --only
    #[arg(long, conflicts_with = "from")]
    fix: bool,
    /// How to print the report
    #[arg(short, long, default_value = "text")]
    output: Output,
}

impl Arguments {
    /// Names of the checks to run; none is all. Before an installation those of the cluster have nothing to say.
    fn checks(&self, account_only: bool) -> Vec<String> {
        if !account_only || !self.only.is_empty() {
            return self.only.clone();
        }
        let of_account = karpenter_doctor::checks().into_iter().filter(|check| check.scope == Scope::Account);
        of_account.map(|check| check.id.to_owned()).collect()
    }

    /// Returns the names of the cluster's prerequisites, cut as `bootstrap` cuts names.
    fn names(&self, cluster: &str) -> Names {
        let or = |name: &Option<String>, prefix, suffix, most| {
            name.clone().unwrap_or_else(|| bounded(prefix, cluster, suffix, most))
        };
        Names {
            node_role: or(&self.node_role_name, "KarpenterNodeRole-", "", ROLE_NAME_MAX),
            controller_role: or(&self.controller_role_name, "", "-karpenter", ROLE_NAME_MAX),
            queue: or(&self.queue_name, "", "", QUEUE_NAME_MAX),
        }
    }
}

/// Examines, and repairs if the flag is set.
///
/// # Errors
/// Besides what goes wrong: a check that does not exist, because a report without it would look healthy.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    known(&arguments.only)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(examine(arguments))?;
    let text = match arguments.output {
        Output::Text => show::text(&report),
        Output::Json => json(&report)?,
    };
    print(&text)?;
    Ok(exit_code(report.health()))
}

/// Refuses ids that no check has.
fn known(only: &[String]) -> Result<()> {
    let checks = karpenter_doctor::checks();
    match only.iter().find(|id| !checks.iter().any(|check| check.is_called(id))) {
        Some(id) => bail!("there is no check `{id}` for --only to run; docs/doctor.md lists all of them"),
        None => Ok(()),
    }
}

fn exit_code(health: Health) -> ExitCode {
    ExitCode::from(match health {
        Health::Healthy => 0,
        Health::Unhealthy => 2,
        Health::Unknown => 3,
    })
}

async fn examine(arguments: &Arguments) -> Result<Report> {
    if let Some(folder) = &arguments.from {
        let facts = import(folder)?;
        return Ok(diagnose(&facts, &arguments.checks(facts.is_of_account_only())));
    }
    let name = arguments.cluster_name.as_deref().context("--cluster-name is missing")?;
    let (connections, silence, doubt) = reach(arguments, name).await;
    if let Some(warning) = kubeconfig::warning(doubt.as_deref(), name, arguments.fix)? {
        std::io::stderr().write_all(warning.as_bytes()).context("cannot write to standard error")?;
    }
    let only = arguments.checks(arguments.account_only);
    let names = arguments.names(name);
    let mut facts = ask(name, &names, &connections, &silence).await;
    let mut report = diagnose(&facts, &only);
    if arguments.fix {
        let said = carry_out(&report, &connections, !arguments.only.is_empty()).await;
        std::io::stderr().write_all(said.concat().as_bytes()).context("cannot write to standard error")?;
        if !said.is_empty() {
            facts = ask(name, &names, &connections, &silence).await;
            report = diagnose(&facts, &only);
        }
    }
    if let Some(folder) = &arguments.export {
        export(&facts, folder)?;
    }
    Ok(report)
}

/// Reasons why there is no client to ask.
struct Silence {
    /// `None`: it was not to be asked.
    cluster: Option<String>,
    account: String,
}

/// Clients of the servers that answer a first question, and why the API server may not be that of `name`.
async fn reach(arguments: &Arguments, name: &str) -> (Connections, Silence, Option<String>) {
    let mut connections = Connections::default();
    let mut silence = Silence { cluster: None, account: String::new() };
    let mut config = None;
    if !arguments.account_only {
        match in_time(reach_cluster()).await {
            Ok((client, used)) => (connections.kubernetes, config) = (Some(client), Some(used)),
            Err(error) => silence.cluster = Some(format!("cannot reach the API server: {error:#}")),
        }
    }
    match in_time(reach_account(arguments)).await {
        Ok(clients) => connections.aws = Some(clients),
        Err(error) => silence.account = format!("cannot reach AWS: {error:#}"),
    }
    let account = connections.aws.as_ref().ok_or(silence.account.as_str());
    let doubt = match &config {
        Some(config) => kubeconfig::doubt(config, name, account).await,
        None => None,
    };
    (connections, silence, doubt)
}

async fn in_time<T>(question: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(FIRST_ANSWER, question)
        .await
        .unwrap_or_else(|_| Err(anyhow::anyhow!("no answer within {FIRST_ANSWER:?}")))
}

async fn reach_cluster() -> Result<(kube::Client, kube::Config)> {
    let config = api_server::config().await?;
    let client = kube::Client::try_from(config.clone())?;
    client.apiserver_version().await?;
    Ok((client, config))
}

async fn reach_account(arguments: &Arguments) -> Result<Clients> {
    let config = sdk::Config {
        region: arguments.region.clone(),
        endpoint_url: arguments.endpoint_url.clone(),
        ..sdk::Config::default()
    };
    let clients = sdk::connect(config).await?;
    clients.sts.get_caller_identity().await?;
    Ok(clients)
}

async fn ask(name: &str, names: &Names, connections: &Connections, silence: &Silence) -> Facts {
    let mut facts = Facts::new(name, names.clone(), WallClock.now());
    facts.cluster = match (&connections.kubernetes, &silence.cluster) {
        (Some(client), _) => gather::cluster(client).await,
        (None, Some(why)) => unseen(why),
        (None, None) => Cluster::default(),
    };
    facts.account = match &connections.aws {
        Some(clients) => gather::account(clients, &facts).await,
        None => unseen::<Account>(&silence.account),
    };
    facts
}

/// Carries out the repairs of the report; a line for each, also for those that failed. What is not as it is advised to be
/// may be so on purpose: it is only changed where the check was `named`.
async fn carry_out(report: &Report, connections: &Connections, named: bool) -> Vec<String> {
    let stamp = WallClock.now().to_string();
    let findings = report.findings.iter().filter(|finding| named || finding.severity > Severity::Advice);
    let evidence = findings.flat_map(|finding| &finding.evidence);
    let mut said = Vec::new();
    for wanted in evidence.filter_map(|evidence| evidence.repair.as_ref()) {
        said.push(match repair(connections, wanted, &stamp).await {
            Ok(()) => format!("fixed: {wanted}\n"),
            Err(error) => format!("not fixed: {:#}\n", anyhow::Error::new(error)),
        });
    }
    said
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use karpenter_aws_sim::{Account, Fault, Options};
    use karpenter_doctor::facts::Objects;

    use super::*;

    #[derive(Parser)]
    struct Parsed {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(arguments: &[&str]) -> Result<Arguments, clap::Error> {
        Parsed::try_parse_from(std::iter::once("doctor").chain(arguments.iter().copied()))
            .map(|parsed| parsed.arguments)
    }

    fn names() -> Names {
        parse(&["--cluster-name", "demo"]).unwrap().names("demo")
    }

    #[test]
    fn a_check_that_does_not_exist_is_no_healthy_one() {
        let ids = |ids: &str| known(&parse(&["--cluster-name", "demo", "--only", ids]).unwrap().only);
        assert!(ids("D-06,p-16").is_ok());
        assert!(ids("D-06,D-999").unwrap_err().to_string().contains("`D-999`"));
    }

    #[test]
    fn names_are_cut_as_bootstrap_cuts_them_unless_given() {
        let cluster = "c".repeat(60);
        let settings = karpenter_bootstrap::Settings::new(
            &cluster,
            "eu-west-1",
            "123456789012",
            karpenter_aws_api::Partition::of_region("eu-west-1"),
        );
        let names = parse(&["--cluster-name", &cluster]).unwrap().names(&cluster);
        assert_eq!(names.node_role, settings.node_role());
        assert_eq!(names.controller_role, settings.controller_role());
        assert_eq!(names.queue, settings.queue());
        assert!(names.node_role.len() == 64 && names.controller_role.len() == 64, "{names:?}");
        let given = ["--node-role-name", "n", "--controller-role-name", "c", "--queue-name", "q"];
        let given = parse(&[&["--cluster-name", "demo"][..], &given].concat()).unwrap().names("demo");
        assert_eq!([given.node_role, given.controller_role, given.queue], ["n", "c", "q"]);
    }

    #[tokio::test]
    async fn advice_is_only_carried_out_when_its_check_is_named() {
        let options = Options { spot_service_linked_role: false, ..Options::default() };
        let account = Account::new(options);
        let connections = Connections { aws: Some(account.clients()), kubernetes: None };
        let silence = Silence { cluster: None, account: String::new() };
        let mut facts = ask("demo", &names(), &connections, &silence).await;
        // There is a cluster, and no NodePool in it yet.
        facts.cluster.node_pools = karpenter_doctor::facts::Answer::Seen(Objects::default());
        let report = diagnose(&facts, &["P-16".to_owned()]);
        assert_eq!(report.findings[0].severity, Severity::Advice);
        assert_eq!(carry_out(&report, &connections, false).await, Vec::<String>::new());
        assert_eq!(carry_out(&report, &connections, true).await.len(), 1);
    }

    #[test]
    fn a_folder_needs_no_cluster_and_cannot_be_repaired() {
        assert!(parse(&["--from", "facts"]).is_ok());
        assert!(parse(&["--from", "facts", "--fix"]).is_err());
        assert!(parse(&["--from", "facts", "--account-only"]).is_err());
        let some = parse(&["--cluster-name", "demo", "--only", "D-06,P-16"]).unwrap();
        assert_eq!(some.only, ["D-06", "P-16"]);
    }

    #[test]
    fn before_an_installation_only_the_account_is_examined() {
        let arguments = parse(&["--cluster-name", "demo", "--account-only"]).unwrap();
        let ids = arguments.checks(arguments.account_only);
        assert!(ids.contains(&"P-16".to_owned()) && !ids.contains(&"D-06".to_owned()));
        let some = parse(&["--cluster-name", "demo", "--account-only", "--only", "P-5"]).unwrap();
        assert_eq!(some.checks(some.account_only), ["P-5"]);
    }

    #[tokio::test]
    async fn exported_facts_are_looked_at_without_asking_anybody() {
        let folder = tempfile::tempdir().unwrap();
        let mut facts = Facts::new("demo", names(), WallClock.now());
        facts.cluster = unseen("no kubeconfig");
        facts.account.spot_role = karpenter_doctor::facts::Answer::Seen(false);
        export(&facts, folder.path()).unwrap();
        let arguments = parse(&["--from", folder.path().to_str().unwrap()]).unwrap();
        let report = examine(&arguments).await.unwrap();
        assert_eq!(report.findings.iter().map(|finding| finding.id).collect::<Vec<_>>(), ["P-16"]);
        assert_eq!(report.health(), Health::Unhealthy);
        let arguments = parse(&["--from", "/does/not/exist"]).unwrap();
        assert!(examine(&arguments).await.is_err());
    }

    #[tokio::test]
    async fn an_account_exported_before_an_installation_is_healthy_without_a_cluster() {
        let account = Account::new(Options::default());
        let connections = Connections { aws: Some(account.clients()), kubernetes: None };
        let silence = Silence { cluster: None, account: String::new() };
        let folder = tempfile::tempdir().unwrap();
        export(&ask("demo", &names(), &connections, &silence).await, folder.path()).unwrap();
        let from = parse(&["--from", folder.path().to_str().unwrap()]).unwrap();
        let report = examine(&from).await.unwrap();
        assert_eq!((report.health(), &report.unseen), (Health::Healthy, &vec![]), "{:#?}", report.findings);
        let of_account = karpenter_doctor::checks().into_iter().filter(|check| check.scope == Scope::Account);
        assert_eq!(report.passed.len(), of_account.count());
    }

    #[tokio::test]
    async fn a_fix_that_is_refused_is_told_and_one_that_works_leaves_nothing_to_find() {
        let options = Options { spot_service_linked_role: false, ..Options::default() };
        let account = Account::new(options);
        account.inject(Fault::fail("CreateServiceLinkedRole", "AccessDenied").times(1));
        let connections = Connections { aws: Some(account.clients()), kubernetes: None };
        let silence = Silence { cluster: None, account: String::new() };
        let only = ["P-16".to_owned()];
        let mut reports = Vec::new();
        for _ in 0..3 {
            let report = diagnose(&ask("demo", &names(), &connections, &silence).await, &only);
            let said = carry_out(&report, &connections, true).await.concat();
            reports.push((report.health(), said));
        }
        assert!(reports[0].1.starts_with("not fixed: cannot create the service-linked role for spot: "));
        assert!(reports[0].1.contains("AccessDenied"), "{}", reports[0].1);
        let fixed = "fixed: create the service-linked role for spot\n".to_owned();
        assert_eq!(reports[1], (Health::Unhealthy, fixed));
        assert_eq!(reports[2], (Health::Healthy, String::new()));
    }

    #[tokio::test]
    async fn who_does_not_answer_is_told_and_never_taken_for_healthy() {
        let silence =
            Silence { cluster: Some("no kubeconfig".to_owned()), account: "no credentials".to_owned() };
        let report = diagnose(&ask("demo", &names(), &Connections::default(), &silence).await, &[]);
        assert_eq!(report.health(), Health::Unknown);
        let reasons: Vec<_> = report.unseen_by_reason().into_keys().collect();
        assert_eq!(reasons, ["no credentials", "no kubeconfig"]);
    }
}
