//! Equal lists of instance types, equal types of different lists and equal parts of different types as one object in
//! memory, whichever node class or pool they are for.
//!
//! Sharing goes by content: nothing has to list what of a node class a type depends on, and a field that is added
//! later cannot be forgotten.

use std::sync::Arc;

use karpenter_model::{InstanceType, SharedRequirements};

use crate::overlay::List;

/// Lists that are in use, and the parts of types made lately. To be made for one list and dropped with it.
#[derive(Debug, Default)]
pub struct SharedTypes {
    lists: Vec<List>,
    parts: SharedRequirements,
}

impl SharedTypes {
    /// Sharing with `lists`.
    pub fn with<'l>(lists: impl IntoIterator<Item = &'l List>) -> Self {
        let mut distinct: Vec<List> = Vec::new();
        for list in lists {
            if !distinct.iter().any(|known| Arc::ptr_eq(known, list)) {
                distinct.push(Arc::clone(list));
            }
        }
        Self { lists: distinct, parts: SharedRequirements::default() }
    }

    /// `types` as a list: the very one that is in use, if it holds the same.
    pub fn list(&mut self, types: impl Iterator<Item = Arc<InstanceType>>) -> List {
        let types: Vec<Arc<InstanceType>> =
            types.enumerate().map(|(place, one)| self.one(place, one)).collect();
        let same = |list: &&List| {
            list.len() == types.len() && list.iter().zip(&types).all(|(known, one)| Arc::ptr_eq(known, one))
        };
        if let Some(known) = self.lists.iter().find(same) {
            return Arc::clone(known);
        }
        let list: List = types.into();
        self.lists.push(Arc::clone(&list));
        list
    }

    /// The type that is in use and equals `built`, or `built` with the parts it has in common with others.
    fn one(&mut self, place: usize, mut built: Arc<InstanceType>) -> Arc<InstanceType> {
        let mut relatives = self.lists.iter().filter_map(|list| of_name(list, place, &built));
        let relative = relatives.next();
        let equal = |known: &&Arc<InstanceType>| Arc::ptr_eq(known, &built) || **known == built;
        if let Some(known) = relative.into_iter().chain(relatives).find(equal) {
            return Arc::clone(known);
        }
        if let Some(relative) = relative {
            self.parts.learn(&relative.requirements);
            relative.offerings.iter().for_each(|offering| self.parts.learn(&offering.requirements));
        }
        // One that is held elsewhere too is in use as it is.
        if let Some(own) = Arc::get_mut(&mut built) {
            self.parts.share(&mut own.requirements);
            own.offerings.iter_mut().for_each(|offering| self.parts.share(&mut offering.requirements));
        }
        built
    }
}

/// The type of the same name. Most lists are of the same types in the same order.
fn of_name<'l>(list: &'l List, place: usize, one: &InstanceType) -> Option<&'l Arc<InstanceType>> {
    let alike = |known: &&Arc<InstanceType>| known.name == one.name;
    list.get(place).filter(alike).or_else(|| list.iter().find(alike))
}
