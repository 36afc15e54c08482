//! Amount of a capacity that a request takes of a device that is shared.

use karpenter_model::Quantity;
use karpenter_model::device::{CapacityPolicy, CapacityValues, DeviceCapacity};

/// Returns the amount taken of `capacity` when `requested` is asked for; `None` when its policy has no such amount.
///
/// Without a policy the request is taken as it is, and without a request everything. The policy's default stands
/// for a missing request, and amounts are rounded up to the next one it allows.
pub(crate) fn taken(capacity: &DeviceCapacity, requested: Option<Quantity>) -> Option<Quantity> {
    let Some(CapacityPolicy { default, values }) = &capacity.policy else {
        return Some(requested.unwrap_or(capacity.value));
    };
    let Some(wanted) = requested.or(*default) else { return Some(capacity.value) };
    match values {
        CapacityValues::Any => Some(wanted),
        CapacityValues::OneOf(values) => values.iter().copied().filter(|value| *value >= wanted).min(),
        CapacityValues::Range { min, max, step } => {
            let rounded = if wanted <= *min { *min } else { stepped(wanted, *min, *step)? };
            max.is_none_or(|max| rounded <= max).then_some(rounded)
        }
    }
}

/// The least of `min`, `min + step`, and so on that is at least `wanted`, which is more than `min`.
fn stepped(wanted: Quantity, min: Quantity, step: Option<Quantity>) -> Option<Quantity> {
    let Some(step) = step.filter(|step| *step > Quantity::ZERO) else { return Some(wanted) };
    let above = wanted.checked_sub(min)?.nanos();
    let steps = above.checked_add(step.nanos() - 1)? / step.nanos();
    Some(Quantity::from_nanos(min.nanos().checked_add(steps.checked_mul(step.nanos())?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(units: i64) -> Quantity {
        Quantity::from_units(units)
    }

    #[test]
    fn requests_are_rounded_up_to_what_the_policy_allows() {
        let range = |max, step| CapacityValues::Range { min: units(4), max, step };
        let one_of = || CapacityValues::OneOf(vec![units(8), units(2), units(4)]);
        let policy = |values| Some(CapacityPolicy { default: Some(units(3)), values });
        let bare = |values| Some(CapacityPolicy { default: None, values });
        for (case, policy, requested, expected) in [
            ("no policy takes the request", None, Some(7), Some(7)),
            ("no policy and no request take everything", None, None, Some(100)),
            ("the default stands for a missing request", policy(CapacityValues::Any), None, Some(3)),
            ("no default takes everything", bare(one_of()), None, Some(100)),
            ("the default is rounded too", policy(one_of()), None, Some(4)),
            ("the next value", policy(one_of()), Some(5), Some(8)),
            ("a value itself", policy(one_of()), Some(2), Some(2)),
            ("more than any value", policy(one_of()), Some(9), None),
            ("less than the least", policy(range(None, None)), Some(1), Some(4)),
            ("any amount in a range without steps", policy(range(None, None)), Some(9), Some(9)),
            ("the next step", policy(range(None, Some(units(3)))), Some(8), Some(10)),
            ("a step itself", policy(range(None, Some(units(3)))), Some(7), Some(7)),
            ("more than the most", policy(range(Some(units(10)), None)), Some(11), None),
            ("rounded to more than the most", policy(range(Some(units(9)), Some(units(3)))), Some(8), None),
        ] {
            let capacity = DeviceCapacity { value: units(100), policy };
            assert_eq!(taken(&capacity, requested.map(units)), expected.map(units), "{case}");
        }
    }
}
