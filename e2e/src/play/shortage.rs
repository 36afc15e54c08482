//! Offerings without capacity for a while. The emulated account forgets its rules about capacity all at once, so those that
//! still hold are set again; a launch in the milliseconds between may succeed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use karpenter_sim::scenario::format::CapacityLoss;
use tokio::sync::Mutex;

use crate::account::Control;
use crate::account::control::CapacityRule;

/// The rules of one account. Clones are about the same one.
#[derive(Clone)]
pub(super) struct Shortage {
    control: Control,
    /// Rules by number; one whose time is up is gone.
    rules: Arc<Mutex<Vec<(usize, CapacityRule)>>>,
}

impl Shortage {
    /// Creates it with nothing missing.
    pub(super) fn new(control: Control) -> Self {
        Self { control, rules: Arc::default() }
    }

    /// EC2 has none of these from now on; the number of the rule.
    pub(super) async fn begin(&self, loss: &CapacityLoss) -> Result<usize> {
        let mut rules = self.rules.lock().await;
        let rule = CapacityRule {
            instance_type: loss.instance_type.clone(),
            zone: loss.zone.clone(),
            capacity_type: loss.capacity_type.map(|of| of.word().to_owned()),
            ..CapacityRule::default()
        };
        self.control.limit_capacity(&rule).await?;
        let number = rules.last().map_or(0, |(number, _)| number + 1);
        rules.push((number, rule));
        Ok(number)
    }

    /// Ends the shortage after `lasts`: EC2 has the offerings again.
    pub(super) async fn end_after(self, lasts: Duration, number: usize) -> Result<()> {
        tokio::time::sleep(lasts).await;
        let mut rules = self.rules.lock().await;
        rules.retain(|(other, _)| *other != number);
        self.control.restore_capacity().await?;
        for (_, rule) in rules.iter() {
            self.control.limit_capacity(rule).await?;
        }
        Ok(())
    }
}
