//! The machines of the account in memory, for the kubelets: one that has not changed is not described again.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use karpenter_aws_api::ec2::Instance;
use karpenter_aws_api::id::InstanceId;
use karpenter_aws_sim::Account;
use karpenter_kube_sim::kubelet::{Ec2Machines, Machine, Machines};
use karpenter_model::names::tag;

type Listed = Arc<Vec<Arc<Machine>>>;

/// The machines of one cluster.
pub(crate) struct Fleet {
    account: Account,
    described: Ec2Machines,
    /// The tag they carry.
    owner: String,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    instances: Arc<Vec<Arc<Instance>>>,
    machines: BTreeMap<InstanceId, (Arc<Instance>, Arc<Machine>)>,
    listed: Listed,
}

impl Fleet {
    /// Those of `cluster`.
    pub(crate) fn new(account: &Account, cluster: &str) -> Self {
        Self {
            account: account.clone(),
            described: Ec2Machines::new(account.clients(), cluster),
            owner: format!("{}{cluster}", tag::CLUSTER_PREFIX),
            known: Mutex::default(),
        }
    }

    fn known<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
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
        let mut machines = BTreeMap::new();
        let owned =
            |instance: &&Arc<Instance>| instance.tags.get(&self.owner).is_some_and(|by| by == "owned");
        for instance in instances.iter().filter(owned) {
            let same = |(described, machine): &(Arc<Instance>, Arc<Machine>)| {
                Arc::ptr_eq(described, instance).then(|| Arc::clone(machine))
            };
            let known = self.known(|known| known.machines.get(&instance.id).and_then(same));
            let machine = match known {
                Some(machine) => machine,
                None => Arc::new(self.described.machine(instance).await?),
            };
            machines.insert(instance.id.clone(), (Arc::clone(instance), machine));
        }
        let listed: Listed = Arc::new(machines.values().map(|(_, machine)| Arc::clone(machine)).collect());
        self.known(|known| *known = Known { instances, machines, listed: Arc::clone(&listed) });
        Ok(listed)
    }
}
