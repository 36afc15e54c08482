//! The CloudFormation template: linted, deployed, compared, changed, deleted.

use anyhow::{Result, ensure};
use karpenter_e2e::account::control::Fault;
use karpenter_e2e::prepare::cache;

use super::inventory::python;
use super::{Fresh, REGION};

const STACK: &str = "Karpenter";
/// Exit code of `plan` when there is something to do.
const DIFFERENCES: i32 = 2;

fn template() -> String {
    cache::repository().join("cloudformation/karpenter.yaml").display().to_string()
}

/// Deploys the template, or deletes the stack.
async fn deploy(fresh: &Fresh, arguments: &[&str]) -> Result<String> {
    let endpoint = fresh.account.endpoint();
    let common = ["-m", "emulator.deploy", "--endpoint", endpoint, "--region", REGION, "--stack", STACK];
    python(&[&common, arguments].concat()).await
}

/// Plans, applies, compares, applies again, changes one setting and destroys, all through `--via cloudformation`.
async fn live(fresh: &mut Fresh, cluster: &str, roles: &[&str], flags: &[&str]) -> Result<()> {
    fresh.renew(cluster).await?;
    let expected = fresh.reference(roles, flags).await?;
    fresh.renew(cluster).await?;
    fresh.make_roles(roles).await?;
    let before = fresh.inventory().await?;
    let with = |action: &'static str, more: &[&'static str]| -> Vec<String> {
        let all = [&[action, "--via", "cloudformation"], more, flags].concat();
        all.into_iter().map(str::to_owned).collect()
    };
    let run = async |arguments: Vec<String>, code: i32| {
        fresh.bootstrap(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), code).await
    };

    let text = run(with("plan", &[]), DIFFERENCES).await?;
    ensure!(text.contains("+ stack resource InterruptionQueue: AWS::SQS::Queue"), "{text}");
    let differences = before.differences(&fresh.inventory().await?);
    ensure!(differences.is_empty(), "a plan changed something\n{}", differences.join("\n"));
    let text = run(with("apply", &[]), 0).await?;
    ensure!(text.contains("CREATE_COMPLETE") && text.contains("AWS::CloudFormation::Stack"), "{text}");
    let found = fresh.inventory().await?;
    let differences =
        expected.clone().without_tags_of_policies().differences(&found.without_tags_of_policies());
    ensure!(differences.is_empty(), "--via sdk | --via cloudformation\n{}", differences.join("\n"));
    let report = fresh.bootstrap(&[&["check"], flags].concat(), 0).await?;
    ensure!(report.contains("the account is ready"), "{report}");

    let text = run(with("apply", &[]), 0).await?;
    ensure!(text.contains("nothing to do"), "a second run changed something:\n{text}");
    let text = run(with("plan", &[]), 0).await?;
    ensure!(text.contains("nothing to do"), "{text}");
    // A tag reaches what exists.
    let text = run(with("plan", &["--tag", "changed=yes"]), DIFFERENCES).await?;
    ensure!(text.contains("~ stack resource ControllerRole: AWS::IAM::Role"), "{text}");
    run(with("apply", &["--tag", "changed=yes"]), 0).await?;
    let text = run(with("apply", &["--tag", "changed=yes"]), 0).await?;
    ensure!(text.contains("nothing to do"), "{text}");

    let text = run(with("destroy", &[]), 0).await?;
    ensure!(text.contains("DELETE_COMPLETE"), "{text}");
    let differences = before.differences(&fresh.inventory().await?.without_spot_role());
    ensure!(differences.is_empty(), "before | after the stack\n{}", differences.join("\n"));
    let text = run(with("destroy", &[]), 0).await?;
    ensure!(text.contains("nothing to do"), "{text}");
    Ok(())
}

/// A plain stack, one with every option, and one for the longest name that a cluster can have.
#[tokio::test(flavor = "multi_thread")]
async fn a_stack_is_what_bootstrap_makes() {
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
        "--extra-node-role",
        "arn:aws:iam::123456789012:role/gpu-nodes",
        "--extra-windows-node-role",
        "arn:aws:iam::123456789012:role/windows-nodes",
        "--extra-ssm-parameter",
        "arn:aws:ssm:us-west-2:123456789012:parameter/ami",
    ];
    let longest = "c".repeat(100);
    let cases: [(&str, &[&str], &[&str]); 3] =
        [("plain", &[], &[]), ("options", &["gpu-nodes", "windows-nodes"], &flags), (&longest, &[], &[])];
    let mut fresh = Fresh::start("plain").await.unwrap();
    for (cluster, roles, flags) in cases {
        let lived = live(&mut fresh, cluster, roles, flags).await;
        lived.unwrap_or_else(|error| panic!("cluster {cluster}, flags {flags:?}: {error:#}"));
    }
    fresh.account.stop().await.unwrap();
}

