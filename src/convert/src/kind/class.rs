//! `AWSNodeTemplate` of v1alpha1, the same fields inside a Provisioner, and EC2NodeClass of v1beta1, as EC2NodeClass of v1.
//!
//! Defaults of an old version that v1 does not have are written out, so that instances are made as before (spec aws-operations
//! 4.4 and 4.5).

use std::collections::BTreeMap;

use karpenter_api::Ec2NodeClassSpec;
use karpenter_api::ec2nodeclass::{
    AmiFamily, AmiSelectorTerm, BlockDevice, BlockDeviceMapping, MetadataOptions, Toggle, TokenState,
    VolumeType,
};
use karpenter_model::names::{label, tag};

use crate::Options;
use crate::fields::{Fields, Found};
use crate::kind::selector;
use crate::log::{Kind, Log};

/// Tag keys that the controller writes itself.
const RESERVED_TAGS: [&str; 4] =
    [tag::CLUSTER_NAME, label::NODE_POOL, tag::NODE_CLAIM, label::aws::EC2_NODE_CLASS];

/// The version that the fields are of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Alpha,
    Beta,
}

/// The class that the fields of an `AWSNodeTemplate` or of `spec.provider` describe; `None` when it is refused.
pub(crate) fn from_alpha(
    mut fields: Fields,
    place: &str,
    options: &Options,
    log: &Log,
) -> Option<Ec2NodeClassSpec> {
    if let Some(template) = fields.read::<String>("launchTemplate") {
        let text = format!(
            "launch template `{}` cannot be used by v1, which makes its own; read it with `aws ec2 \
             describe-launch-template-versions` and write its user data, volumes, security groups, image and instance \
             profile into the class",
            template.value
        );
        log.at(Kind::Refused, &template.path, template.line, text);
        // Fields that it replaced, selectors and profile among them, are missing rightly.
        return None;
    }
    // The embedded type says nothing that is not known.
    fields.take("apiVersion");
    fields.take("kind");
    let family = family(&mut fields);
    let amis = selector::amis(&mut fields, "spec.amiSelectorTerms", log);
    let subnets = selector::subnets(&mut fields, "spec.subnetSelectorTerms", log);
    let groups = selector::security_groups(&mut fields, "spec.securityGroupSelectorTerms", log);
    let mut spec = Ec2NodeClassSpec {
        subnet_selector_terms: subnets.unwrap_or_else(|| discovered(options, place, "subnetSelector", log)),
        security_group_selector_terms: groups
            .unwrap_or_else(|| discovered(options, place, "securityGroupSelector", log)),
        ..Default::default()
    };
    identity(&mut fields, &mut spec, place, options, log);
    common(&mut fields, &mut spec, log);
    images(&mut spec, family.as_ref(), amis, place, log);
    spec.metadata_options = Some(metadata_options(&mut fields, Version::Alpha, place, log));
    fields.finish();
    (!log.is_refused()).then_some(spec)
}

/// The class that an EC2NodeClass of v1beta1 describes; `None` when it is refused.
pub(crate) fn from_beta(mut fields: Fields, options: &Options, log: &Log) -> Option<Ec2NodeClassSpec> {
    let place = "spec";
    let family = family(&mut fields);
    let amis =
        kept(&mut fields, "amiSelectorTerms", log).filter(|terms: &Vec<AmiSelectorTerm>| !terms.is_empty());
    let mut spec = Ec2NodeClassSpec {
        subnet_selector_terms: kept(&mut fields, "subnetSelectorTerms", log).unwrap_or_default(),
        security_group_selector_terms: kept(&mut fields, "securityGroupSelectorTerms", log)
            .unwrap_or_default(),
        associate_public_ip_address: kept(&mut fields, "associatePublicIPAddress", log),
        instance_store_policy: kept(&mut fields, "instanceStorePolicy", log),
        ..Default::default()
    };
    identity(&mut fields, &mut spec, place, options, log);
    common(&mut fields, &mut spec, log);
    images(&mut spec, family.as_ref(), amis, place, log);
    spec.metadata_options = Some(metadata_options(&mut fields, Version::Beta, place, log));
    fields.finish();
    (!log.is_refused()).then_some(spec)
}

