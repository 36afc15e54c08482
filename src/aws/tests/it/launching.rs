//! Launches: what is asked for, what is learnt from refusals, what a claim reports.

use std::time::Duration;

use karpenter_api::ec2nodeclass::AmiFamily;
use karpenter_aws::market::unavailable::FIRST;
use karpenter_aws_api::ec2::ImageQuery;
use karpenter_aws_sim::{Fault, OfferingSelector, Options, Quotas};
use karpenter_cloud::overlay::{PoolOverlays, Sight, judge, labels_of};
use karpenter_cloud::{Kind, LaunchRequest, Provider, Read};
use karpenter_model::names::{annotation, label};
use karpenter_model::{CapacityType, Overlay, PriceChange, Quantity, Resources};

use crate::world::{TYPES, World, on_demand, one_of, pool, request, request_with};

/// The more expensive of the two types.
const DEARER: &str = "m5.large";
/// A resource no type has by itself.
const DEVICE: &str = "smarter-devices/fuse";

#[tokio::test(start_paused = true)]
async fn a_type_no_image_is_for_stays_listed_and_cannot_be_had() {
    let mut world = World::new().await;
    world.class.status.as_mut().unwrap().amis.retain(|ami| {
        let arm = |one: &karpenter_api::Requirement| one.values().iter().any(|value| value == "arm64");
        ami.requirements.iter().any(arm)
    });
    world.provider.classes.replace_all([world.class.clone()]);
    let types = world.provider.instance_types(&pool()).await.expect("lists");
    let available = |name: &str| {
        let found = types.iter().find(|one| one.name.as_str() == name).expect("is listed");
        found.offerings.iter().any(|offering| offering.available)
    };
    assert!(available("m7g.large") && !available("m5.large"));
    let refused = world.provider.launch(&request("web-1")).await.expect_err("nothing to boot from");
    assert_eq!(refused.kind, Kind::NoCapacity, "{refused}");
    world.class.status.as_mut().unwrap().amis.clear();
    world.provider.classes.replace_all([world.class.clone()]);
    let types = world.provider.instance_types(&pool()).await.expect("lists");
    let m5 = types.iter().find(|one| one.name.as_str() == "m5.large").expect("is listed");
    assert!(m5.offerings.iter().any(|offering| offering.available), "no image is known yet");
}

#[tokio::test(start_paused = true)]
async fn an_instance_carries_what_the_claim_needs_and_its_owners_tags() {
    let world = World::new().await;
    let instance = world.provider.launch(&request("web-1")).await.expect("launches");
    assert_eq!(instance.capacity_type, CapacityType::Spot, "spot before on-demand");
    for (key, value) in [
        (label::CAPACITY_TYPE, "spot"),
        (label::NODE_POOL, "web"),
        (label::ARCH, "amd64"),
        (label::OS, "linux"),
        (label::REGION, "us-west-2"),
        (label::aws::INSTANCE_TENANCY, "default"),
        (label::ZONE, instance.zone.as_str()),
        (label::INSTANCE_TYPE, instance.instance_type.as_str()),
    ] {
        assert_eq!(instance.labels.get(key).map(karpenter_model::LabelValue::as_str), Some(value), "{key}");
    }
    assert!(instance.labels.contains_key(label::aws::ZONE_ID));
    assert!(!instance.labels.contains_key(label::aws::CAPACITY_RESERVATION_ID));
    assert_eq!(instance.annotations.len(), 3, "{:?}", instance.annotations);
    assert_eq!(instance.annotations[annotation::aws::EC2_NODE_CLASS_HASH_VERSION], "v6");
    assert!(instance.capacity.iter().all(|(_, quantity)| !quantity.is_zero()));
    let launched = world.account.instances().remove(0);
    for key in [
        "kubernetes.io/cluster/demo",
        "eks:eks-cluster-name",
        "karpenter.sh/nodepool",
        "karpenter.sh/nodeclaim",
    ] {
        assert!(launched.tags.contains_key(key), "{key} in {:?}", launched.tags);
    }
    world.settle();
    let read = world.provider.instance(&instance.provider_id, Read::Consistent).await.expect("is read");
    assert_eq!(read.labels, instance.labels);
    assert_eq!(read.capacity, instance.capacity);
    assert_eq!(read.annotations, instance.annotations);
}

