//! The table of machines. It knows which have changed since they were described last: a thousand that stay as they are
//! cost nothing to look at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_aws_api::ec2::{Instance, InstanceState};
use karpenter_aws_api::id::InstanceId;

use super::vm::Vm;

/// Every machine that ever was.
#[derive(Debug, Default)]
pub(crate) struct Vms {
    all: BTreeMap<InstanceId, Vm>,
    /// Lent for writing since they were described.
    changed: BTreeSet<InstanceId>,
    /// Instances that are not terminated, as they were described.
    described: BTreeMap<InstanceId, Arc<Instance>>,
    live: Arc<Vec<Arc<Instance>>>,
}

impl Vms {
    pub(crate) fn get(&self, id: &InstanceId) -> Option<&Vm> {
        self.all.get(id)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Vm> {
        self.all.values()
    }

    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut Vm> {
        let found = self.all.get_mut(id)?;
        self.changed.insert(found.id.clone());
        Some(found)
    }

    pub(crate) fn insert(&mut self, vm: Vm) {
        self.changed.insert(vm.id.clone());
        self.all.insert(vm.id.clone(), vm);
    }

    /// Selects those of a kind, for writing.
    pub(crate) fn select_mut(&mut self, which: impl Fn(&Vm) -> bool) -> impl Iterator<Item = &mut Vm> {
        let changed = &mut self.changed;
        let selected = self.all.values_mut().filter(move |vm| which(vm));
        selected.inspect(|vm| {
            changed.insert(vm.id.clone());
        })
    }

    /// Every machine that is not terminated: what was given before, as long as none has changed.
    pub(crate) fn live(&mut self) -> Arc<Vec<Arc<Instance>>> {
        let changed = std::mem::take(&mut self.changed);
        for id in &changed {
            match self.all.get(id).filter(|vm| vm.state != InstanceState::Terminated) {
                Some(vm) => drop(self.described.insert(id.clone(), Arc::new(vm.describe()))),
                None => drop(self.described.remove(id)),
            }
        }
        if !changed.is_empty() {
            self.live = Arc::new(self.described.values().cloned().collect());
        }
        Arc::clone(&self.live)
    }
}
