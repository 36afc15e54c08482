//! Goods of EC2, over the SDK. Entries without the fields scheduling needs are skipped by name.

use aws_sdk_ec2::{Client, types};
use aws_smithy_types::DateTime;

use super::super::call::{Call, each_page};
use super::super::convert::{count, describe, instant};
use super::{filters_to_sdk, page_size, without_retries};
use karpenter_aws_api::ec2::{
    Accelerator, Architecture, EbsOptimized, Gpu, InstanceStorage, InstanceTypeInfo, InstanceTypeQuery,
    NetworkCard, NeuronDevice, SpotPrice, SpotPriceQuery, TypeOffering, UsageClass,
};
use karpenter_aws_api::{Filter, Listing, Result, Skipped};

pub(super) async fn instance_types(
    client: &Client,
    query: &InstanceTypeQuery,
) -> Result<Listing<InstanceTypeInfo>> {
    let call = Call::new("DescribeInstanceTypes", describe(&query.types, &query.filters));
    let types = query.types.iter().map(|name| types::InstanceType::from(name.as_str())).collect::<Vec<_>>();
    let request = client
        .describe_instance_types()
        .set_max_results(page_size(&query.types, 100))
        .set_instance_types(Some(types).filter(|types| !types.is_empty()))
        .set_filters(filters_to_sdk(&query.filters));
    let mut listing = Listing::default();
    each_page!(call, request.into_paginator(), next_token, |page| {
        for info in page.instance_types.unwrap_or_default() {
            let name = info.instance_type.as_ref().map_or("?", |name| name.as_str()).to_owned();
            listing.push(instance_type(info).map_err(|field| skipped(name, field)));
        }
    });
    Ok(listing)
}

pub(super) async fn dry_run(client: &Client) -> Result<()> {
    let request = client.describe_instance_types().dry_run(true);
    let outcome = request.customize().config_override(without_retries()).send().await;
    Call::new("DescribeInstanceTypes", "dry run").dry_run(outcome)
}

pub(super) async fn offerings(client: &Client, filters: &[Filter]) -> Result<Listing<TypeOffering>> {
    let call = Call::new("DescribeInstanceTypeOfferings", describe::<&str>(&[], filters));
    let request = client
        .describe_instance_type_offerings()
        .location_type(types::LocationType::AvailabilityZone)
        .max_results(1000)
        .set_filters(filters_to_sdk(filters));
    let mut listing = Listing::default();
    each_page!(call, request.into_paginator(), next_token, |page| {
        for offering in page.instance_type_offerings.unwrap_or_default() {
            let name = offering.instance_type.as_ref().map_or("?", |name| name.as_str()).to_owned();
            listing.push(match (offering.instance_type, offering.location) {
                (Some(kind), Some(zone)) => {
                    Ok(TypeOffering { instance_type: kind.as_str().into(), zone: zone.into() })
                }
                (None, _) => Err(skipped(name, "instanceType")),
                (_, None) => Err(skipped(name, "location")),
            });
        }
    });
    Ok(listing)
}

pub(super) async fn spot_prices(client: &Client, query: &SpotPriceQuery) -> Result<Listing<SpotPrice>> {
    let call = Call::new("DescribeSpotPriceHistory", describe(&query.types, &[]));
    let types = query.types.iter().map(|name| types::InstanceType::from(name.as_str())).collect::<Vec<_>>();
    let request = client
        .describe_spot_price_history()
        .start_time(DateTime::from_secs(query.start.as_second()))
        .set_product_descriptions(Some(query.products.clone()).filter(|products| !products.is_empty()))
        .set_instance_types(Some(types).filter(|types| !types.is_empty()))
        .max_results(2000);
    let mut listing = Listing::default();
    each_page!(call, request.into_paginator(), next_token, |page| {
        for price in page.spot_price_history.unwrap_or_default() {
            let name = price.instance_type.as_ref().map_or("?", |name| name.as_str()).to_owned();
            listing.push(spot_price(price).map_err(|field| skipped(name, field)));
        }
    });
    Ok(listing)
}

fn skipped(entry: String, field: &str) -> Skipped {
    Skipped { entry, why: format!("no `{field}`") }
}

fn spot_price(price: types::SpotPrice) -> std::result::Result<SpotPrice, &'static str> {
    Ok(SpotPrice {
        instance_type: price.instance_type.ok_or("instanceType")?.as_str().into(),
        zone: price.availability_zone.ok_or("availabilityZone")?.into(),
        price: price.spot_price.ok_or("spotPrice")?,
        product: price.product_description.ok_or("productDescription")?.as_str().to_owned(),
        since: instant(price.timestamp.as_ref()).ok_or("timestamp")?,
    })
}

