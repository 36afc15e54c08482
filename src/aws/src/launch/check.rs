//! Proving that a `NodeClass` can be launched, without launching anything (spec aws-provider 12.2).
//!
//! A real launch template is made for one instance type, then a fleet and single instances are asked for as dry
//! runs. What is missing is found before the first pod waits for it: a permission, a profile, too much user data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::calls::refusal::LaunchFailure;
use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::{Ami, Ec2NodeClassStatus};
use karpenter_aws_api::ec2::{
    CapacityKind, FleetConfig, FleetOverride, FleetRequest, InstanceTypeInfo, LaunchTemplateSpec,
    OnDemandAllocation, RunInstancesRequest, RunInterface, SpotAllocation, TagSpecification, TaggedKind,
};
use karpenter_aws_api::{Error, Kind};
use karpenter_model::label::Labels;
use karpenter_model::names::{label, label::aws, reason};
use karpenter_model::resources;
use karpenter_model::{CapacityType, InstanceType, Pool};

use super::Launcher;
use super::bootstrap;
use super::filter;
use super::lost;
use super::placed::Placed;
use super::template;
use crate::catalogue::adapters;
use crate::class::expressions::Evaluated;
use crate::class::view::ClassView;
use crate::image::family::FamilyTraits;
use crate::image::image_for;
use crate::tags;
use crate::userdata;

/// Types tried when no pool states its needs.
const FALLBACK: [&str; 2] = ["m5.large", "m6g.large"];

/// Stands for the name of the claim in tags.
const TRIAL_CLAIM: &str = "dry-run";

/// Families of types tried before a refusal counts.
const FAMILIES_TRIED: usize = 3;

/// Inputs of a dry run.
struct Trial<'a> {
    instance_type: Arc<InstanceType>,
    ami: &'a Ami,
    capacity_type: CapacityType,
}

/// Result of the dry runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRunOutcome {
    /// Everything a launch needs is allowed.
    Passed,
    /// A launch would fail; reason and message of the condition.
    Failed {
        /// Condition reason.
        reason: &'static str,
        /// Description of the fault and its remedy.
        message: String,
    },
    /// AWS does not take a value of the `NodeClass`. Not lasting: what the value names may be about to be known everywhere.
    Refused {
        /// Condition reason.
        reason: &'static str,
        /// The field, its value, AWS's text and what to do.
        message: String,
    },
}

/// Reason why there is no verdict; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Inconclusive {
    /// AWS did not answer in a way that concerns the `NodeClass`.
    #[error(transparent)]
    Aws(#[from] Error),
    /// There is nothing to try with.
    #[error("{0}")]
    Incomplete(String),
}

impl Launcher {
    /// Tries out a `NodeClass` whose status is resolved.
    ///
    /// # Errors
    /// [`Inconclusive`] when the answer does not depend on the `NodeClass`; the condition is then left alone.
    pub async fn check(
        &self,
        class: &EC2NodeClass,
        types: &[Arc<InstanceType>],
        pools: &[Arc<Pool>],
    ) -> Result<DryRunOutcome, Inconclusive> {
        if let Some(refused) = contradiction(class) {
            return Ok(refused);
        }
        let incomplete = |what: &str| Inconclusive::Incomplete(what.to_owned());
        let status = class.status.as_ref().ok_or_else(|| incomplete("the node class has no status"))?;
        let view = ClassView::new(class).placed(self.placement_groups.last_known(class));
        let trials = self.trials(&view, status, types, pools);
        // A fault that rules out every launch is returned first, also while there is no type to try.
        if let Err(error) = self.trial_user_data(&view, CapacityType::OnDemand, 0) {
            return unrendered(error);
        }
        let mut first = None;
        for trial in &trials {
            let tried = self.attempt(&view, status, trial, pools).await;
            match &tried {
                Ok(DryRunOutcome::Passed) => return tried,
                // Not answered, or by what another client has done: that is no verdict on this trial nor the next.
                Err(Inconclusive::Aws(error)) if error.kind.is_retryable() || lost::is_gone(error) => {
                    return tried;
                }
                Ok(_) | Err(_) => first = first.or(Some(tried)),
            }
        }
        // One way to launch is enough; when there is none, the refusal of the first counts.
        let none = || Err(incomplete("no instance type fits both the node class and one of its images"));
        first.unwrap_or_else(none)
    }

