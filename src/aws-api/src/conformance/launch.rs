//! Launching: from a template through a fleet to a machine, and its end.

use super::{Outcome, Subject, Violation, ensure, refused, same, tags};
use crate::ec2::{
    BlockDevice, CapacityKind, EbsVolume, FleetConfig, FleetOverride, FleetRequest, InstanceQuery,
    InstanceState, LaunchTemplateData, LaunchTemplateSpec, MetadataOptions, NetworkInterface,
    OnDemandAllocation, RunInstancesRequest, RunInterface, TagSpecification, TaggedKind,
};
use crate::id::InstanceId;
use crate::{Filter, Kind, Secret};

const USER_DATA: &str = "#!/bin/bash\necho hello \u{e9}\n";
/// Number of times that time passes before a check gives up on a state.
const PATIENCE: u32 = 40;

async fn template(subject: &Subject, name: &str) -> Result<(), Violation> {
    template_with(subject, name, LaunchTemplateData::default()).await
}

/// Creates a template that launches wherever and however `data` says.
pub(super) async fn template_with(subject: &Subject, name: &str, data: LaunchTemplateData) -> Outcome {
    let interface = NetworkInterface {
        device: 0,
        security_groups: vec![subject.security_group.clone()],
        ..NetworkInterface::default()
    };
    let spec = LaunchTemplateSpec {
        name: name.to_owned(),
        client_token: None,
        tags: tags(&[("suite", &subject.prefix)]),
        data: LaunchTemplateData {
            image: Some(subject.image.clone()),
            user_data: Some(Secret::from(USER_DATA)),
            network_interfaces: vec![interface],
            ..data
        },
    };
    subject.clients.ec2.create_launch_template(&spec).await?;
    Ok(())
}

pub(super) fn request(subject: &Subject, template: &str, types: &[usize]) -> FleetRequest {
    let overrides = types
        .iter()
        .map(|index| FleetOverride {
            instance_type: subject.types[*index].clone(),
            subnet: subject.subnet.clone(),
            zone: None,
            image: None,
            priority_nanos: Some(100_000_000),
        })
        .collect();
    FleetRequest {
        client_token: None,
        capacity: CapacityKind::OnDemand(OnDemandAllocation::LowestPrice),
        target: 1,
        configs: vec![FleetConfig { launch_template: template.to_owned(), overrides }],
        tags: vec![TagSpecification {
            kind: TaggedKind::Instance,
            tags: tags(&[("suite", &subject.prefix), ("karpenter.sh/nodepool", "default")]),
        }],
        context: None,
    }
}

pub(super) async fn launch_one(subject: &Subject, request: &FleetRequest) -> Result<InstanceId, Violation> {
    let fleet = subject.clients.ec2.create_fleet(request).await?;
    let mut ids: Vec<InstanceId> = fleet.instance_ids().cloned().collect();
    same(&ids.len(), &1, "instances launched")?;
    Ok(ids.remove(0))
}

