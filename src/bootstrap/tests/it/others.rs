//! Accounts that the reference's getting-started made: ready as they are, never called ours, and taken over when that is
//! asked for.

use karpenter_aws_api::id::Arn;
use karpenter_aws_api::{Tags, eks};
use karpenter_aws_sim::examples;
use karpenter_bootstrap::Error;
use karpenter_bootstrap::aws_auth::{AwsAuth, Mapping};
use karpenter_bootstrap::check::State;
use karpenter_bootstrap::desired::{CLUSTER_TAG, OWNER_TAG, desired};
use karpenter_bootstrap::settings::Foreign;
use karpenter_bootstrap::stack::Target;
use karpenter_bootstrap::stack::look;

use crate::account::{Fixture, lines};

const NODE_ROLE: &str = "KarpenterNodeRole-demo";
const CONTROLLER_ROLE: &str = "demo-karpenter";
/// The stack of the reference's template tags what it makes; `eksctl` does, too.
const STACK: (&str, &str) = ("aws:cloudformation:stack-name", "Karpenter-demo");
const EKSCTL: (&str, &str) = ("alpha.eksctl.io/cluster-name", "demo");

fn tagged(tag: (&str, &str)) -> Tags {
    Tags::from([(tag.0.to_owned(), tag.1.to_owned())])
}

/// The node role and the queue of the stack, the controller's role of `eksctl` with six policies of the stack, and no
/// access entry, because the node role stands in `aws-auth`.
async fn getting_started() -> Fixture {
    let fixture = Fixture::prepared().await;
    let (iam, eks) = (&fixture.clients.iam, &fixture.clients.eks);
    let ours = [OWNER_TAG.to_owned(), CLUSTER_TAG.to_owned()];
    for (role, tag) in [(NODE_ROLE, STACK), (CONTROLLER_ROLE, EKSCTL)] {
        iam.untag_role(role, &ours).await.unwrap();
        iam.tag_role(role, &tagged(tag)).await.unwrap();
    }
    for (index, policy) in desired(&fixture.settings).policies.iter().enumerate() {
        let arn = Arn::from(policy.arn.as_str());
        iam.detach_role_policy(CONTROLLER_ROLE, &arn).await.unwrap();
        iam.delete_policy(&arn).await.unwrap();
        for statement in &policy.document.statements {
            let document = karpenter_bootstrap::policy::Document::of(vec![statement.clone()]);
            let name = format!("KarpenterController{index}{}-demo", statement.sid);
            let theirs = examples::policy(&name, &document.to_json());
            let arn = iam.create_policy(&theirs).await.unwrap().arn;
            // Six, as the reference has; the rest stands in the role itself, which is the other way to grant it.
            if iam.list_attached_role_policies(CONTROLLER_ROLE).await.unwrap().len() < 6 {
                iam.attach_role_policy(CONTROLLER_ROLE, &arn).await.unwrap();
            } else {
                assert!(fixture.account.put_role_policy(CONTROLLER_ROLE, &statement.sid, &theirs.document));
            }
        }
    }
    let profile = "KarpenterNodeInstanceProfile-demo";
    iam.remove_role_from_instance_profile(profile, NODE_ROLE).await.unwrap();
    iam.delete_instance_profile(profile).await.unwrap();
    let node = iam.get_role(NODE_ROLE).await.unwrap().arn;
    eks.delete_access_entry("demo", &node).await.unwrap();
    let association = eks.find_pod_identity_associations("demo", "kube-system", "karpenter").await.unwrap();
    eks.untag_resource(&association[0].arn, &ours).await.unwrap();
    let sqs = &fixture.clients.sqs;
    let url = sqs.get_queue_url("demo").await.unwrap();
    sqs.untag_queue(&url, &ours).await.unwrap();
    sqs.tag_queue(&url, &tagged(STACK)).await.unwrap();
    let events = &fixture.clients.events;
    for rule in desired(&fixture.settings).rules {
        let found = events.describe_rule(&rule.name).await.unwrap();
        let targets = events.list_targets(&rule.name).await.unwrap();
        let ids: Vec<_> = targets.iter().map(|target| target.id.clone()).collect();
        events.remove_targets(&rule.name, &ids).await.unwrap();
        events.delete_rule(&rule.name).await.unwrap();
        let theirs = karpenter_aws_api::events::RuleSpec {
            name: rule.name.replace("Karpenter-demo-", "Karpenter-demo-Rule-X1Y2"),
            description: String::new(),
            pattern: found.pattern.unwrap(),
            tags: Tags::new(),
        };
        events.put_rule(&theirs).await.unwrap();
        events.put_targets(&theirs.name, &targets).await.unwrap();
    }
    fixture
}

/// Returns the mapping that its `iamIdentityMappings` writes.
fn mapped() -> AwsAuth {
    AwsAuth::Read(vec![Mapping {
        role: format!("arn:aws:iam::123456789012:role/{NODE_ROLE}"),
        username: "system:node:{{EC2PrivateDNSName}}".to_owned(),
        groups: vec!["system:bootstrappers".to_owned(), "system:nodes".to_owned()],
    }])
}

#[tokio::test(start_paused = true)]
async fn the_account_of_the_getting_started_is_ready() {
    let fixture = getting_started().await;
    let report = fixture.check_with(&mapped()).await;
    assert!(report.findings.iter().all(|finding| finding.state == State::Ready), "{}", report.text());
    assert!(report.text().contains("may join by the ConfigMap aws-auth"), "{}", report.text());
}