    /// One dry run of each call that a launch of this type makes, bought in this way.
    async fn attempt(
        &self,
        view: &ClassView<'_>,
        status: &Ec2NodeClassStatus,
        trial: &Trial<'_>,
        pools: &[Arc<Pool>],
    ) -> Result<DryRunOutcome, Inconclusive> {
        let class = view.class;
        let user_data = match self.trial_user_data(view, trial.capacity_type, pods_of(&trial.instance_type)) {
            Ok(user_data) => user_data,
            Err(error) => return unrendered(error),
        };
        let tags = tags::of_launch(&class.spec, view.name(), &self.settings.cluster_name, "")
            // Without a pool its tag has an empty value, which policies for the reference allow (spec
            // aws-provider 12.2).
            .map_err(|error| Inconclusive::Incomplete(error.to_string()))?;
        let spec = self.trial_template(view, status, trial, pools, &tags, user_data)?;
        let template = match self.templates.ensure(&spec).await {
            Ok(template) => template,
            Err(error) => {
                let reason = reason::aws::CREATE_LAUNCH_TEMPLATE_AUTH;
                return refused(class, error, reason, "ec2:CreateLaunchTemplate");
            }
        };
        let verdict = self.dry_runs(&spec, (class, status), trial, tags).await;
        if let Err(Inconclusive::Aws(error)) = &verdict
            && lost::is_gone(error)
        {
            // Another client deleted it; the next try makes it again.
            self.templates.lost(&template);
        }
        verdict
    }

    /// Returns the restriction on launches of a class that can launch; `None` if there is none.
    ///
    /// EC2 gives no public address by request to instances with several interfaces. Those with adapters on several cards
    /// are such, so they are not offered adapters, and pods that ask for them wait.
    pub fn caveat(
        &self,
        class: &EC2NodeClass,
        types: &[Arc<InstanceType>],
        pools: &[Arc<Pool>],
    ) -> Option<String> {
        let known = self.catalogue.contents();
        let accepted = types.iter().filter(|one| pools.iter().any(|pool| self.accepts(pool, one)));
        adapters_without(class, accepted.filter_map(|one| known.types.get(one.name.as_str())))
    }

    /// Checks whether user data can be rendered from that of the `NodeClass`, which takes no call. The instance changes its
    /// numbers and labels, never the verdict.
    ///
    /// # Errors
    /// [`Inconclusive`] while something that no edit of the `NodeClass` changes is not known.
    pub fn check_user_data(&self, class: &EC2NodeClass) -> Result<DryRunOutcome, Inconclusive> {
        if let Some(refused) = contradiction(class) {
            return Ok(refused);
        }
        let tried = self.trial_user_data(&ClassView::new(class), CapacityType::OnDemand, 0);
        tried.map_or_else(unrendered, |_| Ok(DryRunOutcome::Passed))
    }

    fn trial_user_data(
        &self,
        view: &ClassView<'_>,
        capacity_type: CapacityType,
        pods: u32,
    ) -> Result<String, bootstrap::Error> {
        bootstrap::user_data(bootstrap::Inputs {
            settings: &self.settings,
            view,
            service_cidr: self.cluster.service_cidr(),
            pods,
            evaluated: &Evaluated::default(),
            capacity_type,
            labels: &Labels::new(),
            taints: &[],
            startup_taints: &[],
        })
    }

    async fn dry_runs(
        &self,
        spec: &LaunchTemplateSpec,
        (class, status): (&EC2NodeClass, &Ec2NodeClassStatus),
        trial: &Trial<'_>,
        mut tags: BTreeMap<String, String>,
    ) -> Result<DryRunOutcome, Inconclusive> {
        // The tags of a launch, and no fewer: a policy may allow only certain keys.
        tags.insert(tags::NODE_CLAIM.to_owned(), TRIAL_CLAIM.to_owned());
        let fleet = fleet(spec, status, trial, &tags);
        if let Err(error) = self.clients.ec2.dry_run_create_fleet(&fleet).await {
            return refused(class, error, reason::aws::CREATE_FLEET_AUTH, "ec2:CreateFleet");
        }
        self.run_instances(spec, (class, status), trial, &tags).await
    }