/// A field that v1 has under the same name.
fn kept<T>(fields: &mut Fields, name: &'static str, log: &Log) -> Option<T>
where
    T: serde::de::DeserializeOwned + serde::Serialize,
{
    let found = fields.read::<T>(name)?;
    log.at(Kind::Mapped, &found.path, found.line, format!("-> spec.{name}"));
    Some(found.value)
}

/// Terms for the tag that versions before 0.8 looked for when a selector was missing.
fn discovered<T: serde::de::DeserializeOwned>(
    options: &Options,
    place: &str,
    name: &str,
    log: &Log,
) -> Vec<T> {
    let field = format!("{place}.{name}");
    let Some(cluster) = &options.cluster_name else {
        let text = format!(
            "is missing; early versions took what has the tag `{}NAME`: give the name with `--cluster-name`, or \
             write the selector",
            tag::CLUSTER_PREFIX
        );
        log.say(Kind::Refused, &field, text);
        return Vec::new();
    };
    let key = format!("{}{cluster}", tag::CLUSTER_PREFIX);
    log.say(Kind::Added, &field, format!("tag `{key}`, which early versions looked for when it was missing"));
    let terms = serde_json::json!([{"tags": {key: "*"}}]);
    serde_json::from_value(terms).unwrap_or_default()
}

/// Role or instance profile.
fn identity(fields: &mut Fields, spec: &mut Ec2NodeClassSpec, place: &str, options: &Options, log: &Log) {
    spec.role = kept(fields, "role", log);
    spec.instance_profile = kept(fields, "instanceProfile", log);
    if spec.role.is_some() || spec.instance_profile.is_some() {
        return;
    }
    let field = format!("{place}.instanceProfile");
    if let Some(role) = &options.role {
        log.say(Kind::Added, &field, format!("spec.role `{role}`, from `--role`"));
        spec.role = Some(role.clone());
    } else if let Some(profile) = &options.instance_profile {
        log.say(Kind::Added, &field, format!("spec.instanceProfile `{profile}`, from `--instance-profile`"));
        spec.instance_profile = Some(profile.clone());
    } else {
        let text = "is missing: the setting `aws.defaultInstanceProfile` that stood for it is gone; give its value with \
                    `--instance-profile`, or the name of the node role with `--role`";
        log.say(Kind::Refused, &field, text);
    }
}

/// Reads the fields that all versions write alike.
fn common(fields: &mut Fields, spec: &mut Ec2NodeClassSpec, log: &Log) {
    spec.user_data = kept(fields, "userData", log);
    spec.detailed_monitoring = kept(fields, "detailedMonitoring", log);
    spec.context = kept(fields, "context", log);
    spec.tags = tags(fields, log);
    spec.block_device_mappings = volumes(fields, log);
}

fn tags(fields: &mut Fields, log: &Log) -> Option<BTreeMap<String, String>> {
    let found = fields.texts("tags")?;
    let mut tags = BTreeMap::new();
    for (key, value) in found.value {
        if key.starts_with(tag::CLUSTER_PREFIX) || RESERVED_TAGS.contains(&key.as_str()) {
            let text = "the controller writes this tag itself; v1 refuses it";
            log.at(Kind::Noted, &value.path, value.line, text);
        } else if key.is_empty() {
            log.at(Kind::Dropped, &value.path, value.line, "a tag needs a key");
        } else {
            tags.insert(key, value.value);
        }
    }
    log.at(Kind::Mapped, &found.path, found.line, "-> spec.tags");
    (!tags.is_empty()).then_some(tags)
}

fn volumes(fields: &mut Fields, log: &Log) -> Option<Vec<BlockDeviceMapping>> {
    let mut found = fields.read::<Vec<BlockDeviceMapping>>("blockDeviceMappings")?;
    for (index, mapping) in found.value.iter_mut().enumerate() {
        let Some(size) = mapping.ebs.as_mut().and_then(|ebs| ebs.volume_size.as_mut()) else { continue };
        let field = format!("{}[{index}].ebs.volumeSize", found.path);
        match volume_size(size) {
            Some(written) if written == *size => {}
            Some(written) => {
                log.at(Kind::Mapped, &field, found.line, format!("`{size}` is written `{written}` in v1"));
                *size = written;
            }
            None => {
                let text = format!("`{size}` is no whole number of Gi, G, Ti or T, which v1 wants; round it");
                log.at(Kind::Refused, &field, found.line, text);
            }
        }
    }
    log.at(Kind::Mapped, &found.path, found.line, "-> spec.blockDeviceMappings");
    Some(found.value)
}

/// A volume's size in one of the units of v1; `None` if that needs a fraction.
fn volume_size(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number: u64 = digits.parse().ok()?;
    let bytes = match unit {
        "Gi" | "G" | "Ti" | "T" => return Some(text.to_owned()),
        "Mi" => number.checked_mul(1 << 20)?,
        "Ki" => number.checked_mul(1 << 10)?,
        "M" => number.checked_mul(1_000_000)?,
        "" => number,
        _ => return None,
    };
    [(1 << 30, "Gi"), (1_000_000_000, "G")]
        .into_iter()
        .find(|(size, _)| bytes >= *size && bytes % size == 0)
        .map(|(size, unit)| format!("{}{unit}", bytes / size))
}

fn family(fields: &mut Fields) -> Option<Found<String>> {
    fields.read::<String>("amiFamily")
}

/// Terms and family: without terms it is the newest image of the family, which v1 calls by an alias.
fn images(
    spec: &mut Ec2NodeClassSpec,
    family: Option<&Found<String>>,
    terms: Option<Vec<AmiSelectorTerm>>,
    place: &str,
    log: &Log,
) {
    let field = format!("{place}.amiFamily");
    let has_terms = terms.is_some();
    let name = family.map_or("AL2", |found| found.value.as_str());
    let say = |kind: Kind, text: String| match family {
        Some(found) => log.at(kind, &found.path, found.line, text),
        None => log.say(kind, &field, text),
    };
    if name == "Ubuntu" {
        ubuntu(spec, has_terms, &say);
        spec.ami_selector_terms = terms.unwrap_or_default();
        return;
    }
    let Some(known) = AmiFamily::ALL.into_iter().find(|known| known.as_str() == name) else {
        let all = AmiFamily::ALL.map(AmiFamily::as_str).join(", ");
        return say(Kind::Refused, format!("family `{name}` is unknown; v1 has {all}"));
    };
    if let Some(terms) = terms {
        spec.ami_selector_terms = terms;
        spec.ami_family = Some(known);
        say(family_kind(family), format!("-> spec.amiFamily: {name}"));
    } else if known == AmiFamily::Custom {
        say(Kind::Refused, "family `Custom` names no image; select one by id, name or tags".to_owned());
    } else {
        let alias = format!("{}@latest", name.to_ascii_lowercase());
        say(family_kind(family), format!("-> spec.amiSelectorTerms: alias `{alias}`"));
        spec.ami_selector_terms = vec![AmiSelectorTerm { alias: Some(alias), ..Default::default() }];
    }
    if known == AmiFamily::AL2 && !has_terms {
        let text = "AL2 has images up to Kubernetes 1.32; for later versions change the alias to `al2023@latest`, whose \
                    user data is different";
        say(Kind::Noted, text.to_owned());
    }
    if known == AmiFamily::Custom && has_terms {
        let text = "nodes of v1 register with the taint `karpenter.sh/unregistered:NoExecute`; user data of family Custom \
                    has to set it";
        say(Kind::Decide, text.to_owned());
    }
}

fn family_kind(family: Option<&Found<String>>) -> Kind {
    if family.is_some() { Kind::Mapped } else { Kind::Added }
}

/// Images of Ubuntu start like AL2, from a root volume that has another name.
fn ubuntu(spec: &mut Ec2NodeClassSpec, has_terms: bool, say: &dyn Fn(Kind, String)) {
    if !has_terms {
        let text = "family `Ubuntu` is gone and v1 has no alias for it; select its images by id, name or tags, or use \
                    another family";
        return say(Kind::Refused, text.to_owned());
    }
    spec.ami_family = Some(AmiFamily::AL2);
    let text = "family `Ubuntu` is gone; AL2 is written, whose user data starts Ubuntu's images too: try one node first";
    say(Kind::Decide, text.to_owned());
    if spec.block_device_mappings.is_none() {
        say(
            Kind::Added,
            "spec.blockDeviceMappings: 20Gi gp3 as `/dev/sda1`, encrypted, as Ubuntu had".to_owned(),
        );
        let ebs = BlockDevice {
            encrypted: Some(true),
            volume_size: Some("20Gi".to_owned()),
            volume_type: Some(VolumeType::Gp3),
            ..Default::default()
        };
        let device_name = Some("/dev/sda1".to_owned());
        spec.block_device_mappings =
            Some(vec![BlockDeviceMapping { device_name, ebs: Some(ebs), root_volume: true }]);
    }
}

/// The metadata service as the old version set it up: v1 has other defaults.
///
/// v1alpha1 without the block allowed two hops; with a part of it, EC2 decided about the rest. v1beta1 filled in each
/// field.
fn metadata_options(fields: &mut Fields, version: Version, place: &str, log: &Log) -> MetadataOptions {
    let found = fields.read::<MetadataOptions>("metadataOptions");
    let field = format!("{place}.metadataOptions");
    let (hops, tokens) = match (version, &found) {
        (Version::Alpha, Some(_)) => (1, TokenState::Optional),
        _ => (2, TokenState::Required),
    };
    if let Some(found) = &found {
        log.at(Kind::Mapped, &found.path, found.line, "-> spec.metadataOptions");
    }
    let mut options = found.map(|found| found.value).unwrap_or_default();
    let mut added = Vec::new();
    if options.http_put_response_hop_limit.is_none() {
        options.http_put_response_hop_limit = Some(hops);
        added.push(format!("httpPutResponseHopLimit {hops}"));
    }
    if options.http_tokens.is_none() {
        options.http_tokens = Some(tokens);
        added.push(format!("httpTokens {}", tokens.as_str()));
    }
    options.http_endpoint = options.http_endpoint.or(Some(Toggle::Enabled));
    options.http_protocol_ipv6 = options.http_protocol_ipv6.or(Some(Toggle::Disabled));
    if !added.is_empty() {
        let text = format!("{}: what the old version set; v1 would set 1 and required", added.join(", "));
        log.say(Kind::Added, &field, text);
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_volumes_have_a_unit_of_v1() {
        let cases = [
            ("100Gi", Some("100Gi")),
            ("1T", Some("1T")),
            ("20480Mi", Some("20Gi")),
            ("107374182400", Some("100Gi")),
            ("5000M", Some("5G")),
            ("100", None),
            ("1500Mi", None),
            ("1.5Ti", None),
            ("", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(volume_size(text).as_deref(), wanted, "{text}");
        }
    }
}
