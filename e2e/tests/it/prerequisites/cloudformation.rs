//! The CloudFormation template: linted, deployed, compared, changed, deleted.

use anyhow::{Context, Result, ensure};
use karpenter_e2e::prepare::cache;

use super::inventory::python;
use super::{Fresh, ONE_AT_A_TIME, REGION, reference};

const STACK: &str = "Karpenter";

fn template() -> String {
    cache::repository().join("cloudformation/karpenter.yaml").display().to_string()
}

/// Deploys the template, or deletes the stack.
async fn deploy(fresh: &Fresh, arguments: &[&str]) -> Result<String> {
    let endpoint = fresh.account.endpoint();
    let common = ["-m", "emulator.deploy", "--endpoint", endpoint, "--region", REGION, "--stack", STACK];
    python(&[&common, arguments].concat()).await
}

/// Deploys with the parameters `karpenter bootstrap render` prints for `flags`, compares, changes one parameter,
/// and deletes.
async fn live(cluster: &str, flags: &[&str]) -> Result<()> {
    let _turn = ONE_AT_A_TIME.lock().await;
    let expected = reference(cluster, flags).await?.as_cloudformation_can();
    let fresh = Fresh::start(cluster).await?;
    let before = fresh.inventory().await?;
    let render: Vec<&str> = ["render", "cloudformation-parameters"].iter().chain(flags).copied().collect();
    let printed = fresh.bootstrap(&render, 0).await?;
    let mut parameters: Vec<&str> = printed.lines().collect();
    parameters.push("SpotServiceLinkedRole=true");
    let template = template();
    let arguments = [&["--template", template.as_str()], parameters.as_slice()].concat();

    let text = deploy(&fresh, &arguments).await?;
    ensure!(text.ends_with("CREATE_COMPLETE\n"), "{text}");
    let differences = expected.differences(&fresh.inventory().await?.as_cloudformation_can());
    ensure!(differences.is_empty(), "bootstrap | CloudFormation\n{}", differences.join("\n"));
    let report = fresh.bootstrap(&[&["check"], flags].concat(), 0).await?;
    ensure!(report.contains("the account is ready"), "{report}");

    let text = deploy(&fresh, &arguments).await?;
    ensure!(text.ends_with("UNCHANGED\n"), "a second deployment changed something:\n{text}");
    let switched = if flags.contains(&"--zonal-shift") { "ZonalShift=false" } else { "ZonalShift=true" };
    let mut changed: Vec<&str> =
        arguments.iter().copied().filter(|argument| !argument.starts_with("ZonalShift")).collect();
    changed.push(switched);
    let text = deploy(&fresh, &changed).await?;
    ensure!(text.ends_with("UPDATE_COMPLETE\n") && text.contains("IntegrationPolicy"), "{text}");

    deploy(&fresh, &["--delete"]).await?;
    let differences = before.differences(&fresh.inventory().await?.without_spot_role());
    ensure!(differences.is_empty(), "before | after the stack\n{}", differences.join("\n"));
    fresh.account.stop().await.context("stop the account")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_stack_is_what_bootstrap_makes() {
    live("plain", &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_with_every_option_is_what_bootstrap_makes() {
    let key = "arn:aws:kms:us-west-2:123456789012:key/11111111-2222-3333-4444-555555555555";
    let flags = [
        "--iam-path",
        "/platform/karpenter/",
        "--windows",
        "--zonal-shift",
        "--queue-kms-key",
        key,
        "--queue-name",
        "interruptions",
        "--rule-prefix",
        "nodes",
        "--permissions-boundary",
        "arn:aws:iam::aws:policy/PowerUserAccess",
        "--extra-node-policy",
        "arn:aws:iam::aws:policy/AmazonEC2ReadOnlyAccess",
        "--extra-ssm-parameter",
        "arn:aws:ssm:us-west-2:123456789012:parameter/ami",
    ];
    live("options", &flags).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_for_the_longest_cluster_name_is_what_bootstrap_makes() {
    live(&"c".repeat(100), &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_that_is_refused_takes_the_stack_back() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let fresh = Fresh::start("refused").await.unwrap();
    let before = fresh.inventory().await.unwrap();
    let template = template();
    // No such role: the access entry and the profile have nobody to speak of.
    let nobody = "ExistingNodeRoleArn=arn:aws:iam::123456789012:role/nobody";
    let arguments = ["--template", template.as_str(), "ClusterName=refused", nobody, "NodeRoleName=nobody"];
    let error = deploy(&fresh, &arguments).await.unwrap_err().to_string();
    assert!(error.contains("CREATE_FAILED") && error.contains("ROLLBACK_COMPLETE"), "{error}");
    assert_eq!(before.differences(&fresh.inventory().await.unwrap()), Vec::<String>::new());

    let error = deploy(&fresh, &["--template", template.as_str()]).await.unwrap_err().to_string();
    assert!(error.contains("[ClusterName] must have values"), "{error}");
    let irsa = ["--template", template.as_str(), "ClusterName=refused", "ControllerIdentity=IRSA"];
    let error = deploy(&fresh, &irsa).await.unwrap_err().to_string();
    assert!(error.contains("ControllerIdentity IRSA needs OidcIssuer"), "{error}");
    fresh.account.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_template_passes_cfn_lint_in_every_partition() {
    let regions = ["us-east-1", "eu-west-1", "cn-north-1", "us-gov-west-1"];
    let lint = "import sys; from cfnlint.runner import main; sys.exit(main())";
    let mut arguments = vec!["-c", lint];
    arguments.extend(regions.iter().flat_map(|region| ["-r", region]));
    let template = template();
    arguments.extend(["--", template.as_str()]);
    python(&arguments).await.unwrap();
    let size = std::fs::metadata(template).unwrap().len();
    assert!(size < 51_200, "{size} bytes: CloudFormation takes no more without a bucket");
}