/// The error is the name of the missing field.
fn instance_type(info: types::InstanceTypeInfo) -> std::result::Result<InstanceTypeInfo, &'static str> {
    let processor = info.processor_info.ok_or("processorInfo")?;
    let network = info.network_info.ok_or("networkInfo")?;
    let architectures = processor.supported_architectures.ok_or("supportedArchitectures")?;
    let usage_classes = info.supported_usage_classes.ok_or("supportedUsageClasses")?;
    let network_cards = network
        .network_cards
        .ok_or("networkCards")?
        .iter()
        .map(network_card)
        .collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(InstanceTypeInfo {
        name: info.instance_type.ok_or("instanceType")?.as_str().into(),
        architectures: architectures.iter().map(|name| Architecture::from(name.as_str())).collect(),
        usage_classes: usage_classes.iter().map(|name| UsageClass::from(name.as_str())).collect(),
        vcpus: count(info.v_cpu_info.and_then(|cpus| cpus.default_v_cpus)).ok_or("defaultVCpus")?,
        memory_mib: size(info.memory_info.and_then(|memory| memory.size_in_mib)).ok_or("sizeInMiB")?,
        hypervisor: info.hypervisor.map(|name| name.as_str().to_owned()).unwrap_or_default(),
        bare_metal: info.bare_metal.unwrap_or(false),
        current_generation: info.current_generation.unwrap_or(false),
        burstable: info.burstable_performance_supported.unwrap_or(false),
        processor_manufacturer: processor.manufacturer,
        sustained_clock_mhz: processor.sustained_clock_speed_in_ghz.and_then(thousandths),
        processor_features: processor
            .supported_features
            .unwrap_or_default()
            .iter()
            .map(|feature| feature.as_str().to_owned())
            .collect(),
        network_cards,
        default_network_card: count(network.default_network_card_index).unwrap_or(0),
        maximum_network_interfaces: count(network.maximum_network_interfaces)
            .ok_or("maximumNetworkInterfaces")?,
        ipv4_addresses_per_interface: count(network.ipv4_addresses_per_interface)
            .ok_or("ipv4AddressesPerInterface")?,
        ipv6_addresses_per_interface: count(network.ipv6_addresses_per_interface).unwrap_or(0),
        ena_support: network
            .ena_support
            .map_or_else(|| "unsupported".to_owned(), |ena| ena.as_str().to_owned()),
        maximum_efa_interfaces: count(network.efa_info.and_then(|efa| efa.maximum_efa_interfaces))
            .unwrap_or(0),
        encryption_in_transit: network.encryption_in_transit_supported.unwrap_or(false),
        ebs_optimized: info.ebs_info.and_then(ebs),
        instance_storage: info.instance_storage_info.and_then(storage),
        gpus: gpus(info.gpu_info)?,
        neuron_devices: neurons(info.neuron_info)?,
        inference_accelerators: accelerators(info.inference_accelerator_info)?,
        nitro_enclaves: info.nitro_enclaves_support == Some(types::NitroEnclavesSupport::Supported),
        placement_strategies: info
            .placement_group_info
            .and_then(|placement| placement.supported_strategies)
            .unwrap_or_default()
            .iter()
            .map(|strategy| strategy.as_str().to_owned())
            .collect(),
    })
}

fn size(value: Option<i64>) -> Option<u64> {
    value.and_then(|value| u64::try_from(value).ok())
}

/// EC2 sends gigahertz and gigabits with up to three decimals; printing and reading them back keeps the conversion
/// exact.
fn thousandths(value: f64) -> Option<u32> {
    format!("{:.0}", value * 1000.0).parse().ok()
}

fn network_card(card: &types::NetworkCardInfo) -> std::result::Result<NetworkCard, &'static str> {
    Ok(NetworkCard {
        index: count(card.network_card_index).ok_or("networkCardIndex")?,
        maximum_network_interfaces: count(card.maximum_network_interfaces)
            .ok_or("networkCards.maximumNetworkInterfaces")?,
        baseline_mbps: card.baseline_bandwidth_in_gbps.and_then(thousandths),
    })
}

fn ebs(info: types::EbsInfo) -> Option<EbsOptimized> {
    Some(EbsOptimized {
        support: info.ebs_optimized_support?.as_str().to_owned(),
        maximum_bandwidth_mbps: count(
            info.ebs_optimized_info.and_then(|optimized| optimized.maximum_bandwidth_in_mbps),
        ),
    })
}

fn storage(info: types::InstanceStorageInfo) -> Option<InstanceStorage> {
    Some(InstanceStorage {
        total_gb: size(info.total_size_in_gb)?,
        nvme_support: info
            .nvme_support
            .map_or_else(|| "unsupported".to_owned(), |support| support.as_str().to_owned()),
    })
}

fn gpus(info: Option<types::GpuInfo>) -> std::result::Result<Vec<Gpu>, &'static str> {
    let devices = info.and_then(|info| info.gpus).unwrap_or_default();
    devices
        .into_iter()
        .map(|gpu| {
            let whole = count(gpu.count).ok_or("gpus.count")?;
            Ok(Gpu {
                name: gpu.name.ok_or("gpus.name")?,
                manufacturer: gpu.manufacturer.ok_or("gpus.manufacturer")?,
                count: Gpu::devices(whole, count(gpu.logical_gpu_count)),
                memory_mib: count(gpu.memory_info.and_then(|memory| memory.size_in_mib)).map_or(0, u64::from),
            })
        })
        .collect()
}

fn neurons(info: Option<types::NeuronInfo>) -> std::result::Result<Vec<NeuronDevice>, &'static str> {
    let devices = info.and_then(|info| info.neuron_devices).unwrap_or_default();
    devices
        .into_iter()
        .map(|device| {
            Ok(NeuronDevice {
                name: device.name.ok_or("neuronDevices.name")?,
                count: count(device.count).ok_or("neuronDevices.count")?,
                cores: count(device.core_info.and_then(|cores| cores.count))
                    .ok_or("neuronDevices.coreInfo.count")?,
            })
        })
        .collect()
}

fn accelerators(
    info: Option<types::InferenceAcceleratorInfo>,
) -> std::result::Result<Vec<Accelerator>, &'static str> {
    let devices = info.and_then(|info| info.accelerators).unwrap_or_default();
    devices
        .into_iter()
        .map(|device| {
            Ok(Accelerator {
                name: device.name.ok_or("accelerators.name")?,
                manufacturer: device.manufacturer.ok_or("accelerators.manufacturer")?,
                count: count(device.count).ok_or("accelerators.count")?,
            })
        })
        .collect()
}