    /// A subnet that works is enough; if none does, the first one's answer counts.
    async fn run_instances(
        &self,
        spec: &LaunchTemplateSpec,
        (class, status): (&EC2NodeClass, &Ec2NodeClassStatus),
        trial: &Trial<'_>,
        tags: &BTreeMap<String, String>,
    ) -> Result<DryRunOutcome, Inconclusive> {
        let mut first = None;
        let of_launch = [TaggedKind::Instance, TaggedKind::Volume]
            .map(|kind| TagSpecification { kind, tags: tags.clone() });
        let tags: Vec<_> = of_launch.into_iter().chain(spec.data.tags.iter().cloned()).collect();
        for subnet in &status.subnets {
            let interfaces = spec.data.network_interfaces.iter().map(|interface| RunInterface {
                subnet: subnet.id.as_str().into(),
                interface: interface.clone(),
            });
            let request = RunInstancesRequest {
                launch_template: spec.name.clone(),
                instance_type: trial.instance_type.name.as_str().into(),
                interfaces: interfaces.collect(),
                tags: tags.clone(),
                metadata: spec.data.metadata.clone(),
                block_devices: spec.data.block_devices.clone(),
                spot: trial.capacity_type == CapacityType::Spot,
            };
            match self.clients.ec2.dry_run_run_instances(&request).await {
                Ok(()) => return Ok(DryRunOutcome::Passed),
                Err(error) => first = first.or(Some(error)),
            }
        }
        match first {
            Some(error) => refused(class, error, reason::aws::RUN_INSTANCES_AUTH, "ec2:RunInstances"),
            None => Err(Inconclusive::Incomplete("the node class has no resolved subnets".to_owned())),
        }
    }

    /// Types that the `NodeClass` and one of its pools accept, with their images, bought as the pools ask for; types with a
    /// standard image come first, because images for accelerators have big disks. A policy may be about a family or a way
    /// of buying (aws#9018), so the types are of several families, and on-demand is not tried for pools of spot.
    fn trials<'a>(
        &self,
        view: &ClassView<'_>,
        status: &'a Ec2NodeClassStatus,
        types: &[Arc<InstanceType>],
        pools: &[Arc<Pool>],
    ) -> Vec<Trial<'a>> {
        let usable: Vec<&Arc<InstanceType>> = types
            .iter()
            .filter(|one| one.offerings.iter().any(karpenter_model::Offering::is_launchable))
            .collect();
        let wanted: Vec<&Arc<InstanceType>> =
            usable.iter().copied().filter(|one| pools.iter().any(|pool| self.accepts(pool, one))).collect();
        let fallback = || {
            let known: Vec<_> =
                usable.iter().copied().filter(|one| FALLBACK.contains(&one.name.as_str())).collect();
            if known.is_empty() { usable.clone() } else { known }
        };
        // Windows is tried with the small types, as in the reference (spec aws-provider 12.2).
        let candidates = if wanted.is_empty() || view.family.windows() { fallback() } else { wanted };
        let with_image = candidates
            .into_iter()
            .filter_map(|one| Some((one, image_for(&status.amis, &one.requirements, &self.registry)?)));
        let (plain, special): (Vec<_>, Vec<_>) =
            with_image.partition(|(_, ami)| !ami.requirements.iter().any(needs_accelerator));
        let mut families = BTreeSet::new();
        let several = plain.into_iter().chain(special).filter(|(one, _)| families.insert(family(one)));
        let ways = capacity_types(pools);
        let bought = |(one, ami): (&Arc<InstanceType>, &'a Ami)| {
            let one = Arc::clone(one);
            ways.iter().map(move |way| Trial { instance_type: Arc::clone(&one), ami, capacity_type: *way })
        };
        several.take(FAMILIES_TRIED).flat_map(bought).collect()
    }

    fn accepts(&self, pool: &Pool, instance_type: &InstanceType) -> bool {
        pool.requirements(&self.registry).intersects(&instance_type.requirements).is_ok()
    }

    fn trial_template(
        &self,
        view: &ClassView<'_>,
        status: &Ec2NodeClassStatus,
        trial: &Trial<'_>,
        pools: &[Arc<Pool>],
        tags: &BTreeMap<String, String>,
        user_data: String,
    ) -> Result<LaunchTemplateSpec, Inconclusive> {
        let profile = status.instance_profile.as_deref();
        let profile =
            profile.ok_or_else(|| Inconclusive::Incomplete("no instance profile is resolved".to_owned()))?;
        // As in the reference (spec aws-provider 12.2), although launches prefer shared hardware where a pool
        // allows both.
        let dedicated = pools.iter().any(|pool| filter::names_dedicated(&pool.template.requirements));
        self.observer.user_data(view.name(), user_data.len());
        if userdata::is_nearly_full(user_data.len()) {
            let (node_class, bytes, limit) = (view.name(), user_data.len(), userdata::LIMIT_BYTES);
            tracing::warn!(
                node_class,
                bytes,
                limit,
                "user data is nearly as large as EC2 accepts; shorten spec.userData"
            );
        }
        let placed = view.placement.clone().map(|group| Placed { group, partition: None });
        Ok(template::template(template::Inputs {
            dedicated,
            capacity_type: trial.capacity_type,
            placed: placed.as_ref(),
            ..self.template_inputs(view, status, profile, &trial.ami.id, user_data, tags)
        }))
    }
}

