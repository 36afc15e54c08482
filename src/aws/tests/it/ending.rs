//! Many machines that end together, and some of them for which EC2 has another answer.

use std::time::Duration;

use futures::future::join_all;
use karpenter_aws_api::ec2::InstanceState;
use karpenter_aws_sim::{Fault, Options};
use karpenter_cloud::{Instance, Kind, LaunchRequest, Provider, Read, Result, Termination};
use karpenter_model::ProviderId;

use crate::world::{World, on_demand};

/// Launches this number of machines, and begins to count calls.
async fn machines(world: &World, count: usize) -> Vec<Instance> {
    let mut machines = Vec::new();
    for number in 0..count {
        machines.push(world.provider.launch(&on_demand(&format!("web-{number}"))).await.expect("launches"));
    }
    world.settle();
    world.account.forget_calls();
    machines
}

async fn terminate(world: &World, ids: impl IntoIterator<Item = &ProviderId>) -> Vec<Result<Termination>> {
    join_all(ids.into_iter().map(|id| world.provider.terminate(id))).await
}

fn ids(machines: &[Instance]) -> impl Iterator<Item = &ProviderId> {
    machines.iter().map(|machine| &machine.provider_id)
}

fn never_launched(like: &ProviderId, number: usize) -> ProviderId {
    let (zone, _) = like.as_str().rsplit_once('/').unwrap();
    format!("{zone}/i-{number:017x}").as_str().into()
}

fn state(world: &World, machine: &Instance) -> InstanceState {
    let id = machine.instance_id.as_str();
    world.account.instances().into_iter().find(|one| one.id.as_str() == id).unwrap().state
}

#[tokio::test(start_paused = true)]
async fn machines_end_in_one_call_and_are_looked_at_in_one_call() {
    let world = World::new().await;
    let machines = machines(&world, 60).await;
    let begun = terminate(&world, ids(&machines)).await;
    assert!(begun.iter().all(|answer| *answer == Ok(Termination::Started)), "{begun:?}");
    let calls = world.account.calls();
    assert_eq!((calls.count("TerminateInstances"), calls.count("DescribeInstances")), (1, 0));
    for _ in 0..3 {
        world.clock.advance(Duration::from_secs(5));
        let again = terminate(&world, ids(&machines)).await;
        assert!(again.iter().all(|answer| *answer == Ok(Termination::Started)), "{again:?}");
    }
    let calls = world.account.calls();
    assert_eq!((calls.count("TerminateInstances"), calls.count("DescribeInstances")), (1, 3));
    world.settle();
    // The Node and the claim of each both ask.
    for _ in 0..2 {
        let gone = terminate(&world, ids(&machines)).await;
        // The first to ask takes the look that the others have the answer of.
        let gone = gone.into_iter().skip(1);
        assert!(gone.clone().all(|answer| answer.is_ok()));
        let again = terminate(&world, ids(&machines)).await;
        assert!(again.iter().all(|answer| *answer == Ok(Termination::AlreadyGone)), "{again:?}");
    }
    let calls = world.account.calls();
    assert_eq!((calls.count("TerminateInstances"), calls.count("DescribeInstances")), (1, 4));
}

#[tokio::test(start_paused = true)]
async fn reads_of_machines_on_their_way_out_are_answered_by_the_last_look() {
    let world = World::new().await;
    let machines = machines(&world, 30).await;
    terminate(&world, ids(&machines)).await;
    world.account.forget_calls();
    for _ in 0..3 {
        world.clock.advance(Duration::from_secs(5));
        for machine in &machines {
            let read =
                world.provider.instance(&machine.provider_id, Read::Consistent).await.expect("is read");
            assert_eq!(read.state, karpenter_cloud::InstanceState::ShuttingDown);
        }
    }
    assert_eq!(world.account.calls().count("DescribeInstances"), 3);
    world.settle();
    for machine in &machines {
        let read = world.provider.instance(&machine.provider_id, Read::Consistent).await;
        assert_eq!(read.expect_err("is gone").kind, Kind::NotFound);
    }
    assert_eq!(world.account.calls().count("DescribeInstances"), 4);
}

