//! The region's instance types and the zones they are sold in, as last described (spec aws-provider 3.1).
//!
//! Types are remembered until a complete answer without them arrives. An entry EC2 described incompletely keeps
//! its previous description: a missing field is not a vanished type.

pub mod adapters;
pub mod density;
pub mod discovered;
pub mod instance_type;
pub mod instance_types;
pub mod offerings;
pub mod vpc_limits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_aws_api::ec2::{Ec2, InstanceTypeInfo, InstanceTypeQuery};
use karpenter_aws_api::id::{InstanceType, Zone};
use karpenter_aws_api::{Error, Filter, Result};
use parking_lot::RwLock;

/// Holder of the catalogue.
#[derive(Debug)]
pub struct Catalogue {
    ec2: Arc<dyn Ec2>,
    current: RwLock<Contents>,
}

/// One consistent state of the catalogue. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Changes whenever the contents do.
    pub revision: u64,
    /// Types by name.
    pub types: Arc<BTreeMap<InstanceType, InstanceTypeInfo>>,
    /// Zones each type is offered in.
    pub zones: Arc<BTreeMap<InstanceType, BTreeSet<Zone>>>,
}

impl Contents {
    /// Returns whether both halves have been read.
    pub fn known(&self) -> bool {
        !self.types.is_empty() && !self.zones.is_empty()
    }

    /// Every zone of the region anything is offered in.
    pub(crate) fn all_zones(&self) -> BTreeSet<&Zone> {
        self.zones.values().flatten().collect()
    }
}

impl Catalogue {
    /// An empty catalogue.
    pub fn new(ec2: Arc<dyn Ec2>) -> Self {
        Self { ec2, current: RwLock::default() }
    }

    /// The catalogue as it is now.
    pub fn contents(&self) -> Contents {
        self.current.read().clone()
    }

    /// Describes types and offerings again. Returns whether anything changed.
    ///
    /// # Errors
    /// When a call fails or answers nothing; the old contents stay.
    pub async fn refresh(&self) -> Result<bool> {
        let query = InstanceTypeQuery {
            types: Vec::new(),
            // Older generations and bare metal are left to the pools (spec aws-provider 3.1).
            filters: vec![
                Filter::new("supported-virtualization-type", ["hvm"]),
                Filter::new("processor-info.supported-architecture", ["x86_64", "arm64"]),
            ],
        };
        let (types, offerings) = futures::try_join!(
            self.ec2.describe_instance_types(&query),
            self.ec2.describe_instance_type_offerings(&[])
        )?;
        // Taken for an answer, an empty list would mean that no type is sold any more, and all nodes would
        // drift.
        if types.items.is_empty() {
            return Err(Error::invalid("DescribeInstanceTypes", "all types", "the answer has no types"));
        }
        if offerings.items.is_empty() {
            return Err(Error::invalid("DescribeInstanceTypeOfferings", "all zones", "the answer is empty"));
        }
        let mut by_name: BTreeMap<_, _> =
            types.items.into_iter().map(|info| (info.name.clone(), info)).collect();
        let mut zones: BTreeMap<InstanceType, BTreeSet<Zone>> = BTreeMap::new();
        for offering in offerings.items {
            zones.entry(offering.instance_type).or_default().insert(offering.zone);
        }
        let mut current = self.current.write();
        for skipped in &types.skipped {
            tracing::warn!(instance_type = %skipped.entry, why = %skipped.why, "instance type described incompletely");
            let name = InstanceType::from(skipped.entry.as_str());
            if let Some(previous) = current.types.get(&name) {
                by_name.entry(name).or_insert_with(|| previous.clone());
            }
        }
        let changed = *current.types != by_name || *current.zones != zones;
        if changed {
            *current =
                Contents { revision: current.revision + 1, types: Arc::new(by_name), zones: Arc::new(zones) };
        }
        Ok(changed)
    }
}
