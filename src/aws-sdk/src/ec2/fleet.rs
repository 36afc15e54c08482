//! `CreateFleet` over the SDK.

use aws_sdk_ec2::operation::create_fleet::builders::CreateFleetFluentBuilder;
use aws_sdk_ec2::{Client, types};

use super::super::call::Call;
use super::super::convert::small;
use super::{tag_specifications_to_sdk, without_retries};
use karpenter_aws_api::Result;
use karpenter_aws_api::ec2::{
    CapacityKind, FleetError, FleetInstances, FleetOverride, FleetRequest, FleetResult,
};
use karpenter_aws_api::error::readable;

pub(super) async fn create(client: &Client, request: &FleetRequest) -> Result<FleetResult> {
    let call = Call::new("CreateFleet", subject(request));
    let answer = to_sdk(client, &call, request)?.send().await.map_err(|failure| call.failed(failure))?;
    Ok(FleetResult {
        id: call.field(answer.fleet_id, "fleetId")?.into(),
        instances: answer
            .instances
            .unwrap_or_default()
            .into_iter()
            .map(|group| instances(&call, group))
            .collect::<Result<_>>()?,
        errors: answer
            .errors
            .unwrap_or_default()
            .into_iter()
            .map(|failure| error(&call, failure))
            .collect::<Result<_>>()?,
    })
}

pub(super) async fn dry_run(client: &Client, request: &FleetRequest) -> Result<()> {
    let call = Call::new("CreateFleet", format!("{} (dry run)", subject(request)));
    let request = to_sdk(client, &call, request)?.dry_run(true);
    call.dry_run(request.customize().config_override(without_retries()).send().await)
}

/// Templates and number of offerings: enough to find the launch again, short enough for a log line.
fn subject(request: &FleetRequest) -> String {
    let templates: Vec<&str> = request.configs.iter().map(|config| config.launch_template.as_str()).collect();
    let offerings: usize = request.configs.iter().map(|config| config.overrides.len()).sum();
    format!("{} over {offerings} offerings", templates.join(", "))
}

fn to_sdk(client: &Client, call: &Call, request: &FleetRequest) -> Result<CreateFleetFluentBuilder> {
    if request.target == 0 {
        return Err(call.invalid("the target capacity is 0"));
    }
    if request.configs.is_empty() || request.configs.iter().any(|config| config.overrides.is_empty()) {
        return Err(call.invalid("a launch template has no offerings; leave it out of the request"));
    }
    let capacity = types::TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(small(request.target))
        .default_target_capacity_type(types::DefaultTargetCapacityType::from(request.capacity.as_str()))
        .build();
    let configs = request
        .configs
        .iter()
        .map(|config| {
            types::FleetLaunchTemplateConfigRequest::builder()
                .launch_template_specification(
                    types::FleetLaunchTemplateSpecificationRequest::builder()
                        .launch_template_name(&config.launch_template)
                        .version("$Latest")
                        .build(),
                )
                .set_overrides(Some(config.overrides.iter().map(offering_to_sdk).collect()))
                .build()
        })
        .collect();
    let fleet = client
        .create_fleet()
        .r#type(types::FleetType::Instant)
        .set_client_token(request.client_token.clone())
        .target_capacity_specification(capacity)
        .set_launch_template_configs(Some(configs))
        .set_tag_specifications(tag_specifications_to_sdk(&request.tags))
        .set_context(request.context.clone());
    Ok(with_strategy(fleet, request.capacity))
}

fn with_strategy(fleet: CreateFleetFluentBuilder, capacity: CapacityKind) -> CreateFleetFluentBuilder {
    match capacity {
        CapacityKind::Spot(strategy) => fleet.spot_options(
            types::SpotOptionsRequest::builder()
                .allocation_strategy(types::SpotAllocationStrategy::from(strategy.as_str()))
                .build(),
        ),
        CapacityKind::OnDemand(strategy) => fleet.on_demand_options(
            types::OnDemandOptionsRequest::builder()
                .allocation_strategy(types::FleetOnDemandAllocationStrategy::from(strategy.as_str()))
                .build(),
        ),
        CapacityKind::InterruptibleReservation => fleet.reserved_capacity_options(
            types::ReservedCapacityOptionsRequest::builder()
                .reservation_types(types::FleetReservationType::InterruptibleCapacityReservation)
                .build(),
        ),
        CapacityKind::CapacityBlock => fleet,
    }
}