/// People deploy it with tools of their own, and the parameters that `render` prints.
#[tokio::test(flavor = "multi_thread")]
async fn the_template_deployed_by_other_tools_is_what_bootstrap_makes() {
    let mut fresh = Fresh::start("tools").await.unwrap();
    let expected = fresh.reference(&[], &[]).await.unwrap().with_what_cloudformation_can();
    fresh.renew("tools").await.unwrap();
    let printed = fresh.bootstrap(&["render", "cloudformation-parameters"], 0).await.unwrap();
    let mut parameters: Vec<&str> = printed.lines().collect();
    parameters.push("SpotServiceLinkedRole=true");
    let template = template();
    let arguments = [&["--template", template.as_str()], parameters.as_slice()].concat();

    let text = deploy(&fresh, &arguments).await.unwrap();
    assert!(text.ends_with("CREATE_COMPLETE\n"), "{text}");
    let found = fresh.inventory().await.unwrap().with_what_cloudformation_can();
    assert_eq!(expected.differences(&found), Vec::<String>::new(), "bootstrap | CloudFormation");
    let text = deploy(&fresh, &arguments).await.unwrap();
    assert!(text.ends_with("UNCHANGED\n"), "a second deployment changed something:\n{text}");
    let changed = [arguments.as_slice(), &["ZonalShift=true"]].concat();
    let text = deploy(&fresh, &changed).await.unwrap();
    assert!(text.ends_with("UPDATE_COMPLETE\n") && text.contains("IntegrationPolicy"), "{text}");
    deploy(&fresh, &["--delete"]).await.unwrap();
    fresh.account.stop().await.unwrap();
}

/// Each kind of resource refused in turn: the stack is taken back, the reason is printed, the next run goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_half_made_stack_is_taken_back_and_made_by_the_next_run() {
    let fresh = Fresh::start("half").await.unwrap();
    let before = fresh.inventory().await.unwrap();
    for action in [
        "CreateRole",
        "AttachRolePolicy",
        "CreatePolicy",
        "CreateInstanceProfile",
        "AddRoleToInstanceProfile",
        "CreateQueue",
        "PutRule",
        "PutTargets",
        "CreateAccessEntry",
        "CreatePodIdentityAssociation",
    ] {
        fresh.account.control().fail(&Fault::new(action, "LimitExceeded", 1)).await.unwrap();
        let text = fresh.bootstrap(&["apply", "--via", "cloudformation"], 1).await.unwrap();
        for part in
            ["LimitExceeded", "CREATE_FAILED", "it ended as ROLLBACK_COMPLETE", "run the command again"]
        {
            assert!(text.contains(part), "{action}: no `{part}` in\n{text}");
        }
        let found = fresh.inventory().await.unwrap().without_spot_role();
        assert_eq!(before.differences(&found), Vec::<String>::new(), "{action}");
    }
    let text = fresh.bootstrap(&["apply", "--via", "cloudformation"], 0).await.unwrap();
    assert!(text.contains("delete what is left of a creation that failed"), "{text}");
    fresh.bootstrap(&["check"], 0).await.unwrap();
    fresh.account.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_that_is_refused_takes_the_stack_back() {
    let fresh = Fresh::start("refused").await.unwrap();
    let before = fresh.inventory().await.unwrap();
    let template = template();
    // No such role: the access entry and the profile name nothing that exists.
    let nobody = "ExistingNodeRoleArn=arn:aws:iam::123456789012:role/missing";
    let arguments = ["--template", template.as_str(), "ClusterName=refused", nobody, "NodeRoleName=missing"];
    let error = deploy(&fresh, &arguments).await.unwrap_err().to_string();
    assert!(error.contains("CREATE_FAILED") && error.contains("ROLLBACK_COMPLETE"), "{error}");
    assert_eq!(before.differences(&fresh.inventory().await.unwrap()), Vec::<String>::new());

    let error = deploy(&fresh, &arguments).await.unwrap_err().to_string();
    assert!(error.contains("is in ROLLBACK_COMPLETE state and can not be updated"), "{error}");
    deploy(&fresh, &["--delete"]).await.unwrap();

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
