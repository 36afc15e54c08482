//! Launches that one pool can make, and the daemons that will run there (spec scheduling 16).
//!
//! Rules ask for the same instance types with every launch, so which daemons run on one is worked out once.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::{Daemon, InstanceType, InstanceTypeName, Pod, Requirements, Resources};

/// The instance types of a pool.
pub(crate) struct Catalogue<'a> {
    /// Types by name, with the daemons on a new machine from their first use.
    types: BTreeMap<&'a InstanceTypeName, (&'a InstanceType, OnceCell<Daemons<'a>>)>,
    /// Daemons that new machines of the pool do not keep out, with their demands: any one of the sets.
    daemons: Vec<(&'a Daemon, Vec<Requirements>)>,
}

/// The daemons that will run on a new machine.
pub(crate) struct Daemons<'a> {
    pub(crate) pods: Vec<&'a Pod>,
    /// Sum of their requests.
    pub(crate) requests: Resources,
}

impl<'a> Catalogue<'a> {
    pub(super) fn new(types: &'a [Arc<InstanceType>], daemons: Vec<(&'a Daemon, Vec<Requirements>)>) -> Self {
        let types = types.iter().map(|known| (&known.name, (known.as_ref(), OnceCell::new())));
        Self { types: types.collect(), daemons }
    }

    pub(super) fn instance_type(&self, name: &InstanceTypeName) -> Option<&'a InstanceType> {
        self.types.get(name).map(|(known, _)| *known)
    }

    /// The instance type `name` with the daemons that will run on a new machine of it.
    pub(crate) fn with_daemons(&self, name: &InstanceTypeName) -> Option<(&'a InstanceType, &Daemons<'a>)> {
        let (known, daemons) = self.types.get(name)?;
        Some((known, daemons.get_or_init(|| self.daemons_on(known))))
    }

    fn daemons_on(&self, known: &InstanceType) -> Daemons<'a> {
        let agrees = |wanted: &Requirements| known.requirements.intersects(wanted).is_ok();
        let running = self.daemons.iter().filter(|(_, wanted)| wanted.iter().any(agrees));
        let pods: Vec<&Pod> = running.map(|(daemon, _)| &daemon.pod).collect();
        let requests = pods.iter().map(|pod| &pod.requests).sum();
        Daemons { pods, requests }
    }
}