fn offering_to_sdk(offering: &FleetOverride) -> types::FleetLaunchTemplateOverridesRequest {
    types::FleetLaunchTemplateOverridesRequest::builder()
        .instance_type(types::InstanceType::from(offering.instance_type.as_str()))
        .subnet_id(offering.subnet.as_str())
        .set_availability_zone(offering.zone.as_ref().map(|zone| zone.as_str().to_owned()))
        .set_image_id(offering.image.as_ref().map(|image| image.as_str().to_owned()))
        .set_priority(offering.priority_nanos.and_then(priority_to_sdk))
        .build()
}

/// Billionths to the nearest double, by way of the decimal text, so that equal prices stay equal on the wire.
fn priority_to_sdk(nanos: i64) -> Option<f64> {
    const NANOS: u64 = 1_000_000_000;
    let sign = if nanos < 0 { "-" } else { "" };
    let size = nanos.unsigned_abs();
    format!("{sign}{}.{:09}", size / NANOS, size % NANOS).parse().ok()
}

/// The double EC2 echoes, back to billionths: exact for everything [`priority_to_sdk`] sent.
fn priority_from_sdk(priority: f64) -> Option<i64> {
    let text = format!("{priority:.9}");
    let (whole, fraction) = text.split_once('.')?;
    format!("{whole}{fraction}").parse().ok()
}

fn instances(call: &Call, group: types::CreateFleetInstance) -> Result<FleetInstances> {
    let overrides = group.launch_template_and_overrides.and_then(|echo| echo.overrides);
    let instance_type = group
        .instance_type
        .or_else(|| overrides.as_ref().and_then(|offering| offering.instance_type.clone()));
    Ok(FleetInstances {
        ids: call.field(group.instance_ids, "instanceIds")?.into_iter().map(Into::into).collect(),
        instance_type: call.field(instance_type, "instanceType")?.as_str().into(),
        spot: group.lifecycle == Some(types::InstanceLifecycle::Spot),
        offering: overrides.and_then(offering_from_sdk),
    })
}

fn offering_from_sdk(echo: types::FleetLaunchTemplateOverrides) -> Option<FleetOverride> {
    Some(FleetOverride {
        instance_type: echo.instance_type?.as_str().into(),
        subnet: echo.subnet_id?.into(),
        zone: echo.availability_zone.map(Into::into),
        image: echo.image_id.map(Into::into),
        priority_nanos: echo.priority.and_then(priority_from_sdk),
    })
}

fn error(call: &Call, failure: types::CreateFleetError) -> Result<FleetError> {
    let echo = failure.launch_template_and_overrides;
    let template = echo.as_ref().and_then(|echo| echo.launch_template_specification.clone());
    let offering = echo.and_then(|echo| echo.overrides);
    Ok(FleetError {
        code: call.field(failure.error_code, "errorCode")?,
        message: failure.error_message.as_deref().map(readable).unwrap_or_default(),
        launch_template: template.and_then(|template| template.launch_template_name),
        instance_type: offering
            .as_ref()
            .and_then(|offering| offering.instance_type.as_ref())
            .map(|name| name.as_str().into()),
        zone: offering.as_ref().and_then(|offering| offering.availability_zone.clone()).map(Into::into),
        subnet: offering.and_then(|offering| offering.subnet_id).map(Into::into),
        spot: failure.lifecycle == Some(types::InstanceLifecycle::Spot),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_survive_the_trip_through_doubles() {
        for nanos in [0, 1, 96_000_000, 109_200_000_001, 33_333_333_333, -5, 24_480_000_000] {
            let sent = priority_to_sdk(nanos).unwrap();
            assert_eq!(priority_from_sdk(sent), Some(nanos), "{nanos} as {sent}");
        }
        assert!((priority_to_sdk(96_000_000).unwrap() - 0.096).abs() < f64::EPSILON);
    }
}