#[tokio::test(start_paused = true)]
async fn user_data_reaches_the_instance() {
    let world = World::new().await;
    world.provider.launch(&request("web-1")).await.expect("launches");
    let id = world.account.instances().remove(0).id;
    let text = world.account.user_data(&id).expect("has user data").expose().to_owned();
    for part in [
        "apiServerEndpoint: https://demo.example",
        "name: demo",
        "maxPods: 29",
        "karpenter.sh/unregistered",
        "karpenter.sh/nodepool=web",
        "karpenter.sh/capacity-type=spot",
        "karpenter.sh/do-not-sync-taints=true",
        "- 10.100.0.10\n",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_spot_capacity_the_next_launch_is_on_demand() {
    let world = World::new().await;
    let spot = OfferingSelector { spot: Some(true), ..Default::default() };
    world.account.limit_capacity(spot, 0);
    let failed = world.provider.launch(&request("web-1")).await.expect_err("no spot capacity");
    assert_eq!(failed.kind, Kind::NoCapacity, "{failed}");
    let second = world.provider.launch(&request("web-2")).await.expect("falls back");
    assert_eq!(second.capacity_type, CapacityType::OnDemand);
    world.clock.advance(Duration::from_secs(200));
    let third = world.provider.launch(&request("web-3")).await.expect_err("spot is tried again");
    assert_eq!(third.kind, Kind::NoCapacity, "{third}");
}

/// An account whose fleets try three of their offerings, as those of EC2 do.
fn trying_three() -> Options {
    Options { zones: 2, offerings_tried: Some(3), ..Options::default() }
}

#[tokio::test(start_paused = true)]
async fn what_ec2_did_not_try_has_its_turn_after_a_moment() {
    let world = World::with(trying_three(), |_| {}).await;
    for (instance_type, zone) in
        [("c5.large", "us-west-2a"), ("c5.large", "us-west-2b"), (DEARER, "us-west-2a")]
    {
        world.account.limit_capacity(OfferingSelector::exactly(instance_type, zone, false), 0);
    }
    let failed = world.provider.launch(&on_demand("web-1")).await.expect_err("the three are dry");
    assert_eq!(failed.kind, Kind::NoCapacity, "{failed}");
    assert!(!failed.to_string().contains("UnfulfillableCapacity"), "{failed}");
    world.provider.launch(&on_demand("web-2")).await.expect_err("other pools have their turn");
    assert_eq!(world.account.calls().count("CreateFleet"), 1);
    world.clock.advance(Duration::from_secs(31));
    let launched = world.provider.launch(&on_demand("web-3")).await.expect("tries the fourth");
    assert_eq!((launched.instance_type.as_str(), launched.zone.as_str()), (DEARER, "us-west-2b"));
}

#[tokio::test(start_paused = true)]
async fn spot_that_ec2_did_not_try_is_passed_over_for_a_moment_where_on_demand_would_do() {
    let world = World::with(trying_three(), |_| {}).await;
    let spot = OfferingSelector { spot: Some(true), ..Default::default() };
    world.account.limit_capacity(spot.clone(), 0);
    world.provider.launch(&request("web-1")).await.expect_err("no spot capacity");
    let second = world.provider.launch(&request("web-2")).await.expect("falls back");
    assert_eq!(second.capacity_type, CapacityType::OnDemand);
    world.account.unlimit_capacity(&spot);
    world.clock.advance(Duration::from_secs(31));
    let third = world.provider.launch(&request("web-3")).await.expect("launches");
    assert_eq!(third.capacity_type, CapacityType::Spot, "the fourth may have been there all the time");
}

#[tokio::test(start_paused = true)]
async fn a_used_up_quota_fails_one_launch_and_not_one_per_three_offerings() {
    let world = World::with(trying_three(), |_| {}).await;
    world.account.set_quotas(Quotas { on_demand_vcpus: Some(0), ..Quotas::default() });
    for (claim, fleets) in [("web-1", 1), ("web-2", 1), ("web-3", 1), ("web-4", 2)] {
        let failed = world.provider.launch(&on_demand(claim)).await.expect_err("no vCPUs");
        assert_eq!(failed.kind, Kind::NoCapacity, "{failed}");
        assert_eq!(world.account.calls().count("CreateFleet"), fleets, "{claim}");
        world.clock.advance(Duration::from_secs(61));
    }
}

/// <https://github.com/aws/karpenter-provider-aws/issues/6483>
#[tokio::test(start_paused = true)]
async fn what_is_not_sold_in_a_zone_is_left_alone_there() {
    let world = World::new().await;
    for instance_type in TYPES {
        world.account.withdraw(instance_type, "us-west-2a");
    }
    let in_zone = |claim: &str| request_with(claim, one_of(label::ZONE, &["us-west-2a"]));
    for (claim, fleets) in [("spot", 1), ("on-demand", 2), ("neither", 2)] {
        let failed = world.provider.launch(&in_zone(claim)).await.expect_err("neither type is sold there");
        assert_eq!(failed.kind, Kind::NoCapacity, "{claim}: {failed}");
        assert_eq!(world.account.calls().count("CreateFleet"), fleets, "{claim}");
    }
    let elsewhere = world.provider.launch(&request("web-1")).await.expect("launches");
    assert_eq!(elsewhere.zone.as_str(), "us-west-2b");
}

#[tokio::test(start_paused = true)]
async fn a_missing_spot_role_takes_out_spot_and_says_what_to_do() {
    let options = Options { zones: 2, spot_service_linked_role: false, ..Options::default() };
    let world = World::with(options, |_| {}).await;
    let failed = world.provider.launch(&request("web-1")).await.expect_err("no role for spot");
    assert_eq!(failed.kind, Kind::NoCapacity, "{failed}");
    assert_eq!(failed.reason.as_deref(), Some("SpotSLRCreationFailed"));
    assert!(failed.to_string().contains("spot.amazonaws.com"), "{failed}");
    let second = world.provider.launch(&request("web-2")).await.expect("falls back");
    assert_eq!(second.capacity_type, CapacityType::OnDemand);
}

#[tokio::test(start_paused = true)]
async fn throttling_is_told_apart_from_lack_of_capacity() {
    let world = World::new().await;
    world.account.inject(Fault::fail("CreateFleet", "RequestLimitExceeded").times(1));
    let failed = world.provider.launch(&on_demand("web-1")).await.expect_err("throttled");
    assert_eq!((failed.kind, failed.reason.as_deref()), (Kind::Throttled, Some("RequestLimitExceeded")));
    let retried = world.provider.launch(&on_demand("web-1")).await.expect("launches");
    assert_eq!(retried.claim.as_ref().map(karpenter_model::ClaimName::as_str), Some("web-1"));
}

#[tokio::test(start_paused = true)]
async fn denial_carries_reason_and_hint() {
    let world = World::new().await;
    world.account.inject(Fault::fail("CreateFleet", "UnauthorizedOperation").times(1));
    let failed = world.provider.launch(&request("web-1")).await.expect_err("denied");
    assert_eq!((failed.kind, failed.reason.as_deref()), (Kind::Denied, Some("Unauthorized")));
    assert!(failed.hint.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_zone_whose_subnet_is_full_is_avoided() {
    let world = World::new().await;
    let subnet = world.class.status.as_ref().unwrap().subnets[0].clone();
    world.account.set_free_addresses(&subnet.id.as_str().into(), 0);
    for number in 0..6 {
        // Whichever attempt meets the full subnet fails at most once.
        let _first = world.provider.launch(&on_demand(&format!("web-{number}"))).await;
    }
    let launched = world.provider.launch(&on_demand("last")).await.expect("launches elsewhere");
    assert_ne!(launched.zone.as_str(), subnet.zone);
    assert!(world.account.instances().iter().all(|one| one.zone.as_str() != subnet.zone));
}

#[tokio::test(start_paused = true)]
async fn a_node_class_that_is_not_ready_launches_nothing() {
    for edit in [
        |class: &mut karpenter_api::EC2NodeClass| class.metadata.generation = Some(2),
        |class: &mut karpenter_api::EC2NodeClass| {
            class.status.as_mut().unwrap().conditions.last_mut().unwrap().status =
                karpenter_api::ConditionStatus::False;
        },
    ] {
        let mut world = World::new().await;
        edit(&mut world.class);
        world.provider.classes.replace_all([world.class.clone()]);
        let failed = world.provider.launch(&request("web-1")).await.expect_err("not ready");
        assert_eq!(failed.kind, Kind::NodeClassNotReady, "{failed}");
        assert!(world.account.instances().is_empty());
    }
    let world = World::new().await;
    world.provider.classes.replace_all([]);
    let failed = world.provider.launch(&request("web-1")).await.expect_err("no class");
    assert_eq!(failed.kind, Kind::NodeClassNotReady, "{failed}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_user_data_cannot_be_merged_is_kept_and_launches_nothing() {
    let torn = "Content-Type: multipart/mixed; boundary=\"x\"\n\n--x\n\nbody\n";
    for (alias, user_data) in [("bottlerocket@latest", "a = = b"), ("al2023@latest", torn)] {
        let world = World::with(Options { zones: 2, ..Options::default() }, |spec| {
            spec.ami_selector_terms[0].alias = Some(alias.to_owned());
            spec.user_data = Some(user_data.to_owned());
        })
        .await;
        let failed = world.provider.launch(&request("web-1")).await.expect_err("no user data");
        // A class that is not ready would end the claim without an event, and the next batch would make it again.
        assert_eq!((failed.kind, failed.reason.as_deref()), (Kind::Invalid, Some("LaunchFailed")));
        assert!(failed.message.contains("fix spec.userData of the node class"), "{failed}");
        assert!(world.account.instances().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn metal_and_accelerators_are_launched_only_when_nothing_else_will_do() {
    let world = World::new().await;
    let names = ["g5.xlarge", "m5.large"];
    let mut wanted = on_demand("web-1");
    wanted.requirements.remove(label::INSTANCE_TYPE);
    wanted.requirements.add(one_of(label::INSTANCE_TYPE, &names));
    wanted.instance_types = names.map(Into::into).to_vec();
    let plain = world.provider.launch(&wanted).await.expect("launches");
    assert_eq!(plain.instance_type.as_str(), "m5.large");
    wanted.claim = "web-2".into();
    wanted.uid = "uid-2".into();
    wanted.requests.set("nvidia.com/gpu", karpenter_model::Quantity::ONE);
    let gpu = world.provider.launch(&wanted).await.expect("launches");
    assert_eq!(gpu.instance_type.as_str(), "g5.xlarge");
    assert_ne!(gpu.image_id, plain.image_id, "GPU nodes have an image of their own");
}

#[tokio::test(start_paused = true)]
async fn every_family_launches() {
    for family in AmiFamily::ALL {
        if matches!(family, AmiFamily::Custom | AmiFamily::Windows2025 | AmiFamily::AL2) {
            continue; // the account's version has no images of these
        }
        let alias = format!("{}@latest", family.as_str().to_lowercase());
        let world = World::with(Options { zones: 2, ..Options::default() }, |spec| {
            spec.ami_selector_terms[0].alias = Some(alias.clone());
        })
        .await;
        world.provider.launch(&on_demand("web-1")).await.unwrap_or_else(|error| panic!("{alias}: {error}"));
    }
}

/// The last Kubernetes for which there are images of Amazon Linux 2.
#[tokio::test(start_paused = true)]
async fn the_latest_and_a_pinned_amazon_linux_2_launch() {
    let mut images = Vec::new();
    for alias in ["al2@latest", "al2@v20251209", "al2@v20251103"] {
        let options = Options { zones: 2, kubernetes_version: "1.32".to_owned(), ..Options::default() };
        let world =
            World::with(options, |spec| spec.ami_selector_terms[0].alias = Some(alias.to_owned())).await;
        let launched = world.provider.launch(&on_demand("web-1")).await.expect("launches");
        let running = world.account.live_instances().remove(0);
        let query = ImageQuery { ids: vec![running.image.clone()], ..ImageQuery::default() };
        let image = world.account.clients().ec2.describe_images(&query).await.unwrap().items.remove(0);
        assert_eq!(launched.image_id.unwrap().as_str(), image.id.as_str());
        let text = world.account.user_data(&running.id).expect("has user data").expose().to_owned();
        assert!(text.contains("/etc/eks/bootstrap.sh 'demo'"), "{text}");
        images.push(image.name);
    }
    let [latest, pinned, older] = &images[..] else { unreachable!() };
    assert_eq!(latest, pinned);
    assert!(latest.starts_with("amazon-eks-node-1.32-v20251209"), "{latest}");
    assert!(older.starts_with("amazon-eks-node-1.32-v20251103"), "{older}");
}

#[tokio::test(start_paused = true)]
async fn tagging_adds_what_is_missing_and_overwrites_nothing() {
    let world = World::new().await;
    let instance = world.provider.launch(&request("web-1")).await.expect("launches");
    let id = instance.instance_id.as_str().to_owned();
    let tags = [("Name".to_owned(), "mine".to_owned())].into();
    world.account.clients().ec2.create_tags(&[id], &tags).await.unwrap();
    let node = "ip-10-0-0-1".into();
    world.provider.tag(&instance.provider_id, &"web-1".into(), &node).await.expect("tags");
    let tagged = world.account.instances().remove(0);
    assert_eq!(tagged.tags["Name"], "mine");
    assert_eq!(tagged.tags["karpenter.sh/nodeclaim"], "web-1");
}

#[tokio::test(start_paused = true)]
async fn an_instance_without_room_for_another_tag_gets_no_name() {
    let world = World::new().await;
    let instance = world.provider.launch(&request("web-1")).await.expect("launches");
    let launched = world.account.instances().remove(0).tags;
    let room = 50 - launched.keys().filter(|key| !key.starts_with("aws:")).count();
    let tags = (0..room).map(|number| (format!("cost-{number}"), String::new())).collect();
    let id = instance.instance_id.as_str().to_owned();
    world.account.clients().ec2.create_tags(&[id], &tags).await.unwrap();
    let node = "ip-10-0-0-1".into();
    world.provider.tag(&instance.provider_id, &"web-1".into(), &node).await.expect("nothing is refused");
    let tagged = world.account.instances().remove(0).tags;
    assert!(!tagged.contains_key("Name") && tagged["karpenter.sh/nodeclaim"] == "web-1");
}

#[tokio::test(start_paused = true)]
async fn exhausted_offerings_are_listed_as_unavailable() {
    let world = World::new().await;
    let all = world.provider.instance_types(&pool()).await.expect("lists");
    let count = |types: &[std::sync::Arc<karpenter_model::InstanceType>]| {
        types.iter().flat_map(|one| &one.offerings).filter(|offering| offering.available).count()
    };
    world.account.limit_capacity(OfferingSelector::default(), 0);
    let _refused = world.provider.launch(&on_demand("web-1")).await.expect_err("nothing left");
    let after = world.provider.instance_types(&pool()).await.expect("lists");
    assert_eq!(all.len(), after.len());
    assert_eq!(count(&all) - count(&after), 4, "two types in two zones");
}

#[tokio::test(start_paused = true)]
async fn a_refused_launch_needs_another_attempt_and_a_lost_answer_does_not() {
    let world = World::new().await;
    world.account.set_quotas(Quotas { on_demand_vcpus: Some(0), ..Quotas::default() });
    let failed = world.provider.launch(&on_demand("web-1")).await.expect_err("no vCPUs");
    assert!(failed.token_spent, "{failed}");
    world.account.set_quotas(Quotas::default());
    world.clock.advance(Duration::from_secs(200));
    // EC2 answers a token with the result of the first time.
    world.provider.launch(&on_demand("web-1")).await.expect_err("the same attempt");
    world.clock.advance(Duration::from_mins(10));
    let second = LaunchRequest { attempt: 1, ..on_demand("web-1") };
    world.provider.launch(&second).await.expect("another attempt launches");

    world.account.inject(Fault::lose_answer("CreateFleet").times(1));
    let lost = world.provider.launch(&on_demand("web-2")).await.expect_err("the answer is lost");
    assert!(!lost.token_spent, "{lost}");
    world.provider.launch(&on_demand("web-2")).await.expect("finds the machine of the lost answer");
    let named = |claim: &str| {
        let instances = world.account.instances();
        instances
            .iter()
            .filter(|one| one.tags.get("karpenter.sh/nodeclaim").is_some_and(|tag| tag == claim))
            .count()
    };
    assert_eq!((named("web-1"), named("web-2")), (1, 1));
}

/// The answer of a launch is lost, the next request is refused for its rate or its contents, and EC2 does not show the new
/// machine yet: only the token of the first request leads to it. Found by the simulation, seed 5282.
#[tokio::test(start_paused = true)]
async fn a_refusal_says_nothing_about_the_request_before_it() {
    let other_contents = LaunchRequest { labels: [("a".into(), "b".into())].into(), ..on_demand("web-1") };
    for (code, again) in [("RequestLimitExceeded", on_demand("web-1")), ("Mismatch", other_contents)] {
        let options = Options { zones: 2, invisible_for: Duration::from_secs(8), ..Options::default() };
        let world = World::with(options, |_| {}).await;
        world.account.inject(Fault::lose_answer("CreateFleet").times(1));
        world.provider.launch(&on_demand("web-1")).await.expect_err("the answer is lost");
        world.account.inject(Fault::fail("CreateFleet", "RequestLimitExceeded").times(1));
        for second in 0..20 {
            world.clock.advance(Duration::from_secs(1));
            match world.provider.launch(&again).await {
                Ok(_) => break,
                Err(refused) => assert!(!refused.token_spent, "{code}, {second} s: {refused}"),
            }
        }
        let named = world.account.live_instances();
        assert_eq!(named.len(), 1, "{code}: {named:?}");
        let adopted = world.provider.launch(&again).await.expect("the machine is known");
        assert_eq!(adopted.instance_id.as_str(), named[0].id.as_str(), "{code}");
    }
}

/// No offering is left, which is known without asking: such a claim goes at once.
#[tokio::test(start_paused = true)]
async fn what_was_never_asked_for_is_not_waited_for() {
    let world = World::new().await;
    world.account.limit_capacity(OfferingSelector::default(), 0);
    world.provider.launch(&on_demand("web-1")).await.expect_err("EC2 has none");
    world.account.inject(Fault::lose_answer("CreateFleet").times(1));
    let failed = world.provider.launch(&on_demand("web-2")).await.expect_err("nothing is left to ask for");
    assert_eq!(failed.kind, Kind::NoCapacity, "{failed}");
    assert_eq!(world.provider.machine_of(&"web-2".into()).await, Ok(None));
}

/// An instance that EC2 still does not show a minute later does not exist, and another token may be tried.
#[tokio::test(start_paused = true)]
async fn a_token_is_kept_for_a_minute_and_no_longer() {
    let world = World::new().await;
    let request = LaunchRequest { created_at: world.provider.now(), ..on_demand("web-1") };
    world.clock.advance(Duration::from_mins(10));
    world.account.inject(Fault::fail("CreateFleet", "InternalError").times(1));
    world.provider.launch(&request).await.expect_err("nothing is launched");
    let mut kept = 0;
    loop {
        world.clock.advance(Duration::from_secs(10));
        world.account.inject(Fault::fail("CreateFleet", "RequestLimitExceeded").times(1));
        if world.provider.launch(&request).await.expect_err("refused").token_spent {
            break;
        }
        kept += 1;
    }
    assert!((4..=6).contains(&kept), "{kept} times ten seconds");
}

/// The claim got its labels, and then its status could not be written: the next pass asks with other contents, which EC2 refuses
/// under the same token, or for its rate, and a new machine is not shown for seconds. The latter found by the simulation, seed
/// 7246.
#[tokio::test(start_paused = true)]
async fn a_claim_that_has_changed_since_its_launch_gets_no_second_machine() {
    let options = Options { zones: 2, invisible_for: Duration::from_secs(8), ..Options::default() };
    let world = World::with(options, |_| {}).await;
    let first = world.provider.launch(&on_demand("web-1")).await.expect("launches");
    for label in ["first", "second", "third"] {
        let mut changed = on_demand("web-1");
        changed.labels.insert("example.com/new".into(), label.into());
        if label != "third" {
            world.account.inject(Fault::fail("CreateFleet", "RequestLimitExceeded").times(1));
        }
        let again = world.provider.launch(&changed).await.expect("answers the same");
        assert_eq!(again.instance_id, first.instance_id);
        world.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(world.account.live_instances().len(), 1);
}

/// The claim was given up before its status could be written, and EC2 does not show the machine yet.
#[tokio::test(start_paused = true)]
async fn the_machine_of_a_claim_that_knows_none_is_known_before_ec2_shows_it() {
    let options = Options { zones: 2, invisible_for: Duration::from_secs(8), ..Options::default() };
    let world = World::with(options, |_| {}).await;
    let launched = world.provider.launch(&on_demand("web-1")).await.expect("launches");
    let found = world.provider.machine_of(&"web-1".into()).await.expect("answers");
    assert_eq!(found.as_ref(), Some(&launched.provider_id));
    assert_eq!(world.provider.machine_of(&"web-2".into()).await, Ok(None));
    world.clock.advance(Duration::from_secs(10));
    world.provider.terminate(&launched.provider_id).await.expect("terminates");
    world.settle();
    assert_eq!(world.provider.machine_of(&"web-1".into()).await, Ok(None), "it has ended");
}

/// The answer of the launch was lost and the claim given up: it must not go before the machine can be found. Found by the
/// simulation, seed 5259.
#[tokio::test(start_paused = true)]
async fn that_a_claim_has_no_machine_is_not_said_while_ec2_may_hide_one() {
    let options = Options { zones: 2, invisible_for: Duration::from_secs(8), ..Options::default() };
    let world = World::with(options, |_| {}).await;
    world.account.inject(Fault::lose_answer("CreateFleet").times(1));
    world.provider.launch(&on_demand("web-1")).await.expect_err("the answer is lost");
    let unknown = world.provider.machine_of(&"web-1".into()).await.expect_err("it cannot be known yet");
    assert_eq!(unknown.kind, Kind::Transient, "{unknown}");
    world.clock.advance(Duration::from_secs(10));
    let found = world.provider.machine_of(&"web-1".into()).await.expect("answers");
    assert!(found.is_some(), "EC2 shows it now");

    world.account.inject(Fault::lose_answer("CreateFleet").times(1));
    world.account.limit_capacity(OfferingSelector::default(), 0);
    world.provider.launch(&on_demand("web-2")).await.expect_err("the answer is lost");
    world.clock.advance(Duration::from_mins(2));
    assert_eq!(
        world.provider.machine_of(&"web-2".into()).await,
        Ok(None),
        "what is not shown by now is not there"
    );
}

/// Overlays by users on the more expensive type: a price next to nothing, and a device.
fn overlays(world: &World) -> PoolOverlays {
    let registry = world.provider.label_registry();
    let device = Resources::new().with(DEVICE, Quantity::from_units(2));
    let overlay = Overlay {
        name: "devices".into(),
        weight: 0,
        requirements: [one_of(label::INSTANCE_TYPE, &[DEARER])].into_iter().collect(),
        price: Some(PriceChange::price("0.0001").expect("a price")),
        capacity: device,
    };
    let sight = Sight { pool: "web".into(), labels: labels_of(&pool(), &registry), types: [].into() };
    let judged = judge(vec![overlay.into()], &[sight], &registry);
    judged.overlays.of(&pool(), &registry).expect("the pool was looked at")
}

#[tokio::test(start_paused = true)]
async fn overlays_decide_which_type_is_launched_and_what_it_counts_as_having() {
    let world = World::new().await;
    let mut request = on_demand("web-1");
    let plain = world.provider.launch(&on_demand("web-0")).await.expect("launches");
    assert_ne!(plain.instance_type, DEARER, "EC2 takes the cheapest");
    request.overlays = Some(overlays(&world));
    request.annotations.insert(annotation::PRICE_OVERLAY_APPLIED.to_owned(), "true".to_owned());
    let launched = world.provider.launch(&request).await.expect("launches");
    assert_eq!(launched.instance_type, DEARER);
    assert_eq!(launched.capacity.amount(DEVICE), Quantity::from_units(2));
    // A process that takes over finds the same.
    let adopted = world.provider.launch(&request).await.expect("adopts");
    assert_eq!((adopted.provider_id, adopted.capacity), (launched.provider_id, launched.capacity));
}

#[tokio::test(start_paused = true)]
async fn pods_that_ask_for_a_device_are_launched_for_only_with_the_overlay_that_names_it() {
    let world = World::new().await;
    let mut request = on_demand("web-1");
    request.requests.set(DEVICE, Quantity::ONE);
    let failed = world.provider.launch(&request).await.expect_err("no type has it");
    assert_eq!(failed.kind, Kind::NoCapacity);
    request.overlays = Some(overlays(&world));
    let launched = world.provider.launch(&request).await.expect("launches");
    assert_eq!(launched.instance_type, DEARER);
}

/// Returns the number of launches of six that reach EC2, one as soon as the pause after the first failure is over.
async fn asked_in_six_rounds(world: &World, request: impl Fn(u32) -> LaunchRequest) -> usize {
    world.account.forget_calls();
    for round in 0..6 {
        let failed = world.provider.launch(&request(round)).await.expect_err("nothing to be had");
        assert_eq!(failed.kind, Kind::NoCapacity, "{failed}");
        world.clock.advance(FIRST);
    }
    world.account.calls().count("CreateFleet")
}

#[tokio::test(start_paused = true)]
async fn what_nothing_else_would_do_for_is_asked_for_every_three_minutes() {
    let world = World::with(Options { zones: 1, ..Options::default() }, |_| {}).await;
    let one = |round| {
        let mut request = on_demand(&format!("web-{round}"));
        request.requirements.add(one_of(label::INSTANCE_TYPE, &[DEARER]));
        LaunchRequest { instance_types: vec![DEARER.into()], ..request }
    };
    let selector = OfferingSelector { instance_type: Some(DEARER.into()), ..Default::default() };
    world.account.limit_capacity(selector, 0);
    assert_eq!(asked_in_six_rounds(&world, one).await, 6);
}

#[tokio::test(start_paused = true)]
async fn a_quota_is_tried_every_three_minutes_whatever_else_would_do() {
    let world = World::new().await;
    world.account.set_quotas(Quotas { on_demand_vcpus: Some(0), ..Quotas::default() });
    // Spot would do, and is dry.
    let spot = OfferingSelector { spot: Some(true), ..Default::default() };
    world.account.limit_capacity(spot, 0);
    assert_eq!(asked_in_six_rounds(&world, |round| on_demand(&format!("web-{round}"))).await, 6);
}

#[tokio::test(start_paused = true)]
async fn what_others_stand_in_for_is_asked_for_less_and_less() {
    let world = World::new().await;
    let dry = OfferingSelector { instance_type: Some("c5.large".into()), spot: Some(false), zone: None };
    world.account.limit_capacity(dry, 0);
    let mut refused = 0;
    for round in 0..10 {
        let before = world.provider.unavailable.view().revision;
        let launched =
            world.provider.launch(&on_demand(&format!("web-{round}"))).await.expect("the other type");
        assert_eq!(launched.instance_type, DEARER);
        refused += u32::from(world.provider.unavailable.view().revision != before);
        world.clock.advance(FIRST);
    }
    // At 0, 3, 9 and 21 minutes.
    assert_eq!(refused, 4);
}

#[tokio::test(start_paused = true)]
async fn a_subnet_is_used_again_as_soon_as_ec2_counts_more_addresses() {
    let mut world = World::with(Options { zones: 1, ..Options::default() }, |_| {}).await;
    let subnet = world.class.status.as_ref().unwrap().subnets[0].id.as_str().into();
    let look = async |world: &mut World| {
        world.clock.advance(Duration::from_secs(61));
        world.resolve().await;
    };
    world.account.set_free_addresses(&subnet, 0);
    world.provider.launch(&on_demand("web-1")).await.expect_err("no addresses");
    look(&mut world).await;
    world.account.forget_calls();
    world.provider.launch(&on_demand("web-2")).await.expect_err("still none");
    assert_eq!(world.account.calls().count("CreateFleet"), 0, "known");
    world.account.set_free_addresses(&subnet, 200);
    look(&mut world).await;
    world.provider.launch(&on_demand("web-3")).await.expect("launches");
}

/// aws#9616: EC2 fails `CreateFleet` itself for spot, for an hour, while on-demand works.
#[tokio::test(start_paused = true)]
async fn spot_that_ec2_fails_for_a_minute_is_left_for_on_demand() {
    for code in ["InternalError", "ServiceUnavailable", "Unavailable"] {
        let world = World::new().await;
        world.account.inject(Fault::fail("CreateFleet", code).times(4));
        let mut claims = 0;
        let mut launch = async || {
            claims += 1;
            world.provider.launch(&request(&format!("web-{claims}"))).await
        };
        for _ in 0..3 {
            assert_eq!(
                launch().await.expect_err("EC2 fails").kind,
                Kind::Transient,
                "a hiccup teaches nothing"
            );
            world.clock.advance(Duration::from_secs(20));
        }
        launch().await.expect_err("for a minute");
        let bought = launch().await.expect("launches").capacity_type;
        assert_eq!(bought, CapacityType::OnDemand, "{code}");
        world.clock.advance(Duration::from_mins(4));
        assert_eq!(
            launch().await.expect("launches").capacity_type,
            CapacityType::Spot,
            "tried again after a while"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn failures_of_a_whole_call_that_are_not_about_spot_take_nothing_out() {
    for (code, capacity_type) in [
        ("RequestLimitExceeded", CapacityType::Spot),
        ("UnauthorizedOperation", CapacityType::Spot),
        ("InvalidParameterValue", CapacityType::Spot),
        ("MaxSpotInstanceCountExceeded", CapacityType::OnDemand),
        ("InsufficientInstanceCapacity", CapacityType::OnDemand),
    ] {
        let world = World::new().await;
        for number in 0..6 {
            world.account.inject(Fault::fail("CreateFleet", code).times(1));
            world.provider.launch(&request(&format!("web-{number}"))).await.expect_err("refused");
            world.account.heal();
            if capacity_type == CapacityType::OnDemand {
                break;
            }
            world.clock.advance(Duration::from_secs(30));
        }
        let bought = world.provider.launch(&request("web-9")).await.expect("launches").capacity_type;
        assert_eq!(bought, capacity_type, "{code}");
    }
}
