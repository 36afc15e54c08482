//! Number of pods a buffer holds room for. Exact integers throughout.

use karpenter_model::{Buffer, Resources};

use super::Pattern;

/// Most virtual pods of one buffer: a limit in terabytes over a pod that asks for a byte must not fill our memory.
pub(crate) const MOST_PODS: u32 = 10_000;

/// The number of pods `buffer` holds room for, each like `pattern`, at most [`MOST_PODS`].
///
/// The larger of the fixed number and the percentage counts, capped by the limits; with neither of the two, the limits
/// alone decide. A percentage of nothing is not a number: a workload scaled to zero leaves the others to decide.
pub fn replicas(buffer: &Buffer, pattern: &Pattern) -> u32 {
    let share = buffer.percentage.zip(pattern.replicas.filter(|replicas| *replicas > 0));
    let share = share.map(|(percentage, replicas)| {
        let hundredths = u64::from(percentage) * u64::from(replicas);
        u32::try_from(hundredths.div_ceil(100)).unwrap_or(u32::MAX)
    });
    let wanted = buffer.replicas.max(share);
    let most = buffer.limits.as_ref().and_then(|limits| within(limits, &pattern.pod.requests));
    wanted.into_iter().chain(most).min().unwrap_or(0).min(MOST_PODS)
}

/// Number of pods with these requests that fit into `limits`, by the resources both name, in whole milli units as the
/// reference counts; `None` when they have none in common. A pod that asks for nothing of a resource is not limited by it.
fn within(limits: &Resources, requests: &Resources) -> Option<u32> {
    let fits = requests.iter().filter_map(|(name, request)| {
        // A negative limit holds no pod; divided, it would come out as a number that cannot be converted, and
        // be no limit at all.
        let limit = limits.get(name.as_str())?.as_millis_ceil().max(0);
        let request = request.as_millis_ceil();
        (request > 0).then(|| u32::try_from(limit / request).unwrap_or(u32::MAX))
    });
    fits.min()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use karpenter_model::{BufferKey, Pod, PodKey};
    use proptest::prelude::*;

    use super::*;

    /// Resources with their amounts.
    type Amounts<'a> = &'a [(&'a str, &'a str)];

    fn amounts(list: Amounts<'_>) -> Resources {
        list.iter().map(|(name, text)| ((*name).into(), text.parse().unwrap())).collect()
    }

    fn pattern(requests: &[(&str, &str)], replicas: Option<u32>) -> Pattern {
        let pod = Pod::pending(PodKey::new("shop", "a"), "", Timestamp::UNIX_EPOCH);
        Pattern { pod: pod.with(|pod| pod.requests = amounts(requests)), replicas }
    }

    fn buffer(replicas: Option<u32>, percentage: Option<u32>, limits: Option<&[(&str, &str)]>) -> Buffer {
        let key = BufferKey::new("shop", "spare");
        let limits = limits.map(amounts);
        Buffer { key, uid: "u".into(), like: None, replicas, percentage, limits }
    }

    #[test]
    fn the_larger_of_number_and_share_counts() {
        // Fixed number, percentage, replicas of the workload, pods.
        let table = [
            (None, None, Some(10), 0),
            (Some(3), None, None, 3),
            (Some(0), None, Some(10), 0),
            (None, Some(20), Some(10), 2),
            (None, Some(21), Some(10), 3),
            (None, Some(1), Some(1), 1),
            (None, Some(0), Some(10), 0),
            (None, Some(250), Some(4), 10),
            (None, Some(20), Some(0), 0),
            (None, Some(20), None, 0),
            (Some(2), Some(50), Some(10), 5),
            (Some(7), Some(50), Some(10), 7),
            (Some(7), Some(50), Some(0), 7),
            (None, Some(u32::MAX), Some(u32::MAX), MOST_PODS),
            (Some(u32::MAX), None, None, MOST_PODS),
        ];
        for (fixed, percentage, workload, expected) in table {
            let pattern = pattern(&[("cpu", "1")], workload);
            let got = replicas(&buffer(fixed, percentage, None), &pattern);
            assert_eq!(got, expected, "{fixed:?} {percentage:?}% of {workload:?}");
        }
    }

    #[test]
    fn limits_cap_and_alone_decide() {
        let one_of_each = [("cpu", "500m"), ("memory", "1Gi")];
        // Fixed number, limits, pods.
        let table: [(Option<u32>, Amounts<'_>, u32); 11] = [
            (None, &[("cpu", "2")], 4),
            (None, &[("cpu", "2499m")], 4),
            (None, &[("cpu", "2"), ("memory", "3Gi")], 3),
            (Some(10), &[("cpu", "2")], 4),
            (Some(2), &[("cpu", "2")], 2),
            (Some(2), &[("cpu", "499m")], 0),
            (Some(2), &[("nvidia.com/gpu", "0")], 2),
            (None, &[("nvidia.com/gpu", "8")], 0),
            (None, &[], 0),
            (Some(2), &[("cpu", "0")], 0),
            (None, &[("cpu", "1P")], MOST_PODS),
        ];
        for (fixed, limits, expected) in table {
            let got = replicas(&buffer(fixed, None, Some(limits)), &pattern(&one_of_each, None));
            assert_eq!(got, expected, "{fixed:?} within {limits:?}");
        }
    }

    #[test]
    fn a_workload_at_zero_leaves_the_limits_to_decide() {
        let buffer = buffer(None, Some(20), Some(&[("cpu", "3")]));
        assert_eq!(replicas(&buffer, &pattern(&[("cpu", "1")], Some(0))), 3);
        assert_eq!(replicas(&buffer, &pattern(&[("cpu", "1")], Some(10))), 2);
    }

    #[test]
    fn what_a_pod_does_not_ask_for_does_not_limit_it() {
        let buffer = buffer(Some(5), None, Some(&[("cpu", "1")]));
        assert_eq!(replicas(&buffer, &pattern(&[("cpu", "0")], None)), 5);
        assert_eq!(replicas(&buffer, &pattern(&[], None)), 5);
    }

    proptest! {
        /// The share is the least whole number that is not less than asked for, and the limits hold for the sum while
        /// one pod more would break them or the number.
        #[test]
        fn as_many_as_asked_for_and_not_one_beyond_the_limits(
            percentage in 1u32..500,
            workload in 1u32..200,
            request in 1i64..5_000,
            limit in 0i64..5_000_000,
        ) {
            let (request, limit) = (format!("{request}m"), format!("{limit}m"));
            let pattern = pattern(&[("cpu", &request)], Some(workload));
            let free = replicas(&buffer(None, Some(percentage), None), &pattern);
            prop_assert!(u64::from(free) * 100 >= u64::from(percentage) * u64::from(workload));
            prop_assert!(u64::from(free - 1) * 100 < u64::from(percentage) * u64::from(workload));
            let capped = replicas(&buffer(None, Some(percentage), Some(&[("cpu", &limit)])), &pattern);
            let sum = |pods: u32| pattern.pod.requests.amount("cpu").saturating_mul(i64::from(pods)).nanos();
            let limit = amounts(&[("cpu", &limit)]).amount("cpu").nanos();
            prop_assert!(sum(capped) <= limit);
            prop_assert!(capped == free || sum(capped + 1) > limit);
        }
    }
}