/// The ways of buying that these pools ask for; without any, on demand. What is reserved is bought like that, too.
pub fn capacity_types(pools: &[Arc<Pool>]) -> Vec<CapacityType> {
    let asked = |way: &CapacityType| {
        pools.iter().any(|pool| {
            let wanted = pool.template.requirements.get(label::CAPACITY_TYPE);
            wanted.is_none_or(|wanted| wanted.allows(way.as_str()))
        })
    };
    let mut ways: Vec<_> = [CapacityType::OnDemand, CapacityType::Spot].into_iter().filter(asked).collect();
    if ways.is_empty() {
        ways.push(CapacityType::OnDemand);
    }
    ways
}

/// `m5` of `m5.large`.
fn family(instance_type: &InstanceType) -> &str {
    instance_type.name.as_str().split('.').next().unwrap_or_default()
}

fn pods_of(instance_type: &InstanceType) -> u32 {
    u32::try_from(instance_type.capacity.amount(resources::PODS).as_units_ceil()).unwrap_or_default()
}

/// Returns the notice about network adapters that these types lose because the class asks for public addresses.
fn adapters_without<'a>(
    class: &EC2NodeClass,
    mut types: impl Iterator<Item = &'a InstanceTypeInfo>,
) -> Option<String> {
    let spec = &class.spec;
    if spec.associate_public_ip_address != Some(true) || spec.network_interfaces.is_some() {
        return None;
    }
    let named = &types.find(|one| adapters::excludes_public_address(one))?.name;
    Some(format!(
        "EC2 launches no instance with EFA on several network cards, such as `{named}`, while \
         spec.associatePublicIPAddress is true, so pods get no `vpc.amazonaws.com/efa` there; unset it and let the \
         subnets decide"
    ))
}

/// Returns the refusal of fields that no launch can combine (aws PR#5666).
fn contradiction(class: &EC2NodeClass) -> Option<DryRunOutcome> {
    class.spec.gives_no_public_address().then(|| DryRunOutcome::Failed {
        reason: reason::aws::NETWORK_INTERFACES_INVALID,
        message: "EC2 gives no public address by request to instances with several network interfaces: \
                  spec.associatePublicIPAddress is true and spec.networkInterfaces has more than one; unset one of them, \
                  and let the subnets decide about public addresses"
            .to_owned(),
    })
}

/// Maps a failure to render user data to a verdict on the `NodeClass`.
fn unrendered(error: bootstrap::Error) -> Result<DryRunOutcome, Inconclusive> {
    match error {
        bootstrap::Error::UserData(error) => {
            Ok(DryRunOutcome::Failed { reason: reason::aws::USER_DATA_INVALID, message: error.to_string() })
        }
        error @ bootstrap::Error::NoServiceCidr => Err(Inconclusive::Incomplete(error.to_string())),
    }
}

fn needs_accelerator(requirement: &karpenter_api::Requirement) -> bool {
    requirement.operator == karpenter_api::Operator::Exists
        && [aws::INSTANCE_GPU_COUNT, aws::INSTANCE_ACCELERATOR_COUNT].contains(&requirement.key.as_str())
}

fn fleet(
    spec: &LaunchTemplateSpec,
    status: &Ec2NodeClassStatus,
    trial: &Trial<'_>,
    tags: &BTreeMap<String, String>,
) -> FleetRequest {
    let overrides = status.subnets.iter().map(|subnet| FleetOverride {
        instance_type: trial.instance_type.name.as_str().into(),
        subnet: subnet.id.as_str().into(),
        zone: Some(subnet.zone.as_str().into()),
        image: spec.data.image.clone(),
        priority_nanos: None,
    });
    let kinds = [TaggedKind::Instance, TaggedKind::Volume, TaggedKind::Fleet];
    FleetRequest {
        client_token: None,
        capacity: match trial.capacity_type {
            CapacityType::Spot => CapacityKind::Spot(SpotAllocation::PriceCapacityOptimized),
            CapacityType::OnDemand | CapacityType::Reserved => {
                CapacityKind::OnDemand(OnDemandAllocation::LowestPrice)
            }
        },
        target: 1,
        configs: vec![FleetConfig { launch_template: spec.name.clone(), overrides: overrides.collect() }],
        tags: kinds.map(|kind| TagSpecification { kind, tags: tags.clone() }).to_vec(),
        context: None,
    }
}

