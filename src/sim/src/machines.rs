//! The machines of the account in memory, for the kubelets: one that has not changed is not described again. Some of them
//! differ from what is foreseen, all their life.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use karpenter_aws_api::ec2::Instance;
use karpenter_aws_api::id::InstanceId;
use karpenter_aws_sim::Account;
use karpenter_kube_sim::kubelet::{Difference, Ec2Machines, Machine, Machines};
use karpenter_model::names::tag;
use parking_lot::Mutex;

type Listed = Arc<Vec<Arc<Machine>>>;

/// The machines of one cluster.
pub(crate) struct Fleet {
    account: Account,
    described: Ec2Machines,
    /// The tag they carry.
    owner: String,
    known: Mutex<Known>,
    differing: Mutex<Differing>,
}

/// Machines that differ from others of their type.
#[derive(Default)]
struct Differing {
    /// The last that means a machine counts.
    rules: Vec<Rule>,
    /// Machines that were met, and how they differ.
    met: BTreeMap<InstanceId, Difference>,
}

/// Machines that differ.
pub(crate) struct Rule {
    /// Selects such machines among those launched from now on.
    pub(crate) means: Box<dyn Fn(&Instance) -> bool + Send>,
    /// Number of further machines that it applies to.
    pub(crate) left: usize,
    /// Difference from other machines of the type.
    pub(crate) difference: Difference,
}

#[derive(Default)]
struct Known {
    instances: Arc<Vec<Arc<Instance>>>,
    /// Instances of this cluster, in order of their ids.
    described: Arc<Vec<(Arc<Instance>, Arc<Machine>)>>,
    listed: Listed,
}

impl Fleet {
    /// Returns the machines of `cluster`.
    pub(crate) fn new(account: &Account, cluster: &str) -> Self {
        let (volumes, reboots) = (account.clone(), account.clone());
        let described = Ec2Machines::new(account.clients(), cluster);
        let described = described.with_reboots(move |id| reboots.reboots(id));
        Self {
            account: account.clone(),
            described: described.with_volumes(move |id| volumes.volumes(id)),
            owner: format!("{}{cluster}", tag::CLUSTER_PREFIX),
            known: Mutex::default(),
            differing: Mutex::default(),
        }
    }

    /// Makes machines differ from what is announced, from now on: an instance that exists already keeps what it has.
    pub(crate) fn differ(&self, rule: Rule) {
        let mut differing = self.differing.lock();
        for instance in self.account.live().iter() {
            let difference = differing.difference(instance);
            differing.met.insert(instance.id.clone(), difference);
        }
        differing.rules.push(rule);
    }

    /// No machine differs any more.
    pub(crate) fn alike(&self) {
        *self.differing.lock() = Differing::default();
        self.known(|known| *known = Known::default());
    }

    fn known<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.known.lock())
    }
}

impl Differing {
    /// Returns the difference of a machine; it is settled when the machine is met first.
    fn difference(&mut self, instance: &Instance) -> Difference {
        if let Some(difference) = self.met.get(&instance.id) {
            return difference.clone();
        }
        let rule = self.rules.iter_mut().rfind(|rule| rule.left > 0 && (rule.means)(instance));
        let Some(rule) = rule else { return Difference::default() };
        rule.left -= 1;
        self.met.insert(instance.id.clone(), rule.difference.clone());
        rule.difference.clone()
    }
}

#[async_trait]
impl Machines for Fleet {
    async fn list(&self) -> Result<Vec<Machine>, Box<dyn Error + Send + Sync>> {
        Ok(self.shared().await?.iter().map(|machine| Machine::clone(machine)).collect())
    }

    async fn shared(&self) -> Result<Listed, Box<dyn Error + Send + Sync>> {
        let instances = self.account.live();
        if let Some(listed) =
            self.known(|known| Arc::ptr_eq(&known.instances, &instances).then(|| Arc::clone(&known.listed)))
        {
            return Ok(listed);
        }
        let before = self.known(|known| Arc::clone(&known.described));
        let mut before = before.iter().peekable();
        let mut described = Vec::new();
        let owned =
            |instance: &&Arc<Instance>| instance.tags.get(&self.owner).is_some_and(|by| by == "owned");
        for instance in instances.iter().filter(owned) {
            while before.next_if(|(known, _)| known.id < instance.id).is_some() {}
            let known = before.next_if(|(known, _)| Arc::ptr_eq(known, instance));
            let machine = if let Some((_, machine)) = known {
                Arc::clone(machine)
            } else {
                let machine = self.described.machine(instance).await?;
                let difference = self.differing.lock().difference(instance);
                Arc::new(Machine { difference, ..machine })
            };
            described.push((Arc::clone(instance), machine));
        }
        let listed: Listed = Arc::new(described.iter().map(|(_, machine)| Arc::clone(machine)).collect());
        let described = Arc::new(described);
        self.known(|known| *known = Known { instances, described, listed: Arc::clone(&listed) });
        Ok(listed)
    }
}
