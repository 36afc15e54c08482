//! Types with devices: what a launch that asks for one gets, and what its claim says it has.

use karpenter_api::ec2nodeclass::{
    CpuOptions, Ec2NodeClassSpec, EnclaveOptions, InterfaceType, NetworkInterface as ClassInterface, Toggle,
};
use karpenter_aws_api::ec2::{
    Gpu, InstanceTypeInfo, InterfaceKind, LaunchTemplateData, NetworkCard, NeuronDevice,
};
use karpenter_aws_sim::Options;
use karpenter_cloud::{Instance, LaunchRequest, Provider};
use karpenter_model::names::{annotation, label};
use karpenter_model::{LabelValue, Quantity};

use crate::world::{World, on_demand, one_of};

/// The type that is sold beside the usual ones.
const NAME: &str = "x9.xlarge";
/// A type without any device, and cheaper.
const PLAIN: &str = "m5.xlarge";

/// A world that also sells a type which differs from a plain one by this, for much more.
async fn selling(
    change: impl FnOnce(&mut InstanceTypeInfo),
    class: impl FnOnce(&mut Ec2NodeClassSpec),
) -> World {
    let mut world = World::with(Options { zones: 2, ..Options::default() }, class).await;
    let types = world.account.clients().ec2.describe_instance_types(&Default::default()).await.unwrap().items;
    let mut info = types.into_iter().find(|one| one.name.as_str() == PLAIN).unwrap();
    info.name = NAME.into();
    change(&mut info);
    let zones = ["us-west-2a", "us-west-2b"].map(Into::into);
    world.account.sell(info, &zones, 9_000_000_000, 3_000_000_000);
    world.provider.refresh_catalogue().await.expect("types are read");
    world.provider.prices.refresh_on_demand().await.expect("prices are read");
    world.resolve().await;
    world
}

/// A request for either type.
fn either(claim: &str) -> LaunchRequest {
    let mut wanted = on_demand(claim);
    wanted.requirements.remove(label::INSTANCE_TYPE);
    wanted.requirements.add(one_of(label::INSTANCE_TYPE, &[PLAIN, NAME]));
    wanted.instance_types = [PLAIN, NAME].map(Into::into).to_vec();
    wanted
}

/// Launches without any device, then with `count` of `resource`; returns the second instance.
async fn launch_with(world: &World, resource: &'static str, count: i64) -> Instance {
    let plain = world.provider.launch(&either("plain")).await.expect("launches");
    assert_eq!(plain.instance_type.as_str(), PLAIN, "a type with {resource} is for pods that ask for it");
    assert!(plain.capacity.amount(resource).is_zero());
    let mut wanted = either("device");
    wanted.requests.set(resource, Quantity::from_units(count));
    world.provider.launch(&wanted).await.expect("launches")
}

/// The launch template that was made last.
fn template(world: &World) -> LaunchTemplateData {
    world.account.launch_templates().into_iter().max_by_key(|(template, _)| template.id.clone()).unwrap().1
}

fn gpu(manufacturer: &str, name: &str, count: u32) -> Vec<Gpu> {
    vec![Gpu { name: name.into(), manufacturer: manufacturer.into(), count, memory_mib: 16_384 }]
}

fn two_cards(info: &mut InstanceTypeInfo) {
    let card = |index| NetworkCard { index, maximum_network_interfaces: 4, baseline_mbps: Some(25_000) };
    info.network_cards = (0..2).map(card).collect();
    info.maximum_efa_interfaces = 2;
}

type Change<'a> = &'a dyn Fn(&mut InstanceTypeInfo);

