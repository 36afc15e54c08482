//! The calls about instances that are made for many at once (spec aws-provider 5.8), and how often.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use karpenter_aws_api::ec2::{Ec2, Instance, InstanceQuery, InstanceState};
use karpenter_aws_api::id::InstanceId;
use karpenter_aws_api::{Error, Filter, Result, Tags};

use crate::calls::batch::{Answers, Batcher, Kind, Rate, Turns, apart};
use crate::calls::observer::Observer;
use crate::tags;

/// EC2 takes up to a thousand ids, and answers slowly when they are many.
const MOST_IDS: usize = 500;
/// Most values of one filter.
const MOST_VALUES: usize = 200;

/// Fifteen a minute, however many instances are ending or being named.
const BY_ID: Kind = Kind {
    name: "describe_instances",
    operation: "DescribeInstances",
    most: MOST_IDS,
    rate: Rate { burst: 5, every: Duration::from_secs(4) },
    plenty: MOST_IDS,
};
/// A launch waits for this, so the wait is shorter; only the second attempt at a launch makes the call.
const BY_CLAIM: Kind = Kind {
    name: "describe_instances_of_claims",
    most: MOST_VALUES,
    rate: Rate { burst: 10, every: Duration::from_secs(2) },
    plenty: 50,
    ..BY_ID
};
/// Five a minute when it goes on with few. The first come at once, so that a few machines that end never wait.
const END: Kind = Kind {
    name: "terminate_instances",
    operation: "TerminateInstances",
    most: MOST_IDS,
    rate: Rate { burst: 5, every: Duration::from_secs(12) },
    plenty: 50,
};
const TAG: Kind = Kind {
    name: "create_tags",
    operation: "CreateTags",
    most: MOST_IDS,
    rate: Rate { burst: 5, every: Duration::from_secs(1) },
    plenty: MOST_IDS,
};
/// Names differ, so each takes a call of its own. Volumes are tagged out of the same small quota, and are more urgent.
const TAGGING: Rate = Rate { burst: 20, every: Duration::from_millis(500) };

/// The calls.
#[derive(Debug)]
pub(super) struct Calls {
    /// An instance as it is now.
    pub(super) by_id: Batcher<InstanceId, Instance>,
    /// The instances of a claim that are not terminated.
    pub(super) by_claim: Batcher<String, Vec<Instance>>,
    /// Ends an instance; the state it is in then.
    pub(super) end: Batcher<InstanceId, InstanceState>,
    /// Writes tags.
    pub(super) tag: Batcher<Tagged, ()>,
}

/// Tags for an instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tagged {
    /// First, so that instances that get the same tags are next to each other.
    pub(super) tags: Tags,
    pub(super) id: InstanceId,
}

impl fmt::Display for Tagged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

impl Calls {
    /// Calls about the instances of one cluster.
    pub(super) fn new(ec2: &Arc<dyn Ec2>, cluster: &str, observer: &Arc<dyn Observer>) -> Self {
        let watched = || Arc::clone(observer);
        let reader = Arc::clone(ec2);
        let by_id = move |ids| describe(Arc::clone(&reader), ids);
        let (finder, cluster) = (Arc::clone(ec2), cluster.to_owned());
        let by_claim = move |claims| find(Arc::clone(&finder), cluster.clone(), claims);
        let ender = Arc::clone(ec2);
        let end = move |ids| end(Arc::clone(&ender), ids);
        let (writer, turns) = (Arc::clone(ec2), Arc::new(Turns::new(TAGGING)));
        let tag = move |wanted| tag(Arc::clone(&writer), Arc::clone(&turns), wanted);
        Self {
            by_id: Batcher::new(BY_ID, watched(), by_id),
            by_claim: Batcher::new(BY_CLAIM, watched(), by_claim),
            end: Batcher::new(END, watched(), end),
            tag: Batcher::new(TAG, watched(), tag),
        }
    }
}

async fn describe(ec2: Arc<dyn Ec2>, ids: BTreeSet<InstanceId>) -> Answers<InstanceId, Instance> {
    let ec2 = &ec2;
    let call = |ids| async move {
        let found = ec2.describe_instances(&InstanceQuery { ids, filters: Vec::new() }).await?;
        Ok(found.into_iter().map(|instance| (instance.id.clone(), instance)).collect())
    };
    apart::ask(BY_ID.operation, ids, call).await
}

async fn find(
    ec2: Arc<dyn Ec2>,
    cluster: String,
    claims: BTreeSet<String>,
) -> Answers<String, Vec<Instance>> {
    let filters = vec![
        Filter::new(format!("tag:{}", tags::NODE_CLAIM), claims.iter().cloned()),
        Filter::tag(tags::CLUSTER_NAME, &cluster),
        Filter::new("instance-state-name", InstanceState::ALIVE.map(InstanceState::as_str)),
    ];
    // A filter takes names that no instance has, unlike a list of ids: an error is never about one claim alone.
    let found = ec2.describe_instances(&InstanceQuery { ids: Vec::new(), filters }).await;
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            let about = |claim: String| (claim.clone(), Err(Error { subject: claim, ..error.clone() }));
            return claims.into_iter().map(about).collect();
        }
    };
    let mut of_claims: BTreeMap<String, Vec<Instance>> = BTreeMap::new();
    for instance in found {
        if let Some(claim) = instance.tags.get(tags::NODE_CLAIM).cloned() {
            of_claims.entry(claim).or_default().push(instance);
        }
    }
    claims
        .into_iter()
        .map(|claim| (claim.clone(), Ok(of_claims.remove(&claim).unwrap_or_default())))
        .collect()
}

async fn end(ec2: Arc<dyn Ec2>, ids: BTreeSet<InstanceId>) -> Answers<InstanceId, InstanceState> {
    let ec2 = &ec2;
    let call = |ids: Vec<InstanceId>| async move {
        let changes = ec2.terminate_instances(&ids).await?;
        Ok(changes.into_iter().map(|change| (change.id, change.current)).collect())
    };
    apart::ask(END.operation, ids, call).await
}

/// One call for all instances that get the same tags.
async fn tag(ec2: Arc<dyn Ec2>, turns: Arc<Turns>, wanted: BTreeSet<Tagged>) -> Answers<Tagged, ()> {
    let mut groups: BTreeMap<Tags, Vec<InstanceId>> = BTreeMap::new();
    for Tagged { tags, id } in wanted {
        groups.entry(tags).or_default().push(id);
    }
    let (ec2, turns) = (&ec2, &turns);
    let mut answers = Answers::new();
    for (tags, ids) in groups {
        let same = &tags;
        let call = |ids: Vec<InstanceId>| async move {
            turns.next().await;
            let resources: Vec<String> = ids.iter().map(ToString::to_string).collect();
            ec2.create_tags(&resources, same).await?;
            Ok::<_, Error>(ids.into_iter().map(|id| (id, ())).collect())
        };
        let written: Answers<InstanceId, ()> = apart::ask(TAG.operation, ids, call).await;
        answers.extend(
            written
                .into_iter()
                .map(|(id, answer): (_, Result<()>)| (Tagged { tags: tags.clone(), id }, answer)),
        );
    }
    answers
}
