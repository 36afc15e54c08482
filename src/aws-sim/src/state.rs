//! Everything the account holds, and what the passing of time does to it.
//!
//! Each service owns its tables; this file only composes them and settles time across them, because an instance
//! that ends gives addresses back to EC2 and sends a notice through `EventBridge` to SQS.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::calls::CallLog;
use super::catalogue::{Catalogue, published_images};
use super::cloudformation::Stacks;
use super::ec2::Compute;
use super::eks::Clusters;
use super::events::Bus;
use super::faults::{Bucket, Effect, Fault, Faults};
use super::iam::Directory;
use super::notices;
use super::options::Options;
use super::sqs::Queues;
use super::survey::Surroundings;
use karpenter_aws_api::Partition;
use karpenter_aws_api::id::Zone;
use karpenter_aws_api::shift::Shift;

/// The account's tables.
#[derive(Debug)]
pub(super) struct State {
    pub(super) region: String,
    pub(super) account: String,
    pub(super) partition: Partition,
    pub(super) catalogue: Catalogue,
    pub(super) compute: Compute,
    pub(super) directory: Directory,
    pub(super) queues: Queues,
    pub(super) bus: Bus,
    pub(super) clusters: Clusters,
    pub(super) stacks: Stacks,
    pub(super) parameters: BTreeMap<String, String>,
    pub(super) surroundings: Surroundings,
    /// Away from which zones, for every registered cluster.
    pub(super) shifts: Vec<Shift>,
    pub(super) calls: CallLog,
    faults: Faults,
    buckets: BTreeMap<String, Bucket>,
    pub(super) ids: Ids,
}

/// Gives new resources their ids: counted, so that a run can be repeated.
#[derive(Debug, Default)]
pub(super) struct Ids(u64);

impl Ids {
    /// `<prefix>-<17 hex digits>`, never given before.
    pub(super) fn next(&mut self, prefix: &str) -> String {
        self.0 += 1;
        format!("{prefix}-{:017x}", self.0)
    }
}

impl State {
    pub(super) fn new(options: &Options, now: Timestamp) -> Self {
        let zones: Vec<Zone> = (b'a'..)
            .take(usize::from(options.zones.clamp(1, 6)))
            .map(|letter| Zone::from(format!("{}{}", options.region, char::from(letter))))
            .collect();
        let (images, parameters) = published_images(&options.kubernetes_version, now);
        let partition = Partition::of_region(&options.region);
        let compute = Compute::new(options, &zones, images);
        let clusters = Clusters::new(options, partition, compute.network.subnets.keys().cloned().collect());
        let surroundings = Surroundings::new(compute.network.vpcs.keys().cloned());
        Self {
            region: options.region.clone(),
            account: options.account.clone(),
            partition,
            catalogue: Catalogue::generate(&zones, options.instance_types),
            compute,
            directory: Directory::new(options, partition, now),
            queues: Queues::default(),
            bus: Bus::default(),
            clusters,
            stacks: Stacks::default(),
            parameters,
            surroundings,
            shifts: Vec::new(),
            calls: CallLog::default(),
            faults: Faults::default(),
            buckets: BTreeMap::new(),
            ids: Ids::default(),
        }
    }

    /// Brings the account up to `now`: instances boot and end, reclaimed spot instances go, addresses and
    /// capacity come back, state changes are announced.
    pub(super) fn settle(&mut self, options: &Options, now: Timestamp) {
        for (id, state, at) in self.compute.settle(options, now) {
            notices::state_changed(self, &id, state, at);
        }
        self.queues.expire(now);
    }

    /// True once after messages were delivered.
    pub(super) fn take_deliveries(&mut self) -> bool {
        std::mem::take(&mut self.queues.delivered)
    }

    pub(super) fn arn(&self, service: &str, resource: &str) -> String {
        let (partition, region, account) = (self.partition.arn_prefix(), &self.region, &self.account);
        format!("arn:{partition}:{service}:{region}:{account}:{resource}")
    }

    /// The fault or throttling that hits this call.
    pub(super) fn strike(&mut self, operation: &str, subject: &str, now: Timestamp) -> Option<Effect> {
        if let Some(effect) = self.faults.strike(operation, subject, now) {
            return Some(effect);
        }
        let bucket = self.buckets.get_mut(operation)?;
        let message = "Request limit exceeded.".to_owned();
        (!bucket.take(now)).then(|| Effect::Fail { code: "RequestLimitExceeded".to_owned(), message })
    }

    pub(super) fn inject(&mut self, fault: Fault) {
        self.faults.add(fault);
    }

    pub(super) fn clear_faults(&mut self) {
        self.faults.clear();
        self.buckets.clear();
    }

    pub(super) fn throttle(&mut self, operation: &str, burst: u32, per_second: u32, now: Timestamp) {
        self.buckets.insert(operation.to_owned(), Bucket::full(burst, per_second, now));
    }
}
