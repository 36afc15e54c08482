//! Place of a launch in a placement group (spec aws-provider 10).

use karpenter_model::Requirements;
use karpenter_model::names::label::aws;

use super::filter::Candidate;
use crate::catalogue::offerings::partition_of;
use crate::market::unavailable::Place;
use crate::network::placement_groups::Group;

/// A placement group, and the partition of it that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub group: Group,
    /// Number of the partition, from 1; `None` leaves the choice to EC2.
    pub partition: Option<u32>,
}

impl Placed {
    /// Place that a failure of the launch counts against.
    pub fn place(&self) -> Place {
        Place { group: self.group.id.clone(), partition: self.partition }
    }

    /// The partition as a label, empty while only EC2 has it; `None` in groups without partitions.
    pub(crate) fn partition_label(&self) -> Option<String> {
        let label = self.partition.map(|partition| partition.to_string()).unwrap_or_default();
        (self.group.partitions > 0).then_some(label)
    }
}

/// Decides on the partition and leaves only offerings in it.
///
/// EC2 spreads instances over partitions by itself, so one is asked for only when the claim rules another one out:
/// then the lowest that still has an offering.
pub fn place(
    group: Group,
    requirements: &Requirements,
    candidates: Vec<Candidate>,
) -> (Placed, Vec<Candidate>) {
    let wanted = requirements.get(aws::PLACEMENT_GROUP_PARTITION);
    let free = group
        .all_partitions()
        .all(|partition| wanted.is_none_or(|wanted| wanted.allows(&partition.to_string())));
    if free {
        return (Placed { group, partition: None }, candidates);
    }
    let offerings = candidates.iter().flat_map(|candidate| &candidate.offerings);
    let partition = offerings.filter_map(partition_of).min();
    let in_it = |mut candidate: Candidate| {
        candidate.offerings.retain(|offering| partition_of(offering) == partition);
        (!candidate.offerings.is_empty()).then_some(candidate)
    };
    let candidates = candidates.into_iter().filter_map(in_it).collect();
    (Placed { group, partition }, candidates)
}

#[cfg(test)]
mod tests {
    use karpenter_aws_api::ec2::PlacementStrategy;
    use karpenter_model::{CapacityType, Expression, Offering, Operator, Price, Requirement};

    use super::*;
    use crate::registry::label_registry;
    use crate::testing;

    fn candidate(name: &str, partitions: &[&str]) -> Candidate {
        let offering = |partition: &&str| Offering {
            requirements: [Requirement::one_of(aws::PLACEMENT_GROUP_PARTITION.into(), [(*partition).into()])]
                .into_iter()
                .collect(),
            ..Offering::new("a", CapacityType::OnDemand, Price::from_nanos(1))
        };
        testing::candidate(name, partitions.iter().map(offering).collect())
    }

    fn group() -> Group {
        Group { id: "pg-1".into(), strategy: PlacementStrategy::Partition, partitions: 3 }
    }

    #[test]
    fn a_partition_is_asked_for_only_when_another_is_ruled_out() {
        let key = aws::PLACEMENT_GROUP_PARTITION;
        for (operator, values, available, partition, left) in [
            (Operator::Exists, &[][..], &["1", "2", "3"][..], None, 2),
            (Operator::In, &["1", "2", "3"], &["1", "2", "3"], None, 2),
            (Operator::In, &["3", "2"], &["2", "3"], Some(2), 2),
            (Operator::In, &["2", "3"], &["3"], Some(3), 1),
            (Operator::NotIn, &["1"], &["2", "3"], Some(2), 2),
        ] {
            let expression = Expression::new(key, operator, values);
            let wanted = Requirements::from_expressions(&label_registry(), &[expression]);
            let others = if partition == Some(3) { &[][..] } else { available };
            let candidates = vec![candidate("m5.large", available), candidate("m5.xlarge", others)];
            let (placed, candidates) = place(group(), &wanted, candidates);
            let kept = candidates.iter().filter(|candidate| !candidate.offerings.is_empty()).count();
            assert_eq!((placed.partition, kept), (partition, left), "{operator:?} {values:?}");
        }
    }

    #[test]
    fn the_label_is_empty_while_only_ec2_knows_and_absent_without_partitions() {
        let spread = Group { strategy: PlacementStrategy::Spread, partitions: 0, ..group() };
        for (group, partition, label) in
            [(group(), Some(2), Some("2")), (group(), None, Some("")), (spread, None, None)]
        {
            assert_eq!(Placed { group, partition }.partition_label().as_deref(), label);
        }
    }
}
