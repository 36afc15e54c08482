//! EC2 without launching: catalogue, network, images, templates.

use super::{Outcome, Subject, ensure, refused, same, tags};
use crate::ec2::{
    ImageQuery, InstanceTypeQuery, LaunchTemplateData, LaunchTemplateQuery, LaunchTemplateSpec,
    SecurityGroupQuery, SubnetQuery, TypeOffering,
};
use crate::{Filter, Kind};

pub(super) async fn catalogue_describes_the_types(subject: &Subject) -> Outcome {
    let ec2 = &subject.clients.ec2;
    let filters = vec![
        Filter::new("supported-virtualization-type", ["hvm"]),
        Filter::new("processor-info.supported-architecture", ["x86_64", "arm64"]),
    ];
    let all = ec2.describe_instance_types(&InstanceTypeQuery { types: Vec::new(), filters }).await?;
    for wanted in &subject.types {
        let found = all.items.iter().find(|info| info.name == *wanted);
        let Some(info) = found else { return ensure(false, || format!("`{wanted}` is not for sale")) };
        ensure(info.vcpus > 0 && info.memory_mib > 0, || format!("`{wanted}` has no size: {info:?}"))?;
        ensure(!info.network_cards.is_empty(), || format!("`{wanted}` has no network card"))?;
    }
    let unknown = InstanceTypeQuery { types: vec!["x99.mega".into()], filters: Vec::new() };
    ensure(ec2.describe_instance_types(&unknown).await.is_err(), || "`x99.mega` exists".to_owned())?;
    let subnets = SubnetQuery { ids: vec![subject.subnet.clone()], filters: Vec::new() };
    let subnet = ec2.describe_subnets(&subnets).await?.remove(0);
    let offerings = ec2.describe_instance_type_offerings(&[]).await?;
    for wanted in &subject.types {
        let offering = TypeOffering { instance_type: wanted.clone(), zone: subnet.zone.clone() };
        ensure(offerings.items.contains(&offering), || format!("{offering:?} is not offered"))?;
    }
    Ok(())
}

pub(super) async fn network_is_found_by_id_and_tag(subject: &Subject) -> Outcome {
    let ec2 = &subject.clients.ec2;
    let (key, value) = (subject.name("discovery"), "here");
    let resources = [subject.subnet.to_string(), subject.security_group.to_string()];
    ec2.create_tags(&resources, &tags(&[(&key, value)])).await?;
    let by_tag = SubnetQuery { ids: Vec::new(), filters: vec![Filter::tag(&key, value)] };
    let found = ec2.describe_subnets(&by_tag).await?;
    same(&found.iter().map(|subnet| &subnet.id).collect(), &vec![&subject.subnet], "subnets by tag")?;
    ensure(found[0].free_addresses > 0, || format!("{} has no free address", subject.subnet))?;
    let by_key = SecurityGroupQuery { ids: Vec::new(), filters: vec![Filter::tag_key(&key)] };
    let groups = ec2.describe_security_groups(&by_key).await?;
    same(&groups.iter().map(|group| &group.id).collect(), &vec![&subject.security_group], "groups by tag")?;
    ec2.delete_tags(&resources, std::slice::from_ref(&key)).await?;
    let none = ec2.describe_subnets(&by_tag).await?;
    ensure(none.is_empty(), || format!("still tagged: {none:?}"))?;
    let unknown = SubnetQuery { ids: vec!["subnet-0123456789abcdef0".into()], filters: Vec::new() };
    refused(ec2.describe_subnets(&unknown).await, Kind::NotFound, "unknown subnet")?;
    let unknown = SecurityGroupQuery { ids: vec!["sg-0123456789abcdef0".into()], filters: Vec::new() };
    refused(ec2.describe_security_groups(&unknown).await, Kind::NotFound, "unknown security group")
}

pub(super) async fn images_are_found_by_id(subject: &Subject) -> Outcome {
    let ec2 = &subject.clients.ec2;
    let by_filter = ImageQuery {
        filters: vec![Filter::new("image-id", [subject.image.as_str()]), Filter::new("state", ["available"])],
        include_deprecated: true,
        ..ImageQuery::default()
    };
    let found = ec2.describe_images(&by_filter).await?;
    same(&found.items.iter().map(|image| &image.id).collect(), &vec![&subject.image], "images")?;
    same(&found.items[0].architecture.as_str(), &"x86_64", "architecture")?;
    let unknown = ImageQuery { ids: vec!["ami-0123456789abcdef0".into()], ..ImageQuery::default() };
    refused(ec2.describe_images(&unknown).await, Kind::NotFound, "unknown image")
}

pub(super) async fn launch_templates_live_and_die(subject: &Subject) -> Outcome {
    let ec2 = &subject.clients.ec2;
    let name = subject.name("template");
    let spec = LaunchTemplateSpec {
        name: name.clone(),
        client_token: None,
        tags: tags(&[("suite", &subject.prefix)]),
        data: LaunchTemplateData { image: Some(subject.image.clone()), ..LaunchTemplateData::default() },
    };
    let by_name = LaunchTemplateQuery { names: vec![name.clone()], filters: Vec::new() };
    refused(ec2.describe_launch_templates(&by_name).await, Kind::NotFound, "template before it exists")?;
    let made = ec2.create_launch_template(&spec).await?;
    refused(ec2.create_launch_template(&spec).await, Kind::AlreadyExists, "second template")?;
    let found = ec2.describe_launch_templates(&by_name).await?;
    same(&found.iter().map(|template| &template.id).collect(), &vec![&made.id], "templates by name")?;
    let by_tag =
        LaunchTemplateQuery { names: Vec::new(), filters: vec![Filter::tag("suite", &subject.prefix)] };
    let found = ec2.describe_launch_templates(&by_tag).await?;
    same(&found.iter().map(|template| &template.name).collect(), &vec![&name], "templates by tag")?;
    ec2.delete_launch_template(&name).await?;
    refused(ec2.describe_launch_templates(&by_name).await, Kind::NotFound, "deleted template")?;
    refused(ec2.delete_launch_template(&name).await, Kind::NotFound, "second DeleteLaunchTemplate")
}
