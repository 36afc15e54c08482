//! Variants that can hold an amount: per resource, the variants sorted by what they have.

use crate::amounts::Amounts;
use crate::bits::Bits;
use crate::index::{Ix, IxVec, ResourceIx, VariantIx};

/// Thresholds of each resource in ascending order, and the variants that have at least that much.
#[derive(Debug, Clone)]
pub(crate) struct FitTables {
    by_resource: IxVec<ResourceIx, Vec<(i128, Bits<VariantIx>)>>,
    /// Variants none of whose amounts is negative; nothing fits on the others.
    sound: Bits<VariantIx>,
}

impl FitTables {
    /// Tables over `resources` resources for variants with these allocatable amounts.
    pub(crate) fn new(allocatable: &IxVec<VariantIx, Amounts>, resources: usize) -> Self {
        let mut sound = Bits::all(allocatable.len());
        for (variant, amounts) in allocatable.enumerate() {
            if amounts.any_negative() {
                sound.remove(variant);
            }
        }
        let by_resource =
            (0..resources).map(ResourceIx::new).map(|resource| thresholds(allocatable, resource)).collect();
        Self { by_resource, sound }
    }

    /// Variants that can hold `request`.
    pub(crate) fn fitting(&self, request: &Amounts) -> Bits<VariantIx> {
        let mut fitting = self.sound.clone();
        self.keep_fitting(request, &Amounts::default(), &mut fitting);
        fitting
    }

    /// Keeps those variants in `among` that can hold `request` and `overhead` together.
    pub(crate) fn keep_fitting(&self, request: &Amounts, overhead: &Amounts, among: &mut Bits<VariantIx>) {
        // A negative amount of anything, asked for or not, makes a type hold nothing (spec scheduling 9).
        among.intersect(&self.sound);
        for resource in (0..request.len().max(overhead.len())).map(ResourceIx::new) {
            let amount = request.at(resource).saturating_add(overhead.at(resource));
            // Nothing is asked for, so types that do not have the resource at all fit too (spec scheduling
            // 9).
            if amount <= 0 {
                continue;
            }
            let enough = self.by_resource.get(resource).and_then(|thresholds| {
                let first = thresholds.partition_point(|(threshold, _)| *threshold < amount);
                thresholds.get(first)
            });
            match enough {
                Some((_, variants)) => among.intersect(variants),
                // More than any type has, or a resource that none has.
                None => return among.clear(),
            }
        }
    }
}

fn thresholds(allocatable: &IxVec<VariantIx, Amounts>, resource: ResourceIx) -> Vec<(i128, Bits<VariantIx>)> {
    let mut by_amount: Vec<(i128, VariantIx)> =
        allocatable.enumerate().map(|(variant, amounts)| (amounts.at(resource), variant)).collect();
    by_amount.sort_unstable();
    let mut thresholds: Vec<(i128, Bits<VariantIx>)> = Vec::new();
    let mut enough = Bits::none(allocatable.len());
    // From the greatest amount down, so that the set grows to all types that have at least as much.
    for (amount, variant) in by_amount.into_iter().rev() {
        enough.insert(variant);
        match thresholds.last_mut() {
            Some((last, variants)) if *last == amount => variants.insert(variant),
            _ => thresholds.push((amount, enough.clone())),
        }
    }
    thresholds.reverse();
    thresholds
}

#[cfg(test)]
mod tests {
    use karpenter_model::Resources;

    use super::*;
    use crate::amounts::ResourceIndex;

    #[test]
    fn agrees_with_comparing_each_variant() {
        let amounts = ["-1", "0", "1", "2", "3"];
        let mut lists = vec![Resources::new()];
        for cpu in amounts {
            for gpu in amounts {
                let list =
                    Resources::new().with("cpu", cpu.parse().unwrap()).with("gpu", gpu.parse().unwrap());
                lists.push(list);
            }
        }
        let mut index = ResourceIndex::default();
        let dense: IxVec<VariantIx, Amounts> = lists.iter().map(|list| index.amounts(list)).collect();
        let tables = FitTables::new(&dense, index.len());
        let unknown = index.amounts(&Resources::new().with("fpga", "1".parse().unwrap()));
        assert!(tables.fitting(&unknown).is_empty(), "nothing has a resource no variant names");
        for request in lists.iter().filter(|list| !list.iter().any(|(_, quantity)| quantity.is_negative())) {
            let expected: Vec<usize> =
                (0..lists.len()).filter(|variant| request.fits(&lists[*variant])).collect();
            let fitting: Vec<usize> = tables.fitting(&index.amounts(request)).iter().map(Ix::get).collect();
            assert_eq!(fitting, expected, "{request}");
        }
    }
}