/// Mappings in `aws-auth` count where EKS heeds it, and mappings that are not read are not guessed.
#[tokio::test(start_paused = true)]
async fn the_authentication_mode_decides_what_counts() {
    let fixture = getting_started().await;
    let unread = || AwsAuth::Unread("no kubeconfig".to_owned());
    let empty = || AwsAuth::Read(Vec::new());
    for (mode, auth, expected, word) in [
        (Some("API_AND_CONFIG_MAP"), mapped(), State::Ready, "aws-auth"),
        (Some("API_AND_CONFIG_MAP"), empty(), State::Missing, "create-access-entry"),
        (Some("API_AND_CONFIG_MAP"), unread(), State::Missing, "no kubeconfig"),
        (Some("API"), mapped(), State::Missing, "create-access-entry"),
        (Some("CONFIG_MAP"), mapped(), State::Ready, "aws-auth"),
        (Some("CONFIG_MAP"), empty(), State::Missing, "iamidentitymapping"),
        (Some("CONFIG_MAP"), unread(), State::Warning, "no kubeconfig"),
        (None, unread(), State::Warning, "no kubeconfig"),
    ] {
        let mut cluster = fixture.clients.eks.describe_cluster("demo").await.unwrap();
        cluster.authentication_mode = mode.map(str::to_owned);
        fixture.account.put_cluster(cluster);
        let report = fixture.check_with(&auth).await;
        let found = report.findings.iter().find(|finding| finding.check == "access-entry").unwrap();
        assert_eq!(found.state, expected, "{mode:?} {auth:?}");
        assert!(format!("{} {}", found.evidence, found.fix).contains(word), "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_made_is_called_theirs_and_check_is_named() {
    let fixture = getting_started().await;
    let plan = fixture.plan().await;
    let text = plan.conflicts.join("\n");
    assert!(
        text.contains("role `KarpenterNodeRole-demo`") && text.contains("stack `Karpenter-demo`"),
        "{text}"
    );
    assert!(text.contains("it is of eksctl") && !text.contains("bootstrap made"), "{text}");
    let notes = plan.notes.join("\n");
    assert!(notes.contains("`karpenter bootstrap check`") && notes.contains("--adopt"), "{notes}");
    let seen = fixture.look().await.unwrap();
    let target = Target {
        clients: &fixture.clients,
        settings: &fixture.settings,
        desired: &seen.desired,
        observed: &seen.observed,
        name: "Karpenter-rs-demo",
    };
    let text = look::plan(target).await.unwrap().rest.conflicts.join("\n");
    assert!(
        text.contains("delete stack `Karpenter-demo` first") && text.contains("bootstrap check"),
        "{text}"
    );
    assert!(!text.contains("bootstrap made"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn what_others_made_is_taken_over_when_that_is_asked_for() {
    let mut fixture = getting_started().await;
    assert!(matches!(fixture.apply().await, Err(Error::Conflicts(_))));
    fixture.settings.foreign = Foreign::Adopted;
    let plan = fixture.plan().await;
    assert_eq!(plan.conflicts, Vec::<String>::new());
    assert!(plan.notes.iter().any(|note| note.contains("DeletionPolicy: Retain")), "{:?}", plan.notes);
    assert!(
        lines(&plan).iter().any(|line| line.starts_with("change queue `demo` (tag")),
        "{:#?}",
        lines(&plan)
    );
    fixture.apply().await.unwrap();
    fixture.settings.foreign = Foreign::InTheWay;
    assert!(fixture.plan().await.is_empty(), "ours from now on, without the flag");
    fixture.destroy().await.unwrap();
    for role in [NODE_ROLE, CONTROLLER_ROLE] {
        assert!(fixture.clients.iam.get_role(role).await.is_err(), "{role}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_of_another_cluster_is_never_taken_over() {
    let mut fixture = Fixture::fresh().await;
    let tags = tagged((CLUSTER_TAG, "other"));
    fixture.clients.sqs.create_queue("demo", &Tags::new(), &tags).await.unwrap();
    let mut role = examples::role(NODE_ROLE);
    role.tags = tagged((OWNER_TAG, "other"));
    fixture.clients.iam.create_role(&role).await.unwrap();
    fixture.settings.foreign = Foreign::Adopted;
    let conflicts = fixture.plan().await.conflicts;
    assert_eq!(conflicts.len(), 2, "{conflicts:?}");
    assert!(conflicts.iter().all(|conflict| conflict.contains("it is of cluster `other`")), "{conflicts:?}");
}

/// An entry that serves as it is becomes ours as well, or `destroy` would leave it behind.
#[tokio::test(start_paused = true)]
async fn an_access_entry_of_the_right_type_is_taken_over_too() {
    let mut fixture = getting_started().await;
    let node = fixture.clients.iam.get_role(NODE_ROLE).await.unwrap().arn;
    let entry =
        eks::AccessEntrySpec { principal: node.clone(), kind: "EC2_LINUX".to_owned(), tags: Tags::new() };
    fixture.clients.eks.create_access_entry("demo", &entry).await.unwrap();
    fixture.settings.foreign = Foreign::Adopted;
    fixture.apply().await.unwrap();
    let found = fixture.clients.eks.describe_access_entry("demo", &node).await.unwrap();
    assert_eq!(found.tags.get(OWNER_TAG).map(String::as_str), Some("demo"));
}
