//! Typed positions. A pass keeps pods, pools, nodes and instance types in lists and refers to them by position; each
//! list has a type of position of its own, so that one cannot be used for another. They cost nothing at run time.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut, Range};

/// A position in a list of one kind of thing.
pub(crate) trait Ix: Copy + Ord + Hash + fmt::Debug {
    /// The position `position`.
    fn new(position: usize) -> Self;

    /// The position as a number.
    fn get(self) -> usize;

    /// The position that follows.
    fn next(self) -> Self {
        Self::new(self.get() + 1)
    }
}

#[cfg(test)]
impl Ix for usize {
    fn new(position: usize) -> Self {
        position
    }

    fn get(self) -> usize {
        self
    }
}

macro_rules! positions {
    ($($(#[$attribute:meta])* $name:ident;)*) => {$(
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(usize);

        impl Ix for $name {
            fn new(position: usize) -> Self {
                Self(position)
            }

            fn get(self) -> usize {
                self.0
            }
        }
    )*};
}

positions! {
    /// A pod, in the order in which pods are tried.
    PodIx;
    /// A pod, in the order of the snapshot.
    ArrivalIx;
    /// A class of interchangeable pods.
    ClassIx;
    /// Demands of a pod on its node at one relaxation level.
    DemandIx;
    /// A demand together with a profile.
    LevelIx;
    /// Resources, ports and volumes that pods take up on their node.
    FootprintIx;
    /// Constraints on the place of pods, and their relations to other pods.
    ConstraintsIx;
    /// A list of tolerations.
    TolerationsIx;
    /// A pool that takes part, in the order in which pools are tried.
    PoolIx;
    /// A catalogue of instance types; pools that offer the same types share one.
    CatalogueIx;
    /// A variant of an instance type in its catalogue.
    VariantIx;
    /// An offering in its catalogue.
    OfferingIx;
    /// A resource name.
    ResourceIx;
    /// An existing node, in the order in which nodes are tried.
    NodeIx;
    /// Existing nodes with the same labels and taints.
    KindIx;
    /// An in-flight node; those of earlier passes count.
    InFlightIx;
    /// Demands of the volumes of a pod.
    NeedIx;
    /// A volume that several pods mount.
    VolumeIx;
    /// A topology group.
    GroupIx;
    /// Role of a pod in the topology groups.
    ProfileIx;
    /// Namespace and labels of pods.
    IdentityIx;
    /// A label key that topology groups use.
    TopologyKeyIx;
    /// A daemon set that is planned for.
    DaemonIx;
    /// A node, in the order of the snapshot.
    SnapshotNodeIx;
    /// Pods that move together while machines are filled.
    UnitIx;
    /// Load of one machine during the search.
    LoadIx;
    /// A machine that can be launched, the cheapest first.
    MachineIx;
}

/// The positions of `range` in order.
pub(crate) fn each<I: Ix>(range: &Range<I>) -> impl Iterator<Item = I> + use<I> {
    (range.start.get()..range.end.get()).map(I::new)
}

/// A list whose positions are of type `I`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IxVec<I, T> {
    items: Vec<T>,
    positions: PhantomData<I>,
}

impl<I: Ix, T> IxVec<I, T> {
    /// `len` times the same.
    pub(crate) fn filled(item: T, len: usize) -> Self
    where
        T: Clone,
    {
        vec![item; len].into()
    }

    /// Number of items.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The position the next item gets.
    pub(crate) fn end(&self) -> I {
        I::new(self.items.len())
    }

    /// Adds `item`; its position.
    pub(crate) fn push(&mut self, item: T) -> I {
        let position = self.end();
        self.items.push(item);
        position
    }

    /// Drops what is at `end` and after it.
    pub(crate) fn truncate(&mut self, end: I) {
        self.items.truncate(end.get());
    }

    /// Makes it `len` items, new ones being `item`.
    pub(crate) fn resize(&mut self, len: usize, item: T)
    where
        T: Clone,
    {
        self.items.resize(len, item);
    }

    /// The item at `position`, if there is one.
    pub(crate) fn get(&self, position: I) -> Option<&T> {
        self.items.get(position.get())
    }

    /// All positions.
    pub(crate) fn positions(&self) -> impl ExactSizeIterator<Item = I> + use<I, T> {
        (0..self.items.len()).map(I::new)
    }

    /// The positions from `start` on.
    pub(crate) fn positions_from(&self, start: I) -> impl Iterator<Item = I> + use<I, T> {
        (start.get()..self.items.len()).map(I::new)
    }

    /// Items in order.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    /// Items in order, to be changed.
    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.items.iter_mut()
    }

    /// Items with their positions, handed over.
    pub(crate) fn into_enumerated(self) -> impl Iterator<Item = (I, T)> {
        self.items.into_iter().enumerate().map(|(position, item)| (I::new(position), item))
    }

    /// Items with their positions.
    pub(crate) fn enumerate(&self) -> impl Iterator<Item = (I, &T)> {
        self.items.iter().enumerate().map(|(position, item)| (I::new(position), item))
    }
}

impl<I, T> Default for IxVec<I, T> {
    fn default() -> Self {
        Self { items: Vec::new(), positions: PhantomData }
    }
}

impl<I, T> From<Vec<T>> for IxVec<I, T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, positions: PhantomData }
    }
}

impl<I, T> FromIterator<T> for IxVec<I, T> {
    fn from_iter<Items: IntoIterator<Item = T>>(items: Items) -> Self {
        Vec::from_iter(items).into()
    }
}

impl<I, T> IntoIterator for IxVec<I, T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<I: Ix, T> Index<I> for IxVec<I, T> {
    type Output = T;

    fn index(&self, position: I) -> &T {
        &self.items[position.get()]
    }
}

impl<I: Ix, T> IndexMut<I> for IxVec<I, T> {
    fn index_mut(&mut self, position: I) -> &mut T {
        &mut self.items[position.get()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_lead_back_to_their_items() {
        let mut list: IxVec<PodIx, &str> = ["a", "b"].into_iter().collect();
        let third = list.push("c");
        assert_eq!((third.get(), list[third], list.end()), (2, "c", third.next()));
        assert!(list.enumerate().all(|(position, item)| list[position] == *item));
        assert_eq!(list.positions_from(PodIx::new(1)).map(|pod| list[pod]).collect::<Vec<_>>(), ["b", "c"]);
        list.truncate(third);
        assert_eq!((list.get(third), list.len()), (None, 2));
    }
}
