//! Writes the user data of nodes from a claim and a `NodeClass` (spec aws-provider 6.6).

use karpenter_api::ec2nodeclass::{AmiFamily, Ec2NodeClassSpec, Ec2NodeClassStatus, InstanceStorePolicy};
use karpenter_model::label::Labels;
use karpenter_model::taint;
use karpenter_model::{CapacityType, Taint};

use super::launch_labels;
use crate::class::expressions::Evaluated;
use crate::class::view::ClassView;
use crate::settings::Settings;
use crate::userdata::{self, Bootstrap, NodeTaint, bottlerocket};

/// Inputs of user data.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    pub settings: &'a Settings,
    pub view: &'a ClassView<'a>,
    /// Service CIDR, once known.
    pub service_cidr: Option<String>,
    /// Pod capacity of the group.
    pub pods: u32,
    /// Results of the class's expressions.
    pub evaluated: &'a Evaluated,
    /// Capacity type of the instances.
    pub capacity_type: CapacityType,
    /// Labels of the claim.
    pub labels: &'a Labels,
    /// Taints of the claim.
    pub taints: &'a [Taint],
    /// Startup taints of the claim.
    pub startup_taints: &'a [Taint],
}

/// Reason why there is no user data.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// nodeadm needs the service CIDR and it has not been read yet.
    #[error("the service CIDR of the cluster is not known yet; it is read while the node class is validated")]
    NoServiceCidr,
    /// The `NodeClass`'s own user data cannot be merged.
    #[error(transparent)]
    UserData(#[from] userdata::Error),
}

/// Renders user data, as plain text.
///
/// # Errors
/// See [`Error`].
pub fn user_data(inputs: Inputs<'_>) -> Result<String, Error> {
    let Inputs { settings, view, .. } = inputs;
    let spec = &view.class.spec;
    if view.family == AmiFamily::AL2023 && inputs.service_cidr.is_none() {
        return Err(Error::NoServiceCidr);
    }
    let block = spec.kubelet.clone().unwrap_or_default();
    let mut kubelet = block.settings();
    inputs.evaluated.lay_over(&mut kubelet);
    // The scheduler planned with this count; the kubelet must not compute another one.
    kubelet.max_pods.get_or_insert(i32::try_from(inputs.pods).unwrap_or(i32::MAX));
    if kubelet.cluster_dns.as_ref().is_none_or(Vec::is_empty) {
        kubelet.cluster_dns = settings.kube_dns_ip.clone().map(|ip| vec![ip]);
    }
    let mut taints = inputs.taints.to_vec();
    taint::merge(&mut taints, inputs.startup_taints);
    // Last and not twice: a pool may name it itself.
    taint::merge(&mut taints, &[Taint::unregistered()]);
    let mut labels: std::collections::BTreeMap<String, String> =
        inputs.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    labels.extend(launch_labels(view.family == AmiFamily::Custom, inputs.capacity_type));
    let bootstrap = Bootstrap {
        cluster_name: settings.cluster_name.clone(),
        cluster_endpoint: settings.cluster_endpoint.clone(),
        ca_bundle: settings.cluster_ca_bundle.clone(),
        cluster_cidr: inputs.service_cidr,
        kubelet,
        block,
        taints: taints.iter().map(node_taint).collect(),
        labels: userdata::kubelet_labels(&labels),
        custom: spec.user_data.clone(),
        raid0: spec.instance_store_policy == Some(InstanceStorePolicy::RAID0),
        bottlerocket_binds_directories: bottlerocket::binds_directories(
            bottlerocket_version(spec, view.status()).as_deref(),
        ),
    };
    Ok(userdata::render(view.family, &bootstrap)?)
}

fn node_taint(taint: &Taint) -> NodeTaint {
    NodeTaint { key: taint.key.clone(), value: taint.value.clone(), effect: taint.effect.as_str().to_owned() }
}

/// Version of the Bottlerocket image, from the first place that has it (spec aws-provider 6.9): the alias, the name of a
/// term, the name of the resolved image a term asks for by id, any resolved image called bottlerocket.
fn bottlerocket_version(spec: &Ec2NodeClassSpec, status: Option<&Ec2NodeClassStatus>) -> Option<String> {
    let terms = &spec.ami_selector_terms;
    let amis = status.map(|status| status.amis.as_slice()).unwrap_or_default();
    let by_alias = spec.alias().map(|(_, version)| version.to_owned());
    let by_name = || terms.iter().find_map(|term| version_in(term.name.as_deref()?));
    let by_id = || {
        let asked = |id: &str| terms.iter().any(|term| term.id.as_deref() == Some(id));
        amis.iter().filter(|ami| asked(&ami.id)).find_map(|ami| version_in(ami.name.as_deref()?))
    };
    let by_any = || {
        amis.iter()
            .filter_map(|ami| ami.name.as_deref())
            .filter(|name| name.contains("bottlerocket"))
            .find_map(version_in)
    };
    by_alias.or_else(by_name).or_else(by_id).or_else(by_any)
}

/// `1.21.0` in `bottlerocket-aws-k8s-1.28-x86_64-v1.21.0-d8d5be2f`.
fn version_in(name: &str) -> Option<String> {
    name.split('-')
        .filter_map(|word| word.strip_prefix('v'))
        .find(|word| word.split('.').count() >= 3 && word.starts_with(|c: char| c.is_ascii_digit()))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use karpenter_api::ec2nodeclass::{Ami, AmiSelectorTerm};

    use super::*;

    #[test]
    fn the_bottlerocket_version_is_found_where_it_is_named() {
        let image = "bottlerocket-aws-k8s-1.28-x86_64-v1.21.0-d8d5be2f";
        let term = |alias: Option<&str>, name: Option<&str>, id: Option<&str>| AmiSelectorTerm {
            alias: alias.map(str::to_owned),
            name: name.map(str::to_owned),
            id: id.map(str::to_owned),
            ..Default::default()
        };
        let status = Ec2NodeClassStatus {
            amis: vec![Ami { id: "ami-1".into(), name: Some(image.into()), ..Ami::default() }],
            ..Default::default()
        };
        for (term, status, version) in [
            (term(Some("bottlerocket@latest"), None, None), None, Some("latest")),
            (term(None, Some(image), None), None, Some("1.21.0")),
            (term(None, None, Some("ami-1")), Some(&status), Some("1.21.0")),
            (term(None, Some("x*"), None), Some(&status), Some("1.21.0")),
            (term(None, None, Some("ami-2")), None, None),
        ] {
            let spec = Ec2NodeClassSpec { ami_selector_terms: vec![term], ..Default::default() };
            assert_eq!(bottlerocket_version(&spec, status).as_deref(), version, "{spec:?}");
        }
    }
}
