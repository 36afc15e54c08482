//! Faults that the emulated account injects into calls of the controller to EC2 and SQS, as the simulation does. In the
//! simulation a fault is the result of a call; here it is that of a request, which the AWS SDK repeats by itself, so fewer
//! faults reach the controller. Calls of other clients never fail.

use anyhow::{Context, Result};
use karpenter_sim::scenario::format::FaultName;

use crate::account::Control;
use crate::account::control::Fault;

/// Services whose calls are struck.
const SERVICES: [&str; 2] = ["ec2", "sqs"];
/// Errors, with their HTTP status: those of the simulation.
const ERRORS: [(&str, u16); 3] =
    [("RequestLimitExceeded", 503), ("InternalError", 500), ("ServiceUnavailable", 503)];
/// Number of requests of which one fails, as in the simulation.
const ONE_IN: u32 = 12;
/// Delay of half of the requests: the mean of the simulation, where they take up to five seconds.
const DELAY_SECONDS: f32 = 2.5;

/// Fault injector of one account: the faults that are possible now.
pub(super) struct FaultInjector {
    control: Control,
    caller: String,
    possible: Vec<FaultName>,
}

impl FaultInjector {
    /// Returns an injector without faults. `caller` is the ARN of the controller's role.
    pub(super) fn new(control: Control, caller: String) -> Self {
        Self { control, caller, possible: Vec::new() }
    }

    /// Switches a fault on or off.
    pub(super) async fn allow(&mut self, fault: FaultName, possible: bool) -> Result<()> {
        self.possible.retain(|other| *other != fault);
        if possible {
            self.possible.push(fault);
        }
        // The account forgets its faults all at once.
        self.control.stop_failing().await?;
        for fault in self.possible.iter().flat_map(|fault| self.rules(*fault)) {
            self.control.fail(&fault).await.context("make the account draw faults")?;
        }
        Ok(())
    }

    fn rules(&self, fault: FaultName) -> Vec<Fault> {
        let always = |code: Option<&str>, status, one_in, delay_seconds, service: &str| Fault {
            service: Some(service.to_owned()),
            code: code.map(str::to_owned),
            status,
            delay_seconds,
            caller: Some(self.caller.clone()),
            one_in,
            ..Fault::new("*", "", -1)
        };
        let each = |rule: &dyn Fn(&str) -> Fault| SERVICES.map(rule).to_vec();
        match fault {
            FaultName::AwsErrors => {
                let one = |(code, status): (&'static str, u16)| {
                    let one_in = ONE_IN * 3;
                    each(&move |service| always(Some(code), status, one_in, 0.0, service))
                };
                ERRORS.into_iter().flat_map(one).collect()
            }
            FaultName::AwsLatency => each(&|service| always(None, 200, 2, DELAY_SECONDS, service)),
            // Scenarios with others are not played: see `counterpart`.
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_strike_the_controller_alone_and_as_often_as_in_the_simulation() {
        let role = "arn:aws:iam::1:role/demo-karpenter";
        let weather = FaultInjector::new(Control::new("http://127.0.0.1:1"), role.to_owned());
        for (fault, share) in [(FaultName::AwsErrors, 1.0 / 12.0), (FaultName::AwsLatency, 0.5)] {
            let rules = weather.rules(fault);
            assert!(
                rules.iter().all(|rule| rule.caller.as_deref() == Some(role) && rule.count == -1),
                "{rules:?}"
            );
            for service in SERVICES {
                let of_service = rules.iter().filter(|rule| rule.service.as_deref() == Some(service));
                let struck: f64 = of_service.map(|rule| 1.0 / f64::from(rule.one_in)).sum();
                assert!((struck - share).abs() < 1e-9, "{fault:?} of {service}: {struck}");
            }
        }
        assert!(weather.rules(FaultName::KubeErrors).is_empty(), "such a scenario is not played");
    }
}
