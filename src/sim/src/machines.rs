//! The machines of the account in memory, for the kubelets: one that has not changed is not described again.

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use karpenter_aws_api::ec2::Instance;
use karpenter_aws_sim::Account;
use karpenter_kube_sim::kubelet::{Ec2Machines, Machine, Machines};
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
}

#[derive(Default)]
struct Known {
    instances: Arc<Vec<Arc<Instance>>>,
    /// Those of this cluster, in order of their ids.
    described: Arc<Vec<(Arc<Instance>, Arc<Machine>)>>,
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
        look(&mut self.known.lock())
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
            let machine = match before.next_if(|(known, _)| Arc::ptr_eq(known, instance)) {
                Some((_, machine)) => Arc::clone(machine),
                None => Arc::new(self.described.machine(instance).await?),
            };
            described.push((Arc::clone(instance), machine));
        }
        let listed: Listed = Arc::new(described.iter().map(|(_, machine)| Arc::clone(machine)).collect());
        let described = Arc::new(described);
        self.known(|known| *known = Known { instances, described, listed: Arc::clone(&listed) });
        Ok(listed)
    }
}
