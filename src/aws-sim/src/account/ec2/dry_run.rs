//! Dry runs: what EC2 checks before it says that a call would have worked.

use jiff::Timestamp;
use karpenter_aws_api::ec2::{FleetRequest, RunInstancesRequest};
use karpenter_aws_api::{Error, Result};

use super::super::State;
use super::{Compute, volumes};
use crate::options::Options;

pub(super) fn create_fleet(compute: &Compute, request: &FleetRequest) -> Result<()> {
    for config in &request.configs {
        compute.template("CreateFleet", &config.launch_template)?;
    }
    Ok(())
}

pub(super) fn run_instances(
    state: &State,
    options: &Options,
    now: Timestamp,
    request: &RunInstancesRequest,
) -> Result<()> {
    let refuse = |code: &str, text: String| {
        Err(Error::answered("RunInstances", request.instance_type.as_str(), code, text))
    };
    let data = &state.compute.template("RunInstances", &request.launch_template)?.data;
    if !state.catalogue.types.contains_key(&request.instance_type) {
        let text = format!("Invalid value '{}' for InstanceType.", request.instance_type);
        return refuse("InvalidParameterValue", text);
    }
    for interface in &request.interfaces {
        if !state.compute.network.subnets.contains_key(&interface.subnet) {
            let text = format!("The subnet ID '{}' does not exist", interface.subnet);
            return refuse("InvalidSubnetID.NotFound", text);
        }
    }
    if let Some(name) = &data.instance_profile
        && let Err((code, text)) = state.profile_for_launch(options, name, now)
    {
        return refuse(code, text);
    }
    if let Err((code, text)) = volumes::check(data) {
        return refuse(code, text);
    }
    Ok(())
}
