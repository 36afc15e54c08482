//! The launch of one claim: at most one machine, whatever was asked before and whichever answer was lost.

use std::time::Duration;

use karpenter_aws_api::ec2::{Instance as Ec2Instance, InstanceState};
use karpenter_aws_api::id::InstanceId;
use karpenter_cloud::{Error, Instance, Kind, LaunchRequest, Result};
use karpenter_model::clock::later;
use karpenter_model::names::reason;

use super::AwsProvider;
use super::classes::ready;
use super::described::Joined;
use crate::calls::fault::cloud_error;
use crate::instances::view;
use crate::launch::group::wants_adapters;

const OPERATION: &str = "launch instance for claim";
/// Time within which a machine shows the reservation it was launched into. One that shows none by then is in none.
const RESERVATION_SHOWN_WITHIN: Duration = Duration::from_mins(1);

impl AwsProvider {
    /// The machine of this claim: one that was launched for it before, or else a new one.
    pub(super) async fn launch_for(&self, request: &LaunchRequest) -> Result<Instance> {
        let claim = request.claim.as_str();
        let class = self.class(OPERATION, &request.node_class)?;
        ready(OPERATION, claim, &class)?;
        // Before EC2 is asked, which does not show a new machine for seconds: a claim whose status could not
        // be written would get a second one.
        if let Some(machine) = self.ledger.answered(request) {
            tracing::info!(claim, instance = %machine.provider_id, "launched a moment ago, not again");
            return Ok(machine);
        }
        if let Some(instance) = self.launched_before(request).await? {
            self.shows_its_reservation(claim, &instance)?;
            tracing::info!(claim, instance = %instance.id, "adopted instance launched before");
            self.ledger.record_answer(request);
            return Ok(Joined::new(self, request.overlays.as_ref()).view(&instance));
        }
        self.placement_group(OPERATION, claim, &class).await?;
        let types = request.seen(&self.list(OPERATION, &class)?, &self.registry);
        let mut unsettled = None;
        let asking = || {
            unsettled = self.ledger.unsettled(request);
            self.ledger.record_sent(request);
            unsettled.is_some()
        };
        let launched = self.launcher.launch(request, &class, &types, asking).await;
        match &launched {
            Err(error) if !error.token_spent => {
                // The outcome of the earlier request is still not known, and its time is the one that counts.
                if let Some(earlier) = unsettled.filter(|_| error.code.is_some()) {
                    self.ledger.record_sent_at(request, earlier);
                }
            }
            // Settled: launched, or refused in a way that leaves no doubt about this token.
            _ => self.ledger.record_answer(request),
        }
        let mut launched = launched?;
        let id = InstanceId::from(launched.instance.as_str());
        self.instances.launched(&id);
        // EC2's answer does not list interfaces, so they follow from what was asked for.
        launched.efa = wants_adapters(request) || class.spec.network_interfaces.is_some();
        let machine = view::of_launched(&launched, claim, &class, self.ca_bundle(), self.clock.now());
        self.ledger.launched(request, &machine);
        Ok(machine)
    }

    /// Fails while it is not known how an instance is paid for. A claim written as on-demand stays so, and then a capacity block
    /// would not be left before it ends.
    fn shows_its_reservation(&self, claim: &str, instance: &Ec2Instance) -> Result<()> {
        let until = later(instance.launched_at, RESERVATION_SHOWN_WITHIN);
        if self.clock.now() >= until || !view::awaits_reservation(instance, self.settings.reserved_capacity) {
            return Ok(());
        }
        let id = &instance.id;
        let message = format!(
            "{id} is being launched and does not show its capacity reservation yet; asked again soon"
        );
        Err(Error::new(Kind::Transient, OPERATION, claim, message).with_reason(reason::LAUNCH_FAILED))
    }

    /// The instance that was launched for this claim before, if it may be there.
    async fn launched_before(&self, request: &LaunchRequest) -> Result<Option<Ec2Instance>> {
        if !self.ledger.may_have_launched(request) {
            return Ok(None);
        }
        let claim = request.claim.as_str();
        // A machine that stops or ends would be adopted only to be replaced at once.
        let living = [InstanceState::Pending, InstanceState::Running];
        let found = self.instances.of_claim(claim, &living).await;
        found.map_err(|error| cloud_error("find instance of claim", claim, &error))
    }
}