#[tokio::test(start_paused = true)]
async fn each_gets_its_own_answer_when_some_are_unknown_and_some_are_refused() {
    let world = World::new().await;
    let machines = machines(&world, 40).await;
    let (kept, ending) = machines.split_at(10);
    let protected = &ending[7];
    let protection =
        Fault::fail("TerminateInstances", "OperationNotPermitted").about(protected.instance_id.as_str());
    world.account.inject(protection.clone().saying("Modify its 'disableApiTermination' instance attribute"));
    let unknown: Vec<ProviderId> =
        (0..3).map(|number| never_launched(&kept[0].provider_id, number)).collect();
    let asked: Vec<&ProviderId> = ids(ending).chain(&unknown).collect();
    let answers = terminate(&world, asked.iter().copied()).await;
    for (id, answer) in asked.iter().zip(&answers) {
        if **id == protected.provider_id {
            let error = answer.as_ref().unwrap_err();
            assert!(error.to_string().contains("disableApiTermination"), "{error}");
        } else if unknown.contains(id) {
            assert_eq!(*answer, Ok(Termination::AlreadyGone), "{id}");
        } else {
            assert_eq!(*answer, Ok(Termination::Started), "{id}");
        }
    }
    for machine in kept.iter().chain([protected]) {
        assert_eq!(state(&world, machine), InstanceState::Running, "{}", machine.instance_id.as_str());
    }
    let calls = world.account.calls().count("TerminateInstances");
    assert!(calls <= 30, "{calls} calls for forty");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_an_error_for_all_of_them_and_asking_again_ends_nothing_twice() {
    let world = World::new().await;
    let machines = machines(&world, 20).await;
    world.account.inject(Fault::lose_answer("TerminateInstances").times(1));
    let lost = terminate(&world, ids(&machines)).await;
    assert!(lost.iter().all(|answer| answer.as_ref().is_err_and(|error| error.kind == Kind::Transient)));
    let again = terminate(&world, ids(&machines)).await;
    assert!(again.iter().all(|answer| *answer == Ok(Termination::Started)), "{again:?}");
    assert_eq!(world.account.calls().count("TerminateInstances"), 2);
}

#[tokio::test(start_paused = true)]
async fn throttling_is_the_answer_for_all_of_a_batch() {
    let world = World::new().await;
    let machines = machines(&world, 20).await;
    world.account.inject(Fault::fail("TerminateInstances", "RequestLimitExceeded").times(1));
    let refused = terminate(&world, ids(&machines)).await;
    assert!(refused.iter().all(|answer| answer.as_ref().is_err_and(|error| error.kind == Kind::Throttled)));
    assert_eq!(world.account.calls().count("TerminateInstances"), 1);
    assert!(machines.iter().all(|machine| state(&world, machine) == InstanceState::Running));
}

#[tokio::test(start_paused = true)]
async fn what_was_launched_moments_ago_is_not_taken_for_gone() {
    let options = Options { invisible_for: Duration::from_mins(2), zones: 2, ..Options::default() };
    let world = World::with(options, |_| {}).await;
    let machine = world.provider.launch(&on_demand("web-1")).await.expect("launches");
    // As EC2 may answer for as long as it does not see the machine everywhere.
    let unseen = Fault::fail("TerminateInstances", "InvalidInstanceID.NotFound").times(1);
    world.account.inject(unseen);
    let error = world.provider.terminate(&machine.provider_id).await.unwrap_err();
    assert_eq!(error.kind, Kind::Transient, "{error}");
    assert_eq!(world.provider.terminate(&machine.provider_id).await, Ok(Termination::Started));
}

#[tokio::test(start_paused = true)]
async fn what_iam_refuses_because_it_no_longer_exists_is_gone() {
    let world = World::new().await;
    let machines = machines(&world, 2).await;
    let gone = never_launched(&machines[0].provider_id, 1);
    world.account.inject(Fault::fail("TerminateInstances", "UnauthorizedOperation"));
    let answers = terminate(&world, [&machines[0].provider_id, &gone]).await;
    assert_eq!(answers[0].as_ref().unwrap_err().kind, Kind::Denied);
    assert_eq!(answers[1], Ok(Termination::AlreadyGone));
}

#[tokio::test(start_paused = true)]
async fn a_look_that_fails_for_one_says_what_is_known_of_the_others() {
    let world = World::new().await;
    let machines = machines(&world, 5).await;
    terminate(&world, ids(&machines)).await;
    world.clock.advance(Duration::from_secs(5));
    world.account.inject(Fault::fail("DescribeInstances", "RequestLimitExceeded").times(1));
    let answers = terminate(&world, ids(&machines)).await;
    assert_eq!(answers[0].as_ref().unwrap_err().kind, Kind::Throttled, "the one that took the look");
    assert!(answers[1..].iter().all(|answer| *answer == Ok(Termination::Started)), "{answers:?}");
    world.settle();
    assert_eq!(world.provider.terminate(&machines[0].provider_id).await, Ok(Termination::AlreadyGone));
}

#[tokio::test(start_paused = true)]
async fn reads_of_many_are_one_call_and_one_unknown_id_fails_no_other() {
    let world = World::new().await;
    let machines = machines(&world, 30).await;
    let unknown = never_launched(&machines[0].provider_id, 1);
    let asked = ids(&machines).chain([&unknown]);
    let read = join_all(asked.map(|id| world.provider.instance(id, Read::Consistent))).await;
    let (last, others) = read.split_last().unwrap();
    assert_eq!(last.as_ref().unwrap_err().kind, Kind::NotFound);
    for (machine, read) in machines.iter().zip(others) {
        assert_eq!(read.as_ref().unwrap().instance_id, machine.instance_id);
    }
    assert_eq!(world.account.calls().count("DescribeInstances"), 2);
}

#[tokio::test(start_paused = true)]
async fn names_are_written_one_by_one_and_what_is_the_same_for_many_in_one_call() {
    let world = World::new().await;
    let machines = machines(&world, 12).await;
    let ec2 = world.account.clients().ec2;
    let ids: Vec<String> = machines.iter().map(|one| one.instance_id.as_str().to_owned()).collect();
    // Named by their owner, and launched by a version that did not know the tag of the cluster.
    let mine = [("Name".to_owned(), "mine".to_owned())].into();
    ec2.create_tags(&ids[..8], &mine).await.unwrap();
    ec2.delete_tags(&ids[..8], &["eks:eks-cluster-name".to_owned()]).await.unwrap();
    world.account.forget_calls();
    let world = &world;
    let tag = |machine: Instance| async move {
        let (claim, id) = (machine.claim.clone().unwrap(), machine.provider_id);
        world.provider.tag(&id, &claim, &format!("node-of-{claim}").as_str().into()).await
    };
    let tagged = join_all(machines.into_iter().map(tag)).await;
    assert!(tagged.iter().all(Result::is_ok), "{tagged:?}");
    let calls = world.account.calls();
    assert_eq!(
        (calls.count("DescribeInstances"), calls.count("CreateTags")),
        (1, 1 + 4),
        "{:?}",
        calls.counts()
    );
    for instance in world.account.instances() {
        let claim = &instance.tags["karpenter.sh/nodeclaim"];
        let name = if ids[..8].contains(&instance.id.to_string()) {
            "mine".to_owned()
        } else {
            format!("node-of-{claim}")
        };
        assert_eq!(instance.tags["Name"], name);
        assert_eq!(instance.tags["eks:eks-cluster-name"], "demo");
    }
}

/// A claim made after the process has launched for a while.
fn of_now(world: &World, claim: &str) -> LaunchRequest {
    LaunchRequest { created_at: world.provider.now(), ..on_demand(claim) }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_looked_up_before_the_first_attempt_at_a_claim_of_this_process() {
    let world = World::new().await;
    // Claims from about the time this process began may have been launched by its predecessor.
    world.provider.launch(&of_now(&world, "first")).await.expect("launches");
    assert_eq!(world.account.calls().count("DescribeInstances"), 1);
    world.clock.advance(Duration::from_mins(2));
    world.account.forget_calls();
    let fresh = of_now(&world, "web-1");
    let launched = world.provider.launch(&fresh).await.expect("launches");
    assert_eq!(world.account.calls().count("DescribeInstances"), 0);
    // Asked again, it is the same machine.
    let same = world.provider.launch(&fresh).await.expect("launches");
    assert_eq!(same.provider_id, launched.provider_id);
    assert_eq!(world.account.calls().count("DescribeInstances"), 0);
    let second = LaunchRequest { attempt: 1, ..of_now(&world, "web-2") };
    world.provider.launch(&second).await.expect("launches");
    assert_eq!(world.account.calls().count("DescribeInstances"), 1);
    let old =
        LaunchRequest { created_at: world.provider.now() - Duration::from_hours(1), ..on_demand("old") };
    world.provider.launch(&old).await.expect("launches");
    assert_eq!(world.account.calls().count("DescribeInstances"), 2);
    assert_eq!(world.account.instances().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_answer_the_machine_is_found_though_the_request_has_changed() {
    let world = World::new().await;
    world.provider.launch(&of_now(&world, "first")).await.expect("launches");
    world.clock.advance(Duration::from_mins(2));
    let fresh = of_now(&world, "web-1");
    world.account.inject(Fault::lose_answer("CreateFleet").times(1));
    world.provider.launch(&fresh).await.expect_err("the answer is lost");
    // The token with other contents would be refused.
    let narrowed = LaunchRequest { instance_types: vec!["m5.large".into()], ..fresh };
    let found = world.provider.launch(&narrowed).await.expect("finds it");
    assert_eq!(found.claim.unwrap().as_str(), "web-1");
    assert_eq!(world.account.instances().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_was_given_up_midway_is_looked_up() {
    let world = World::new().await;
    world.provider.launch(&of_now(&world, "first")).await.expect("launches");
    world.clock.advance(Duration::from_mins(2));
    let fresh = of_now(&world, "web-1");
    world.account.inject(Fault::delay("CreateFleet", Duration::from_secs(1)).times(1));
    let given_up = tokio::time::timeout(Duration::from_millis(500), world.provider.launch(&fresh)).await;
    assert!(given_up.is_err());
    world.account.forget_calls();
    world.provider.launch(&fresh).await.expect("launches");
    assert_eq!(world.account.calls().count("DescribeInstances"), 1);
}

#[tokio::test(start_paused = true)]
async fn second_attempts_of_many_are_looked_up_together() {
    let world = World::new().await;
    let retries = (0..50).map(|number| LaunchRequest { attempt: 1, ..on_demand(&format!("web-{number}")) });
    let retries: Vec<LaunchRequest> = retries.collect();
    let launched = join_all(retries.iter().map(|retry| world.provider.launch(retry))).await;
    assert!(launched.iter().all(Result::is_ok));
    assert_eq!(world.account.calls().count("DescribeInstances"), 1);
    let again = retries.iter().map(|retry| LaunchRequest { attempt: 2, ..retry.clone() });
    let again: Vec<LaunchRequest> = again.collect();
    let adopted = join_all(again.iter().map(|retry| world.provider.launch(retry))).await;
    for (one, other) in launched.iter().zip(&adopted) {
        assert_eq!(one.as_ref().unwrap().provider_id, other.as_ref().unwrap().provider_id);
    }
    assert_eq!(world.account.instances().len(), 50);
}