/// A refusal that concerns the `NodeClass` is a verdict, everything else is tried again.
fn refused(
    class: &EC2NodeClass,
    error: Error,
    reason: &'static str,
    action: &str,
) -> Result<DryRunOutcome, Inconclusive> {
    let failure = LaunchFailure::of(&error.code_and_message());
    if failure == LaunchFailure::UserDataSizeLimitExceeded {
        let reason = reason::aws::USER_DATA_SIZE;
        let message = format!("rendered user data is larger than EC2 accepts: {}", error.message);
        return Ok(DryRunOutcome::Failed { reason, message });
    }
    if error.kind == Kind::Denied {
        let hint = failure.hint().unwrap_or("add the missing statement to the controller role's policies");
        let message = format!("controller is not authorized to call {action}: {}; {hint}", error.message);
        return Ok(DryRunOutcome::Failed { reason, message });
    }
    // A profile of ours is another matter: EC2 does not find a new one for a while.
    if failure == LaunchFailure::InstanceProfileNameInvalid
        && let Some(profile) = class.spec.instance_profile.as_deref()
    {
        let is_name = !profile.contains([':', '/']);
        let help = if is_name { "" } else { "; write the name alone, without ARN and path" };
        let message = format!("Instance profile \"{profile}\" not found{help}");
        return Ok(DryRunOutcome::Refused { reason: reason::aws::INSTANCE_PROFILE_NOT_FOUND, message });
    }
    match wrong_value(&error, failure) {
        Some((field, help)) => {
            let message = format!("EC2 refuses {field} in {action}: {}; {help}", error.code_and_message());
            Ok(DryRunOutcome::Refused { reason: failure.reason(), message })
        }
        None => Err(error.into()),
    }
}

/// The field of the `NodeClass` that a refusal is about, and what to do.
fn wrong_value(error: &Error, failure: LaunchFailure) -> Option<(String, String)> {
    let code = error.code.as_deref().unwrap_or_default();
    if failure == LaunchFailure::SecurityGroupSubnetVpcMismatch {
        let fields = "spec.subnetSelectorTerms with spec.securityGroupSelectorTerms".to_owned();
        return Some((fields, failure.hint().unwrap_or_default().to_owned()));
    }
    let by_code = FIELDS.iter().find(|(codes, _)| codes.contains(&code)).map(|(_, field)| *field);
    let field = by_code.or_else(|| by_text(code, &error.message))?;
    let help = failure.hint().unwrap_or("correct the field, or create what it names");
    Some((field.to_owned(), help.to_owned()))
}

/// The field that a parameter of EC2 comes from, which its code, that of every wrong parameter, does not say
/// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>).
fn by_text(code: &str, message: &str) -> Option<&'static str> {
    let of_parameter = code.starts_with("InvalidParameter") || code == "MissingParameter";
    let text = message.to_lowercase();
    let (_, field) = OF_PARAMETERS.iter().find(|(words, _)| words.iter().any(|word| text.contains(word)))?;
    of_parameter.then_some(*field)
}

/// Words for parameters that an EC2NodeClass states.
const OF_PARAMETERS: [(&[&str], &str); 2] = [
    (&["iops", "throughput", "volume", "kmskeyid", "encrypted"], "spec.blockDeviceMappings"),
    (&["tag key", "tag value", "tagkey", "tagvalue"], "spec.tags"),
];

/// Fields of a `NodeClass` that the error codes of EC2 are about.
const FIELDS: [(&[&str], &str); 7] = [
    (&["TagLimitExceeded", "InvalidTagKey.Malformed"], "spec.tags"),
    (
        &["InvalidAMIID.Malformed", "InvalidAMIID.NotFound", "InvalidAMIID.Unavailable"],
        "an image of spec.amiSelectorTerms",
    ),
    (&["InvalidSubnetID.NotFound", "InvalidSubnet"], "a subnet of spec.subnetSelectorTerms"),
    (
        &["InvalidGroup.NotFound", "InvalidSecurityGroupID.NotFound", "InvalidGroupId.Malformed"],
        "a group of spec.securityGroupSelectorTerms",
    ),
    (
        &["InvalidBlockDeviceMapping", "InvalidSnapshot.NotFound", "InvalidSnapshotID.Malformed"],
        "spec.blockDeviceMappings",
    ),
    (
        &["InvalidKMSKey.InvalidState", "InvalidKmsKeyId.Malformed", "KMSKeyNotFound"],
        "the key of spec.blockDeviceMappings",
    ),
    (&["InvalidPlacementGroup.Unknown", "InvalidPlacementGroupId.Malformed"], "spec.placementGroupSelector"),
];

#[cfg(test)]
mod tests;
