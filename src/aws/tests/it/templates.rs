//! Launch templates: made once, shared by launches, made again when another client deletes them, and swept.

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::ec2nodeclass::Ec2NodeClassSpec;
use karpenter_aws::launch::check::DryRunOutcome;
use karpenter_aws_api::ec2::TaggedKind;
use karpenter_aws_sim::{Fault, Options};
use karpenter_cloud::Provider;
use serde_json::json;

use crate::world::{World, on_demand, one_of, pool, request};

/// Deletes every template behind the provider's back.
async fn delete_all(world: &World) {
    let ec2 = world.account.clients().ec2;
    for template in ec2.describe_launch_templates(&Default::default()).await.unwrap() {
        ec2.delete_launch_template(&template.name).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn templates_are_made_once_swept_when_unused_and_made_again_when_lost() {
    let world = World::new().await;
    world.provider.launch(&on_demand("web-1")).await.expect("launches");
    world.provider.launch(&on_demand("web-2")).await.expect("launches");
    let made = world.account.calls().count("CreateLaunchTemplate");
    assert_eq!(made, 1, "both types have 29 pods and one image");
    let templates = world.account.clients().ec2.describe_launch_templates(&Default::default()).await.unwrap();
    world.account.clients().ec2.delete_launch_template(&templates[0].name).await.unwrap();
    world.provider.launch(&on_demand("web-3")).await.expect("recovers within one launch");
    assert_eq!(world.account.calls().count("CreateLaunchTemplate"), 2);
    assert_eq!(world.provider.templates.sweep().await, 0);
    world.clock.advance(Duration::from_secs(700));
    assert_eq!(world.provider.templates.sweep().await, 1);
    let left = world.account.clients().ec2.describe_launch_templates(&Default::default()).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn launches_with_a_known_template_go_on_while_nothing_can_be_learnt_about_templates() {
    let world = World::new().await;
    world.provider.launch(&on_demand("web-1")).await.expect("launches");
    for operation in ["CreateLaunchTemplate", "DescribeLaunchTemplates", "DeleteLaunchTemplate"] {
        world.account.inject(Fault::fail(operation, "ServiceUnavailable"));
    }
    world.account.forget_calls();
    for number in 2..20 {
        // More often than templates are forgotten.
        world.clock.advance(Duration::from_mins(5));
        world.provider.templates.sweep().await;
        world.provider.launch(&on_demand(&format!("web-{number}"))).await.expect("launches");
    }
    let calls = world.account.calls();
    assert_eq!(calls.count("CreateLaunchTemplate") + calls.count("DescribeLaunchTemplates"), 0);
}

#[tokio::test(start_paused = true)]
async fn launches_that_want_the_same_new_template_wait_for_one_call() {
    let world = World::new().await;
    world.account.inject(Fault::delay("CreateLaunchTemplate", Duration::from_secs(5)));
    let requests: Vec<_> = (1..20).map(|number| on_demand(&format!("web-{number}"))).collect();
    let launches = requests.iter().map(|request| world.provider.launch(request));
    for launch in futures::future::join_all(launches).await {
        launch.expect("launches");
    }
    assert_eq!(world.account.calls().count("CreateLaunchTemplate"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_template_that_is_deleted_under_launches_is_made_once_more_and_all_of_them_succeed() {
    let world = World::new().await;
    world.provider.launch(&on_demand("web-1")).await.expect("launches");
    let ec2 = world.account.clients().ec2;
    let templates = ec2.describe_launch_templates(&Default::default()).await.unwrap();
    world.account.inject(Fault::delay("CreateFleet", Duration::from_secs(5)).times(8));
    let requests: Vec<_> = (2..10).map(|number| on_demand(&format!("web-{number}"))).collect();
    let launches = futures::future::join_all(requests.iter().map(|request| world.provider.launch(request)));
    let deleted = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        ec2.delete_launch_template(&templates[0].name).await.unwrap();
    };
    let (launched, ()) = tokio::join!(launches, deleted);
    for launch in launched {
        launch.expect("recovers within the launch");
    }
    assert_eq!(world.account.calls().count("CreateLaunchTemplate"), 2, "once, and once more for all");
    assert_eq!(world.account.instances().len(), 9);
}

#[tokio::test(start_paused = true)]
async fn templates_of_an_earlier_process_expire_too() {
    let world = World::new().await;
    world.provider.launch(&on_demand("web-1")).await.expect("launches");
    let again = world.restarted().await;
    world.account.inject(Fault::fail("DescribeLaunchTemplates", "InternalError").times(1));
    again.templates.adopt().await.expect_err("nothing is known");
    assert_eq!(again.templates.adopt().await.expect("lists"), 1);
    let asked = world.account.calls().count("DescribeLaunchTemplates");
    assert_eq!(again.templates.adopt().await.expect("has listed"), 0);
    assert_eq!(world.account.calls().count("DescribeLaunchTemplates"), asked);
    world.clock.advance(Duration::from_secs(700));
    assert_eq!(again.templates.sweep().await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_cannot_make_its_lost_template_again_gives_its_addresses_back() {
    let world = World::new().await;
    world.provider.launch(&on_demand("web-1")).await.expect("launches");
    delete_all(&world).await;
    let free = || {
        let subnets = &world.class.status.as_ref().unwrap().subnets;
        let addresses = world.provider.subnets.addresses();
        subnets.iter().map(|subnet| addresses.free(&subnet.id.as_str().into())).collect::<Vec<_>>()
    };
    let before = free();
    world.account.inject(Fault::fail("CreateLaunchTemplate", "ServiceUnavailable").times(1));
    world.provider.launch(&on_demand("web-2")).await.expect_err("no template");
    assert_eq!(free(), before);
    world.provider.launch(&on_demand("web-2")).await.expect("launches");
}

#[tokio::test(start_paused = true)]
async fn a_trial_template_that_is_deleted_is_made_again_by_the_next_check() {
    let world = World::new().await;
    let types = world.provider.instance_types(&pool()).await.expect("lists");
    let check = async || world.provider.launcher().check(&world.class, &types, &[]).await;
    assert_eq!(check().await.expect("is clear"), DryRunOutcome::Passed);
    delete_all(&world).await;
    check().await.expect_err("says nothing about the node class");
    assert_eq!(check().await.expect("is clear"), DryRunOutcome::Passed);
}

/// aws#9018: a policy of the organisation may look at the request alone.
#[tokio::test(start_paused = true)]
async fn dry_runs_carry_the_metadata_options_volumes_and_interfaces_of_launches() {
    let world = World::new().await;
    let types = world.provider.instance_types(&pool()).await.expect("lists");
    world.provider.launcher().check(&world.class, &types, &[]).await.expect("is clear");
    let tried = world.account.dry_runs().remove(0);
    let (_, data) = world.account.launch_templates().remove(0);
    assert_eq!(tried.metadata, data.metadata);
    assert_eq!(tried.metadata.and_then(|options| options.http_tokens).as_deref(), Some("required"));
    assert_eq!(tried.block_devices, data.block_devices);
    assert!(!tried.block_devices.is_empty());
    let interfaces: Vec<_> = tried.interfaces.into_iter().map(|run| run.interface).collect();
    assert_eq!(interfaces, data.network_interfaces);
}

/// aws#9018: what a policy denies of one family or one way of buying, it may allow of another that pools ask for.
#[tokio::test(start_paused = true)]
async fn a_class_is_refused_only_when_nothing_that_its_pools_ask_for_is_allowed() {
    let bought = |ways: &[&str]| {
        let mut pool = pool();
        pool.template.requirements = [one_of("karpenter.sh/capacity-type", ways)].into_iter().collect();
        Arc::new(pool)
    };
    for (ways, denied, passes) in [
        (&["on-demand"][..], "as spot", true),
        (&["on-demand"], "as on-demand", false),
        (&["spot"], "as on-demand", true),
        (&["spot"], "as spot", false),
        (&["spot", "on-demand"], "as on-demand", true),
        (&["spot", "on-demand"], "as spot", true),
        (&["on-demand"], "dry run of c5.", true),
        (&["spot"], "dry run of m5.", true),
        (&["spot", "on-demand"], "dry run", false),
    ] {
        for operation in ["CreateFleet", "RunInstances"] {
            let world = World::new().await;
            let types = world.provider.instance_types(&pool()).await.expect("lists");
            world.account.inject(Fault::fail(operation, "UnauthorizedOperation").about(denied));
            let outcome = world.provider.launcher().check(&world.class, &types, &[bought(ways)]).await;
            let outcome = outcome.expect("is clear");
            assert_eq!(
                outcome == DryRunOutcome::Passed,
                passes,
                "{operation} {ways:?} {denied}: {outcome:?}"
            );
        }
    }
}

/// A policy may allow only certain tag keys, so what is tried must carry those of what will be launched.
#[tokio::test(start_paused = true)]
async fn dry_runs_carry_the_tag_keys_of_launches_and_templates_fewer() {
    let world = World::new().await;
    let types = world.provider.instance_types(&pool()).await.expect("lists");
    let passed = world.provider.launcher().check(&world.class, &types, &[]).await;
    assert_eq!(passed.expect("is clear"), DryRunOutcome::Passed);
    world.provider.launch(&on_demand("web-1")).await.expect("launches");
    let launched = world.account.instances().remove(0);
    let keys = launched.tags.keys().filter(|key| !key.starts_with("aws:")).collect::<Vec<_>>();
    assert!(launched.tags.contains_key("karpenter.sh/nodeclaim"), "{keys:?}");
    for operation in ["CreateFleet", "RunInstances"] {
        let tried = world.account.dry_run_tags(operation);
        for kind in [TaggedKind::Instance, TaggedKind::Volume] {
            let tags = tried.iter().find(|one| one.kind == kind).expect("is tagged");
            assert_eq!(tags.tags.keys().collect::<Vec<_>>(), keys, "{operation} {kind:?}");
        }
    }
    for (template, data) in world.account.launch_templates() {
        let tags = data.tags.iter().flat_map(|one| one.tags.keys());
        assert!(!tags.chain(template.tags.keys()).any(|key| key == "karpenter.sh/nodeclaim"));
    }
}

#[tokio::test(start_paused = true)]
async fn types_for_which_expressions_come_to_the_same_share_a_template() {
    // Of the two types one has twice the memory of the other, and both have two processors.
    for (memory, templates) in [("100 * vcpus + 99", 1), ("memory_mib / 10", 2)] {
        let edit = |spec: &mut Ec2NodeClassSpec| {
            let block = json!({"maxPods": "10 * vcpus", "kubeReserved": {"memory": memory}});
            spec.kubelet = Some(serde_json::from_value(block).unwrap());
        };
        let options = Options { zones: 2, ..Options::default() };
        let world = World::settled(options, edit, |settings| settings.gates.node_class_cel = true).await;
        world.provider.launch(&request("web-1")).await.expect("launches");
        let made = world.account.launch_templates();
        assert_eq!(made.len(), templates, "{memory}");
        for (_, data) in made {
            let user_data = data.user_data.expect("has user data").expose().to_owned();
            assert!(user_data.contains("maxPods: 20"), "{user_data}");
        }
    }
}