/// Lets time pass until the instance is in one of the states; terminated instances may be forgotten.
pub(super) async fn reaches(subject: &Subject, id: &InstanceId, wanted: &[InstanceState]) -> Outcome {
    let query = InstanceQuery { ids: vec![id.clone()], filters: Vec::new() };
    let mut seen = None;
    for _ in 0..PATIENCE {
        match subject.clients.ec2.describe_instances(&query).await {
            Ok(found) => seen = found.first().map(|instance| instance.state),
            Err(error) if error.kind == Kind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        if seen.is_some_and(|state| wanted.contains(&state)) {
            return Ok(());
        }
        (subject.pass_time)().await;
    }
    ensure(false, || format!("`{id}` stayed {seen:?}, {wanted:?} expected"))
}

pub(super) async fn clean_up(subject: &Subject, template: &str, ids: &[InstanceId]) -> Outcome {
    if !ids.is_empty() {
        subject.clients.ec2.terminate_instances(ids).await?;
    }
    subject.clients.ec2.delete_launch_template(template).await?;
    Ok(())
}

pub(super) async fn an_instance_lives_and_dies(subject: &Subject) -> Outcome {
    let ec2 = &subject.clients.ec2;
    let name = subject.name("launch");
    template(subject, &name).await?;
    let id = launch_one(subject, &request(subject, &name, &[0])).await?;
    reaches(subject, &id, &[InstanceState::Running]).await?;

    let by_tag = InstanceQuery {
        ids: Vec::new(),
        filters: vec![
            Filter::tag("suite", &subject.prefix),
            Filter::tag_key("karpenter.sh/nodepool"),
            Filter::new("instance-state-name", InstanceState::ALIVE.map(InstanceState::as_str)),
            Filter::new("instance-id", [id.as_str()]),
        ],
    };
    let mut found = ec2.describe_instances(&by_tag).await?;
    same(&found.len(), &1, "instances by tag")?;
    let instance = found.remove(0);
    same(&instance.instance_type, &subject.types[0], "type")?;
    same(&instance.image, &subject.image, "image")?;
    same(&instance.subnet.as_ref(), &Some(&subject.subnet), "subnet")?;
    same(&instance.security_groups, &vec![subject.security_group.clone()], "security groups")?;
    same(&instance.lifecycle, &None, "lifecycle")?;
    let nodepool = instance.tags.get("karpenter.sh/nodepool").map(String::as_str);
    same(&nodepool, &Some("default"), "tag of the fleet request")?;
    let user_data = ec2.describe_user_data(&id).await?;
    same(&user_data.as_ref().map(Secret::expose), &Some(USER_DATA), "user data")?;

    ec2.create_tags(&[id.to_string()], &tags(&[("Name", "node-1")])).await?;
    let tagged = ec2.describe_instances(&by_tag).await?.remove(0);
    same(&tagged.tags.get("Name").map(String::as_str), &Some("node-1"), "tag added later")?;

    ec2.reboot_instances(std::slice::from_ref(&id)).await?;
    let rebooted = ec2.describe_instances(&by_tag).await?.remove(0);
    same(
        &(rebooted.state, rebooted.launched_at),
        &(InstanceState::Running, tagged.launched_at),
        "after a reboot",
    )?;

    let ended = ec2.terminate_instances(std::slice::from_ref(&id)).await?;
    same(&ended.len(), &1, "state changes")?;
    ec2.terminate_instances(std::slice::from_ref(&id)).await?;
    reaches(subject, &id, &[InstanceState::Terminated]).await?;
    refused(
        ec2.reboot_instances(std::slice::from_ref(&id)).await,
        Kind::Conflict,
        "reboot of a terminated one",
    )?;
    let unknown = InstanceId::from("i-0123456789abcdef0");
    refused(ec2.terminate_instances(std::slice::from_ref(&unknown)).await, Kind::NotFound, "unknown id")?;
    let rebooted = ec2.reboot_instances(std::slice::from_ref(&unknown)).await;
    refused(rebooted, Kind::NotFound, "reboot of an unknown id")?;
    let query = InstanceQuery { ids: vec![unknown], filters: Vec::new() };
    refused(ec2.describe_instances(&query).await, Kind::NotFound, "DescribeInstances of an unknown id")?;
    clean_up(subject, &name, &[]).await
}

pub(super) async fn dry_runs_launch_nothing(subject: &Subject) -> Outcome {
    let ec2 = &subject.clients.ec2;
    let name = subject.name("dry-run");
    template(subject, &name).await?;
    let mut fleet = request(subject, &name, &[0]);
    fleet.tags[0].tags.insert("dry".to_owned(), subject.prefix.clone());
    ec2.dry_run_create_fleet(&fleet).await?;
    let interface = RunInterface {
        subnet: subject.subnet.clone(),
        interface: NetworkInterface {
            device: 0,
            security_groups: vec![subject.security_group.clone()],
            ..NetworkInterface::default()
        },
    };
    let run = RunInstancesRequest {
        launch_template: name.clone(),
        instance_type: subject.types[0].clone(),
        interfaces: vec![interface],
        tags: fleet.tags.clone(),
        metadata: Some(MetadataOptions { http_tokens: Some("required".to_owned()), ..Default::default() }),
        block_devices: vec![BlockDevice {
            device: Some("/dev/xvda".to_owned()),
            ebs: Some(EbsVolume { size_gib: Some(20), ..Default::default() }),
        }],
        spot: false,
    };
    ec2.dry_run_run_instances(&run).await?;
    ec2.dry_run_run_instances(&RunInstancesRequest { spot: true, ..run }).await?;
    let dry = InstanceQuery { ids: Vec::new(), filters: vec![Filter::tag("dry", &subject.prefix)] };
    let found = ec2.describe_instances(&dry).await?;
    ensure(found.is_empty(), || format!("a dry run launched {found:?}"))?;
    clean_up(subject, &name, &[]).await
}

pub(super) async fn the_same_token_launches_once(subject: &Subject) -> Outcome {
    let name = subject.name("token");
    template(subject, &name).await?;
    let mut fleet = request(subject, &name, &[0]);
    fleet.client_token = Some(subject.name("token-1"));
    let first = launch_one(subject, &fleet).await?;
    let second = launch_one(subject, &fleet).await?;
    same(&second, &first, "instance of the repeated request")?;
    clean_up(subject, &name, &[first]).await
}

pub(super) async fn lowest_price_takes_the_cheaper_type(subject: &Subject) -> Outcome {
    let name = subject.name("price");
    template(subject, &name).await?;
    // The more expensive type is first: an account that just takes the first offering is found out.
    let fleet = subject.clients.ec2.create_fleet(&request(subject, &name, &[1, 0])).await?;
    let types: Vec<_> = fleet.instances.iter().map(|group| &group.instance_type).collect();
    same(&types, &vec![&subject.types[0]], "type launched")?;
    let ids: Vec<InstanceId> = fleet.instance_ids().cloned().collect();
    clean_up(subject, &name, &ids).await
}

pub(super) async fn a_missing_template_is_not_found(subject: &Subject) -> Outcome {
    let fleet = request(subject, &subject.name("no-template"), &[0]);
    refused(subject.clients.ec2.create_fleet(&fleet).await, Kind::NotFound, "CreateFleet")
}