#[tokio::test(start_paused = true)]
async fn a_launch_that_asks_for_a_device_gets_a_type_that_has_it_and_its_claim_counts_all_of_them() {
    let neuron = |info: &mut InstanceTypeInfo| {
        info.neuron_devices = vec![NeuronDevice { name: "Inferentia2".into(), count: 3, cores: 2 }];
    };
    let table: [(&str, i64, Change<'_>, i64); 6] = [
        ("nvidia.com/gpu", 1, &|info| info.gpus = gpu("NVIDIA", "T4", 4), 4),
        ("amd.com/gpu", 1, &|info| info.gpus = gpu("AMD", "Radeon Pro V520", 2), 2),
        ("habana.ai/gaudi", 1, &|info| info.gpus = gpu("Habana", "Gaudi HL-205", 8), 8),
        ("aws.amazon.com/neuron", 1, &neuron, 3),
        ("aws.amazon.com/neuroncore", 4, &neuron, 6),
        ("vpc.amazonaws.com/efa", 1, &two_cards, 2),
    ];
    for (resource, asked, change, there) in table {
        for alias in ["al2023@latest", "bottlerocket@latest"] {
            let world = selling(change, |spec| spec.ami_selector_terms[0].alias = Some(alias.into())).await;
            let instance = launch_with(&world, resource, asked).await;
            assert_eq!(instance.instance_type.as_str(), NAME, "{resource}, {alias}");
            assert_eq!(
                instance.capacity.amount(resource),
                Quantity::from_units(there),
                "{resource}, {alias}"
            );
            assert_eq!(instance.allocatable.amount(resource), Quantity::from_units(there));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn adapters_that_are_asked_for_are_interfaces_of_the_instance() {
    let world = selling(two_cards, |_| {}).await;
    let instance = launch_with(&world, "vpc.amazonaws.com/efa", 2).await;
    assert_eq!(instance.instance_type.as_str(), NAME);
    let nics = template(&world).network_interfaces;
    let kinds: Vec<_> = nics.iter().map(|nic| (nic.card, nic.kind)).collect();
    assert_eq!(kinds, [(Some(0), Some(InterfaceKind::Efa)), (Some(1), Some(InterfaceKind::Efa))]);
}

#[tokio::test(start_paused = true)]
async fn a_first_card_that_takes_no_adapter_has_the_primary_interface() {
    let three_cards = |info: &mut InstanceTypeInfo| {
        two_cards(info);
        let card = |index| NetworkCard { index, maximum_network_interfaces: 1, baseline_mbps: Some(25_000) };
        info.network_cards.truncate(1);
        info.network_cards.extend((1..3).map(card));
    };
    let world = selling(three_cards, |_| {}).await;
    let instance = launch_with(&world, "vpc.amazonaws.com/efa", 2).await;
    assert_eq!(instance.instance_type.as_str(), NAME);
    assert_eq!(instance.capacity.amount("vpc.amazonaws.com/efa"), Quantity::from_units(2));
    let nics = template(&world).network_interfaces;
    let places: Vec<_> = nics.iter().map(|nic| (nic.card, nic.device, nic.kind)).collect();
    let (plain, efa) = (Some(InterfaceKind::Interface), Some(InterfaceKind::Efa));
    assert_eq!(places, [(Some(0), 0, plain), (Some(1), 0, efa), (Some(2), 0, efa)]);
}

/// <https://github.com/aws/karpenter-provider-aws/issues/8368>
#[tokio::test(start_paused = true)]
async fn a_type_with_a_share_of_a_gpu_is_for_pods_that_ask_for_one_however_cheap_it_is() {
    // A g6f.large as it is read from EC2.
    let share = |info: &mut InstanceTypeInfo| {
        info.gpus = vec![Gpu { memory_mib: 2_861, ..gpu("NVIDIA", "L4", 1).remove(0) }];
    };
    let world = selling(share, |_| {}).await;
    world.account.set_on_demand_price(NAME, 1_000_000);
    world.provider.prices.refresh_on_demand().await.expect("prices are read");
    let instance = launch_with(&world, "nvidia.com/gpu", 1).await;
    assert_eq!(instance.instance_type.as_str(), NAME);
    for (key, value) in [(label::aws::INSTANCE_GPU_COUNT, "1"), (label::aws::INSTANCE_GPU_MEMORY, "2861")] {
        assert_eq!(instance.labels.get(key).map(LabelValue::as_str), Some(value), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn interfaces_of_the_class_are_the_adapters_there_are() {
    let nic =
        |card, interface_type| ClassInterface { network_card_index: card, device_index: 0, interface_type };
    let own = vec![nic(0, InterfaceType::Interface), nic(1, InterfaceType::EfaOnly)];
    let world = selling(two_cards, |spec| spec.network_interfaces = Some(own)).await;
    let mut wanted = either("device");
    wanted.requests.set("vpc.amazonaws.com/efa", Quantity::ONE);
    let instance = world.provider.launch(&wanted).await.expect("launches");
    assert_eq!(instance.instance_type.as_str(), NAME);
    assert_eq!(instance.capacity.amount("vpc.amazonaws.com/efa"), Quantity::ONE, "one of two cards");
    let nics = template(&world).network_interfaces;
    let kinds: Vec<_> = nics.iter().map(|nic| (nic.card, nic.kind)).collect();
    let expected = [(Some(0), Some(InterfaceKind::Interface)), (Some(1), Some(InterfaceKind::EfaOnly))];
    assert_eq!(kinds, expected);
    wanted.claim = "two".into();
    wanted.uid = "uid-of-two".into();
    wanted.requests.set("vpc.amazonaws.com/efa", Quantity::from_units(2));
    world.provider.launch(&wanted).await.expect_err("no type has two of them with this class");
}

#[tokio::test(start_paused = true)]
async fn interfaces_for_pods_are_those_of_types_that_trunk() {
    let world = World::new().await;
    let mut wanted = on_demand("web-1");
    let names = ["t3.medium", "m5.large"];
    wanted.requirements.remove(label::INSTANCE_TYPE);
    wanted.requirements.add(one_of(label::INSTANCE_TYPE, &names));
    wanted.instance_types = names.map(Into::into).to_vec();
    wanted.requests.set("vpc.amazonaws.com/pod-eni", Quantity::ONE);
    let instance = world.provider.launch(&wanted).await.expect("launches");
    assert_eq!(instance.instance_type.as_str(), "m5.large", "the cheaper type does not trunk");
    assert_eq!(instance.capacity.amount("vpc.amazonaws.com/pod-eni"), Quantity::from_units(9));
}

/// aws#8165: a class that says no is one that says nothing.
#[tokio::test(start_paused = true)]
async fn enclaves_are_switched_on_by_the_class_and_only_on_types_that_run_them() {
    // It is cheaper, and runs no enclaves.
    let cheaper = "t3.xlarge";
    for (of_class, launched) in [(None, cheaper), (Some(false), cheaper), (Some(true), PLAIN)] {
        let edit = |spec: &mut Ec2NodeClassSpec| {
            spec.enclave_options = of_class.map(|enabled| EnclaveOptions { enabled });
        };
        let world = World::with(Options { zones: 2, ..Options::default() }, edit).await;
        let mut wanted = on_demand("web-1");
        wanted.requirements.remove(label::INSTANCE_TYPE);
        wanted.requirements.add(one_of(label::INSTANCE_TYPE, &[cheaper, PLAIN]));
        wanted.instance_types = [cheaper, PLAIN].map(Into::into).to_vec();
        let instance = world.provider.launch(&wanted).await.expect("launches");
        assert_eq!(instance.instance_type.as_str(), launched, "{of_class:?}");
        assert_eq!(template(&world).enclave, Some(of_class == Some(true)), "{of_class:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nested_virtualization_is_asked_of_types_that_have_it() {
    let nested = |spec: &mut Ec2NodeClassSpec| {
        spec.cpu_options = Some(CpuOptions { nested_virtualization: Some(Toggle::Enabled) });
    };
    let capable =
        |info: &mut InstanceTypeInfo| info.processor_features = vec!["nested-virtualization".to_owned()];
    let world = selling(capable, nested).await;
    let instance = world.provider.launch(&either("web-1")).await.expect("launches");
    assert_eq!(instance.instance_type.as_str(), NAME, "the cheaper type has no such feature");
    assert_eq!(template(&world).nested_virtualization.as_deref(), Some("enabled"));
}

#[tokio::test(start_paused = true)]
async fn adapters_that_claims_are_served_with_are_attached() {
    let world = selling(two_cards, |_| {}).await;
    for (drivers, attached) in [("gpu.nvidia.com", 0), ("dra.net", 2), ("dra.net,gpu.nvidia.com", 2)] {
        let mut wanted = either(&format!("for-{attached}-{}", drivers.len()));
        wanted.instance_types = vec![NAME.into()];
        wanted.requirements.add(one_of(label::INSTANCE_TYPE, &[NAME]));
        wanted.annotations.insert(annotation::REQUESTED_DRIVERS.to_owned(), drivers.to_owned());
        world.provider.launch(&wanted).await.expect("launches");
        let interfaces = template(&world).network_interfaces;
        let adapters = interfaces.iter().filter(|one| one.kind == Some(InterfaceKind::Efa));
        assert_eq!(adapters.count(), attached, "{drivers}");
    }
}
