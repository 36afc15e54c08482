//! `--via cloudformation`: the life of the stack, from every status it can be found in.

use karpenter_aws_api::Tags;
use std::collections::BTreeSet;

use karpenter_aws_api::cloudformation::{ChangeSetSpec, Stack, TEMPLATE_BODY_MAX};
use karpenter_aws_sim::Fault;
use karpenter_bootstrap::desired::Desired;
use karpenter_bootstrap::destroy::InUse;
use karpenter_bootstrap::observe::{Observed, observe_remains};
use karpenter_bootstrap::permissions::{Action, required_for_stack};
use karpenter_bootstrap::policy::Document;
use karpenter_bootstrap::settings::Removable;
use karpenter_bootstrap::stack::Target;
use karpenter_bootstrap::stack::look::{self, Plan};
use karpenter_bootstrap::stack::run::{self, Progress};
use karpenter_bootstrap::{Error, leftovers, show, stack};

use crate::account::Fixture;
use crate::leftovers::{end, launch_machine, make_profile};

const NAME: &str = "Karpenter-demo";

impl Fixture {
    fn target<'a>(&'a self, desired: &'a Desired, observed: &'a Observed) -> Target<'a> {
        Target { clients: &self.clients, settings: &self.settings, desired, observed, name: NAME }
    }

    async fn plan_stack(&self) -> Result<Plan, Error> {
        let seen = self.look().await?;
        look::plan(self.target(&seen.desired, &seen.observed)).await
    }

    /// Applies; the progress, a line for each step.
    async fn apply_stack(&self) -> (Result<bool, Error>, Vec<String>) {
        let mut told = Vec::new();
        let outcome = match self.look().await {
            Ok(seen) => {
                let mut tell = |progress: Progress<'_>| told.push(line(progress));
                run::apply(self.target(&seen.desired, &seen.observed), &mut tell).await
            }
            Err(error) => Err(error),
        };
        (outcome, told)
    }

    async fn destroy_stack(&self) -> Result<bool, Error> {
        let (desired, observed) = observe_remains(&self.clients, &self.settings).await?;
        let left = leftovers::observe(&self.clients, &self.settings).await?;
        run::destroy(self.target(&desired, &observed), &left, InUse::Refuse, &mut |_| {}).await
    }

    async fn status(&self) -> Option<Stack> {
        stack::find(&self.clients, &self.settings, NAME).await.unwrap()
    }

    /// A stack of this cluster that was left like this.
    fn leave(&self, status: &str) {
        self.leave_for(status, Some("demo"));
    }

    fn leave_for(&self, status: &str, cluster: Option<&str>) {
        let named = cluster.map(|cluster| ("ClusterName", cluster));
        self.leave_with(
            status,
            named.into_iter().chain(named.map(|_| ("ControllerIdentity", "PodIdentity"))),
        );
    }

    fn leave_with<'a>(&self, status: &str, parameters: impl IntoIterator<Item = (&'a str, &'a str)>) {
        self.account.put_stack(Stack {
            id: format!("arn:aws:cloudformation:us-west-2:123456789012:stack/{NAME}/old").as_str().into(),
            name: NAME.to_owned(),
            status: status.to_owned(),
            reason: None,
            parameters: parameters
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            outputs: Tags::new(),
            tags: Tags::new(),
        });
    }
}

