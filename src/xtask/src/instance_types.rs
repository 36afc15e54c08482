//! The table of instance types that plans without an account choose from, out of a recorded answer of `DescribeInstanceTypes`.
//!
//! The answer is that of the largest region, whole: `aws ec2 describe-instance-types --region us-east-1 --output json`. The
//! table keeps what `InstanceTypeInfo` has, a line per type.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use karpenter_aws_api::ec2::Gpu;
use serde_json::Value;

const TABLE: &str = "src/aws-sim/data/instance-types.txt";

/// Types of the current generation that the largest region has at least; fewer mean an answer that was cut.
const LEAST: usize = 1_000;

/// Writes the table from the recorded `answer`; `source` is where and when that was recorded.
pub(crate) fn record(root: &Path, answer: &Path, source: &str) -> Result<()> {
    let text = fs::read_to_string(answer).with_context(|| format!("cannot read `{}`", answer.display()))?;
    let answer: Value =
        serde_json::from_str(&text).with_context(|| format!("cannot read `{}` as JSON", answer.display()))?;
    let types = answer["InstanceTypes"].as_array().context("the answer has no list `InstanceTypes`")?;
    ensure!(types.len() >= LEAST, "the answer has {} types; record all pages of it", types.len());
    fs::write(root.join(TABLE), table(types, source)?).with_context(|| format!("cannot write `{TABLE}`"))
}

fn table(types: &[Value], source: &str) -> Result<String> {
    let mut lines = BTreeMap::new();
    for info in types {
        let name = info["InstanceType"].as_str().context("an instance type has no `InstanceType`")?;
        let line = line(name, info).with_context(|| format!("cannot read instance type `{name}`"))?;
        lines.insert(name, line);
    }
    let mut table = format!("# Written by `cargo xtask instance-types`. {source}\n");
    table.push_str(
        "# type, architectures, usage classes, vCPUs, memory MiB, hypervisor, flags (metal, current, burstable, encrypts, enclaves), vendor, \
         MHz, features, cards (index:interfaces:Mbit/s), default card, interfaces, IPv4, IPv6, ENA, EFA, EBS (support:Mbit/s), \
         disks (GB:NVMe), GPUs (name:vendor:count:MiB), Neuron (name:count:cores), inference (name:vendor:count), placement\n",
    );
    for line in lines.into_values() {
        table.push_str(&line);
        table.push('\n');
    }
    Ok(table)
}

/// The fields of one type, separated by tabs.
fn line(name: &str, info: &Value) -> Result<String> {
    let (network, processor) = (&info["NetworkInfo"], &info["ProcessorInfo"]);
    let flags = [
        ("metal", &info["BareMetal"]),
        ("current", &info["CurrentGeneration"]),
        ("burstable", &info["BurstablePerformanceSupported"]),
        ("encrypts", &network["EncryptionInTransitSupported"]),
        ("enclaves", &info["NitroEnclavesSupport"]),
    ];
    let is_set = |value: &Value| value.as_bool() == Some(true) || value.as_str() == Some("supported");
    let flags: Vec<&str> = flags.iter().filter(|(_, set)| is_set(set)).map(|(flag, _)| *flag).collect();
    let cards = each(&network["NetworkCards"], |card| {
        let index = number(&card["NetworkCardIndex"])?;
        let interfaces = number(&card["MaximumNetworkInterfaces"])?;
        Ok(format!("{index}:{interfaces}:{}", thousandths(&card["BaselineBandwidthInGbps"])))
    })?;
    let gpus = each(&info["GpuInfo"]["Gpus"], |gpu| {
        let few = |count: u64| u32::try_from(count).ok();
        let whole = few(number(&gpu["Count"])?).context("a type has more GPUs than can be counted")?;
        let count = Gpu::devices(whole, gpu["LogicalGpuCount"].as_u64().and_then(few));
        let memory = gpu["MemoryInfo"]["SizeInMiB"].as_u64().unwrap_or(0);
        Ok(format!("{}:{}:{count}:{memory}", text(&gpu["Name"])?, text(&gpu["Manufacturer"])?))
    })?;
    let neuron = each(&info["NeuronInfo"]["NeuronDevices"], |device| {
        let (count, cores) = (number(&device["Count"])?, number(&device["CoreInfo"]["Count"])?);
        Ok(format!("{}:{count}:{cores}", text(&device["Name"])?))
    })?;
    let inference = each(&info["InferenceAcceleratorInfo"]["Accelerators"], |device| {
        let count = number(&device["Count"])?;
        Ok(format!("{}:{}:{count}", text(&device["Name"])?, text(&device["Manufacturer"])?))
    })?;
    let ebs = &info["EbsInfo"];
    let ebs = ebs["EbsOptimizedSupport"].as_str().map_or_else(String::new, |support| {
        let most = ebs["EbsOptimizedInfo"]["MaximumBandwidthInMbps"].as_u64();
        format!("{support}:{}", most.map_or_else(String::new, |most| most.to_string()))
    });
    let disks = &info["InstanceStorageInfo"];
    let disks = disks["TotalSizeInGB"].as_u64().map_or_else(String::new, |total| {
        format!("{total}:{}", disks["NvmeSupport"].as_str().unwrap_or("unsupported"))
    });
    let fields = [
        name.to_owned(),
        names(&processor["SupportedArchitectures"]),
        names(&info["SupportedUsageClasses"]),
        number(&info["VCpuInfo"]["DefaultVCpus"])?.to_string(),
        number(&info["MemoryInfo"]["SizeInMiB"])?.to_string(),
        info["Hypervisor"].as_str().unwrap_or_default().to_owned(),
        flags.join(","),
        processor["Manufacturer"].as_str().unwrap_or_default().to_owned(),
        thousandths(&processor["SustainedClockSpeedInGhz"]),
        names(&processor["SupportedFeatures"]),
        cards,
        network["DefaultNetworkCardIndex"].as_u64().unwrap_or(0).to_string(),
        number(&network["MaximumNetworkInterfaces"])?.to_string(),
        number(&network["Ipv4AddressesPerInterface"])?.to_string(),
        network["Ipv6AddressesPerInterface"].as_u64().unwrap_or(0).to_string(),
        network["EnaSupport"].as_str().unwrap_or("unsupported").to_owned(),
        network["EfaInfo"]["MaximumEfaInterfaces"].as_u64().unwrap_or(0).to_string(),
        ebs,
        disks,
        gpus,
        neuron,
        inference,
        names(&info["PlacementGroupInfo"]["SupportedStrategies"]),
    ];
    let line = fields.join("\t");
    ensure!(line.matches('\t').count() == fields.len() - 1, "a field holds a tab");
    Ok(line)
}

fn number(value: &Value) -> Result<u64> {
    value.as_u64().with_context(|| format!("`{value}` is no count"))
}

/// A name that may stand in a list of this table.
fn text(value: &Value) -> Result<&str> {
    let text = value.as_str().with_context(|| format!("`{value}` is no name"))?;
    ensure!(!text.contains([':', ',']), "name `{text}` holds a separator");
    Ok(text)
}

fn names(value: &Value) -> String {
    let names: Vec<&str> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    names.join(",")
}

fn each(value: &Value, write: impl Fn(&Value) -> Result<String>) -> Result<String> {
    let entries: Vec<String> = value.as_array().into_iter().flatten().map(write).collect::<Result<_>>()?;
    Ok(entries.join(","))
}

/// EC2 sends gigahertz and gigabits with up to three decimals.
fn thousandths(value: &Value) -> String {
    value.as_f64().map_or_else(String::new, |value| format!("{:.0}", value * 1000.0))
}
