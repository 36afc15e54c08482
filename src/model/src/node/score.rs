//! Scores that the scheduler of Kubernetes gives a node by how full a pod would leave it, in its default profile:
//! `NodeResourcesFit` with `LeastAllocated`, and `NodeResourcesBalancedAllocation`, each over CPU and memory with equal weights
//! (<https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins>). The planner asks where the scheduler would put
//! pods, and the scheduler of simulations is held to the real one by the same figures.

/// Highest score of one plugin.
pub const MAX: i64 = 100;

/// Amount of a resource that pods ask for on a node, the pod to be placed among them, and the amount for pods. Both in one
/// unit, whichever; a node that has none of the resource has no score for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Amount that pods ask for.
    pub requested: i128,
    /// Amount that the node has for pods.
    pub allocatable: i128,
}

/// Returns the score for free resources: the mean of their free percentages, 0 to [`MAX`], rounded down at each step.
///
/// Containers without a request count with [`UNSAID_MILLIS`] and [`UNSAID_BYTES`] in `requested`.
pub fn least_allocated(shares: [Share; 2]) -> i64 {
    let known = shares.into_iter().filter(|share| share.allocatable > 0);
    let free: Vec<i128> = known.map(|share| percent_free(&share)).collect();
    let count = i128::try_from(free.len()).unwrap_or(1).max(1);
    i64::try_from(free.iter().sum::<i128>() / count).unwrap_or(MAX)
}

/// Returns the score for balance, 0 to [`MAX`]: the less, the further apart the used shares of the two resources are.
///
/// Here containers without a request count nothing; a pod without any request gets no such score from the scheduler.
pub fn balanced(shares: [Share; 2]) -> i64 {
    let used = shares.map(|share| (share.allocatable > 0).then(|| used(&share)));
    let deviation = match used {
        [Some(one), Some(other)] => ((one - other) / 2.0).abs(),
        _ => 0.0,
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the score is cut to an integer, as the scheduler does"
    )]
    let score = ((1.0 - deviation) * 100.0) as i64;
    score
}

/// Thousandths of a processor that a container without a request of CPU counts for.
pub const UNSAID_MILLIS: i64 = 100;

/// Bytes that a container without a request of memory counts for.
pub const UNSAID_BYTES: i64 = 200 * 1024 * 1024;

fn percent_free(share: &Share) -> i128 {
    (share.allocatable - share.requested).max(0) * i128::from(MAX) / share.allocatable
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the scheduler divides in this precision, and rounds where it does"
)]
fn used(share: &Share) -> f64 {
    (share.requested as f64 / share.allocatable as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thousandths of processors and MiB of a node of 4,000 and 10,000: expected scores as the tests of kube-scheduler
    /// state them (`least_allocated_test.go`, `balanced_allocation_test.go`).
    #[test]
    fn scores_are_those_of_the_scheduler() {
        let of = |cpu: (i128, i128), memory: (i128, i128)| {
            [cpu, memory].map(|(requested, allocatable)| Share { requested, allocatable })
        };
        for (cpu, memory, free, even) in [
            ((0, 4_000), (0, 10_000), 100, 100),
            ((3_000, 4_000), (5_000, 10_000), 37, 87),
            ((3_000, 6_000), (5_000, 10_000), 50, 100),
            ((6_000, 10_000), (0, 20_000), 70, 70),
            ((6_000, 10_000), (10_000, 20_000), 45, 95),
            ((6_000, 4_000), (0, 10_000), 50, 50),
            ((0, 0), (0, 0), 0, 100),
        ] {
            let shares = of(cpu, memory);
            assert_eq!((least_allocated(shares), balanced(shares)), (free, even), "{shares:?}");
        }
    }
}