fn line(progress: Progress<'_>) -> String {
    match progress {
        Progress::Doing(what) => what,
        Progress::Event(event) => format!("{} {}", event.status, event.logical_id),
        Progress::Done(step) => step.sentence(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_shows_the_change_set_and_leaves_nothing_behind() {
    let fixture = Fixture::fresh().await;
    let plan = fixture.plan_stack().await.unwrap();
    let text = show::stack_text(&plan);
    for expected in [
        "stack Karpenter-demo\n",
        "  + stack resource NodeRole: AWS::IAM::Role\n",
        "  + stack resource InterruptionQueue: AWS::SQS::Queue\n",
        "tag karpenter.sh/bootstrap=demo, karpenter.sh/discovery=demo",
    ] {
        assert!(text.contains(expected), "no `{expected}` in\n{text}");
    }
    let json: serde_json::Value = serde_json::to_value(show::shown_stack(&plan)).unwrap();
    assert_eq!(json["stack"], NAME);
    assert_eq!(json["steps"].as_array().unwrap().len(), plan.lines().len());
    assert_eq!(fixture.account.waiting_change_sets(), 0);
    assert_eq!(fixture.status().await, None, "the stack that was made for the plan is gone");
    assert_eq!(fixture.account.calls().count("ExecuteChangeSet"), 0);
    assert_eq!(fixture.account.calls().count("CreateRole"), 0);
}

/// Another client has made a change set for the stack, and executes it once it is approved: until then the stack holds
/// nothing and has no parameters.
#[tokio::test(start_paused = true)]
async fn a_plan_leaves_the_change_set_of_another_client() {
    let fixture = Fixture::fresh().await;
    let theirs = ChangeSetSpec {
        stack: NAME.to_owned(),
        name: "waits-for-approval".to_owned(),
        creates: true,
        template: karpenter_bootstrap::render::cloudformation::template(),
        parameters: Tags::from([("ClusterName".to_owned(), "demo".to_owned())]),
        tags: Tags::new(),
    };
    let id = fixture.clients.cloudformation.create_change_set(&theirs).await.unwrap();
    let before = fixture.status().await.unwrap();
    assert_eq!(before.status, "REVIEW_IN_PROGRESS");
    let plan = fixture.plan_stack().await.unwrap();
    assert!(!plan.changes.is_empty());
    assert_eq!(fixture.account.calls().count("DeleteStack"), 0);
    assert_eq!(fixture.status().await, Some(before));
    assert_eq!(fixture.account.waiting_change_sets(), 1, "the plan's own is deleted");
    fixture.clients.cloudformation.describe_change_set(&id).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn applied_twice_planned_changed_and_taken_back() {
    let mut fixture = Fixture::fresh().await;
    let (outcome, told) = fixture.apply_stack().await;
    assert!(outcome.unwrap());
    for expected in ["CREATE_COMPLETE InterruptionQueue", "CREATE_COMPLETE Karpenter-demo"] {
        assert!(told.iter().any(|line| line == expected), "no `{expected}` in {told:#?}");
    }
    let stack = fixture.status().await.unwrap();
    assert_eq!(stack.parameters["ClusterName"], "demo");
    assert_eq!(stack.parameters["SpotServiceLinkedRole"], "true", "the account had none");
    assert_eq!(stack.tags, Tags::from([("eks:eks-cluster-name".to_owned(), "demo".to_owned())]));

    let (outcome, told) = fixture.apply_stack().await;
    assert!(!outcome.unwrap(), "{told:?}");
    assert_eq!(told, Vec::<String>::new());
    assert!(fixture.plan_stack().await.unwrap().is_empty());
    assert_eq!(fixture.account.waiting_change_sets(), 0);

    fixture.settings.zonal_shift = true;
    let plan = fixture.plan_stack().await.unwrap();
    assert!(!plan.is_empty() && plan.changes.iter().all(|change| change.action == "Modify"), "{plan:?}");
    assert!(fixture.apply_stack().await.0.unwrap());
    assert_eq!(fixture.status().await.unwrap().parameters["ZonalShift"], "true");

    fixture.settings.tags.insert("team".to_owned(), "platform".to_owned());
    assert!(fixture.apply_stack().await.0.unwrap());
    assert_eq!(fixture.status().await.unwrap().tags["team"], "platform");

    assert!(fixture.destroy_stack().await.unwrap());
    assert_eq!(fixture.status().await, None);
    assert!(!fixture.destroy_stack().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn apply_goes_on_from_any_status() {
    for (status, expected) in [
        ("REVIEW_IN_PROGRESS", "create stack `Karpenter-demo`"),
        ("CREATE_FAILED", "delete what is left of a creation that failed"),
        ("ROLLBACK_COMPLETE", "delete what is left of a creation that failed"),
        ("ROLLBACK_FAILED", "delete what is left of a creation that failed"),
        ("DELETE_FAILED", "delete what is left of it"),
        ("UPDATE_ROLLBACK_FAILED", "continue the rollback of a change that failed"),
        ("UPDATE_ROLLBACK_COMPLETE", "change stack `Karpenter-demo`"),
        ("CREATE_COMPLETE", "change stack `Karpenter-demo`"),
        ("UPDATE_FAILED", "change stack `Karpenter-demo`"),
    ] {
        let fixture = Fixture::fresh().await;
        fixture.leave_for(status, (status != "REVIEW_IN_PROGRESS").then_some("demo"));
        let planned = fixture.plan_stack().await.unwrap();
        assert!(!planned.is_empty(), "{status}");
        let fixture = Fixture::fresh().await;
        fixture.leave_for(status, (status != "REVIEW_IN_PROGRESS").then_some("demo"));
        let (outcome, told) = fixture.apply_stack().await;
        assert!(outcome.unwrap_or_else(|error| panic!("{status}: {error}")), "{status}");
        assert!(told.iter().any(|line| line.contains(expected)), "{status}: no `{expected}` in {told:#?}");
        assert!(fixture.plan_stack().await.unwrap().is_empty(), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_somebody_works_on_is_waited_for_and_then_given_up_on() {
    let fixture = Fixture::fresh().await;
    fixture.leave("UPDATE_IN_PROGRESS");
    let plan = fixture.plan_stack().await.unwrap();
    assert!(show::stack_text(&plan).contains("~ stack Karpenter-demo: wait for what is being done to it"));
    let (outcome, told) = fixture.apply_stack().await;
    let error = outcome.unwrap_err();
    assert!(matches!(error, Error::StillBusy { .. }), "{error}");
    assert!(error.to_string().contains("still UPDATE_IN_PROGRESS; run the command again"), "{error}");
    assert!(told[0].contains("wait for what is being done to it"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_resource_is_named_and_the_next_run_goes_on() {
    let fixture = Fixture::fresh().await;
    fixture.account.refuse_next_stack_change("Resource of type AWS::IAM::Role already exists");
    let (outcome, told) = fixture.apply_stack().await;
    let error = outcome.unwrap_err().to_string();
    for part in [
        "cannot create stack `Karpenter-demo`",
        "ROLLBACK_COMPLETE",
        "already exists",
        "run the command again",
    ] {
        assert!(error.contains(part), "no `{part}` in {error}");
    }
    assert!(told.contains(&"ROLLBACK_COMPLETE Karpenter-demo".to_owned()), "{told:?}");
    let plan = fixture.plan_stack().await.unwrap();
    assert!(show::stack_text(&plan).contains("- stack Karpenter-demo: delete what is left"), "{plan:?}");
    assert!(fixture.apply_stack().await.0.unwrap());
    assert_eq!(fixture.status().await.unwrap().status, "CREATE_COMPLETE");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_fails_leaves_the_stack_as_it_was() {
    let mut fixture = Fixture::fresh().await;
    fixture.apply_stack().await.0.unwrap();
    fixture.settings.zonal_shift = true;
    fixture.account.refuse_next_stack_change("malformed policy");
    let error = fixture.apply_stack().await.0.unwrap_err().to_string();
    assert!(error.contains("cannot change stack") && error.contains("UPDATE_ROLLBACK_COMPLETE"), "{error}");
    assert_eq!(fixture.status().await.unwrap().parameters.get("ZonalShift"), None);
    assert!(fixture.apply_stack().await.0.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_said_and_can_be_repeated() {
    let fixture = Fixture::fresh().await;
    fixture.apply_stack().await.0.unwrap();
    fixture.account.refuse_next_stack_change("DeleteConflict: must detach all policies first");
    let error = fixture.destroy_stack().await.unwrap_err().to_string();
    for part in ["cannot delete stack", "DELETE_FAILED", "must detach all policies first"] {
        assert!(error.contains(part), "no `{part}` in {error}");
    }
    assert!(fixture.destroy_stack().await.unwrap());
    assert_eq!(fixture.status().await, None);
}

/// Each call failed in turn, as when the process dies there.
#[tokio::test(start_paused = true)]
async fn a_run_cut_short_at_any_call_is_continued_by_the_next() {
    for operation in [
        "DescribeStacks",
        "DeleteChangeSet",
        "CreateChangeSet",
        "DescribeChangeSet",
        "DescribeStackEvents",
        "ExecuteChangeSet",
        "CreateTags",
    ] {
        let fixture = Fixture::fresh().await;
        fixture.account.inject(Fault::fail(operation, "AccessDenied").times(1));
        let error = fixture.apply_stack().await.0.expect_err(operation);
        assert!(matches!(error, Error::Step { .. } | Error::Observe { .. }), "{operation}: {error}");
        fixture.apply_stack().await.0.unwrap_or_else(|error| panic!("{operation}: {error}"));
        assert!(fixture.plan_stack().await.unwrap().is_empty(), "{operation}");
    }
    for operation in ["CreateChangeSet", "ExecuteChangeSet"] {
        let fixture = Fixture::fresh().await;
        fixture.account.inject(Fault::lose_answer(operation).times(1));
        fixture.apply_stack().await.0.expect_err(operation);
        fixture.apply_stack().await.0.unwrap_or_else(|error| panic!("{operation}: {error}"));
        assert!(fixture.plan_stack().await.unwrap().is_empty(), "{operation}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_stack_of_another_cluster_or_template_is_left_alone() {
    for (cluster, expected) in
        [(Some("other"), "is that of cluster `other`"), (None, "was not made from this template")]
    {
        let fixture = Fixture::fresh().await;
        fixture.leave_for("CREATE_COMPLETE", cluster);
        for error in [
            fixture.plan_stack().await.unwrap_err(),
            fixture.apply_stack().await.0.unwrap_err(),
            fixture.destroy_stack().await.unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(text.contains(expected) && text.contains("--stack-name"), "{text}");
        }
        assert_eq!(fixture.account.calls().count("DeleteStack"), 0);
    }
}

/// The reference's template has this one parameter, and its documentation calls the stack as we do.
#[tokio::test(start_paused = true)]
async fn a_stack_of_the_references_template_is_left_alone() {
    let fixture = Fixture::fresh().await;
    fixture.leave_with("CREATE_COMPLETE", [("ClusterName", "demo")]);
    for error in [fixture.apply_stack().await.0.unwrap_err(), fixture.destroy_stack().await.unwrap_err()] {
        assert!(error.to_string().contains("was not made from this template"), "{error}");
    }
    for call in ["CreateChangeSet", "DeleteStack"] {
        assert_eq!(fixture.account.calls().count(call), 0, "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_boundary_and_a_key_stay_until_they_are_taken_off() {
    let mut fixture = Fixture::fresh().await;
    let given = [
        ("PermissionsBoundaryArn", "arn:aws:iam::123456789012:policy/b"),
        ("QueueKmsKeyArn", "arn:aws:kms:us-west-2:123456789012:key/k"),
    ];
    fixture.settings.permissions_boundary = Some(given[0].1.to_owned());
    fixture.settings.queue_kms_key = Some(given[1].1.to_owned());
    fixture.apply_stack().await.0.unwrap();
    fixture.settings.permissions_boundary = None;
    fixture.settings.queue_kms_key = None;
    assert!(!fixture.apply_stack().await.0.unwrap(), "nothing to change");
    let parameters = fixture.status().await.unwrap().parameters;
    for (name, value) in given {
        assert_eq!(parameters[name], value);
    }
    fixture.settings.take_off = [Removable::PermissionsBoundary, Removable::QueueKmsKey].into();
    assert!(fixture.apply_stack().await.0.unwrap());
    let parameters = fixture.status().await.unwrap().parameters;
    assert!(given.iter().all(|(name, _)| !parameters.contains_key(*name)), "{parameters:?}");
}

#[tokio::test(start_paused = true)]
async fn what_exists_outside_the_stack_is_in_the_way() {
    let fixture = Fixture::prepared().await;
    let plan = fixture.plan_stack().await.unwrap();
    assert!(plan.changes.is_empty() && plan.rest.conflicts.len() > 10, "{:?}", plan.rest.conflicts);
    assert!(
        plan.rest.conflicts[0].contains("`karpenter bootstrap destroy` first"),
        "{:?}",
        plan.rest.conflicts
    );
    let error = fixture.apply_stack().await.0.unwrap_err();
    assert!(matches!(error, Error::Conflicts(_)), "{error}");
    assert_eq!(fixture.account.calls().count("CreateChangeSet"), 0);
}

/// Deleting the stack would take the role away from the controller, and fail at the profile besides.
#[tokio::test(start_paused = true)]
async fn a_stack_stays_while_machines_run() {
    let fixture = Fixture::fresh().await;
    fixture.apply_stack().await.0.unwrap();
    let machine = launch_machine(&fixture).await;
    make_profile(&fixture, "karpenter-profile").await;
    let error = fixture.destroy_stack().await.unwrap_err().to_string();
    assert!(error.contains(machine.as_str()) && error.contains("karpenter-profile"), "{error}");
    assert_eq!(fixture.account.calls().count("DeleteStack"), 0);
    end(&fixture, machine).await;
    let (desired, observed) = observe_remains(&fixture.clients, &fixture.settings).await.unwrap();
    let left = leftovers::observe(&fixture.clients, &fixture.settings).await.unwrap();
    let target = fixture.target(&desired, &observed);
    let plan = look::removal(target, &left, InUse::Ignore).await.unwrap();
    let text = show::stack_text(&plan);
    assert!(
        text.contains("- instance profile karpenter-profile") && text.contains("Karpenter-demo"),
        "{text}"
    );
    assert!(run::destroy(target, &left, InUse::Ignore, &mut |_| {}).await.unwrap());
    assert!(fixture.status().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_wrong_parameter_is_refused_before_anything_is_done() {
    let fixture = Fixture::fresh().await;
    let text = "Parameter 'RulePrefix' failed to satisfy constraint";
    fixture.account.inject(Fault::fail("CreateChangeSet", "ValidationError").saying(text).times(1));
    let error = fixture.apply_stack().await.0.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        error.to_string().contains("make a change set for stack") && source.contains(text),
        "{error}: {source}"
    );
    assert_eq!(fixture.account.calls().count("ExecuteChangeSet"), 0);
}

/// Calls to `CloudFormation` are granted, and no more than these.
#[tokio::test(start_paused = true)]
async fn permissions_name_what_is_asked_of_cloudformation() {
    let asked = |fixture: &Fixture| -> BTreeSet<String> {
        let calls = fixture.account.calls().counts().into_keys();
        let stacks =
            calls.filter(|call| ["Stack", "ChangeSet", "Rollback"].iter().any(|part| call.contains(part)));
        stacks.map(|call| format!("cloudformation:{call}")).collect()
    };
    let granted = |fixture: &Fixture, action| -> BTreeSet<String> {
        let documents = required_for_stack(&fixture.settings, NAME, action);
        let mut statements = documents.into_iter().flat_map(|document| document.statements);
        let ours = statements.find(|statement| statement.sid == "UseStack").unwrap();
        let stack = format!("arn:aws:cloudformation:us-west-2:123456789012:stack/{NAME}/*");
        assert_eq!(ours.resources, [stack]);
        // Checked by AWS when a change set names tags.
        ours.actions.into_iter().filter(|action| action != "cloudformation:TagResource").collect()
    };
    let looked = Fixture::fresh().await;
    looked.plan_stack().await.unwrap();
    let missing: Vec<_> = asked(&looked).difference(&granted(&looked, Action::Look)).cloned().collect();
    assert_eq!(missing, Vec::<String>::new());

    let applied = Fixture::fresh().await;
    applied.leave("UPDATE_ROLLBACK_FAILED");
    applied.apply_stack().await.0.unwrap();
    applied.destroy_stack().await.unwrap();
    assert_eq!(asked(&applied), granted(&applied, Action::Apply));
    let documents = required_for_stack(&applied.settings, NAME, Action::Apply);
    let whole: String = documents.iter().map(Document::to_json).collect();
    for action in
        ["iam:CreateRole", "iam:DeleteRole", "sqs:CreateQueue", "sqs:DeleteQueue", "eks:CreateAccessEntry"]
    {
        assert!(
            whole.contains(&format!("\"{action}\"")),
            "a stack that fails takes back what it made: {action}"
        );
    }
}

#[test]
fn the_template_has_room_to_grow() {
    let size = karpenter_bootstrap::render::cloudformation::template().len();
    assert!(size <= TEMPLATE_BODY_MAX, "{size} bytes");
}
