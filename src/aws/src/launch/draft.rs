//! The launch templates that a launch would use, with the instance types for each, before EC2 is asked for anything.
//!
//! A launch makes them and asks for a machine; `karpenter render` prints them. Both get the same bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_api::ec2nodeclass::{EC2NodeClass, Ec2NodeClassStatus};
use karpenter_aws_api::ec2::LaunchTemplateSpec;
use karpenter_cloud::{Error, Kind, LaunchRequest};
use karpenter_model::names::{annotation, reason};
use karpenter_model::{CapacityType, InstanceType};

use super::filter::reserved::Reserved;
use super::filter::{self, Candidate, Wanted};
use super::group::{self, wants_adapters};
use super::placed::{self, Placed};
use super::{Launcher, OPERATION, bootstrap, template};
use crate::class::view::ClassView;
use crate::network::placement_groups::is_wanted;
use crate::tags;

/// Requesting this resource switches Nitro enclaves on, as `spec.enclaveOptions` of the class does.
const ENCLAVE_SLOTS: &str = "eks.amazonaws.com/nip-slots";

/// A launch that has been thought through, with nothing asked for yet.
#[derive(Clone, Debug)]
pub struct Drafts {
    /// At least one, in the order of image, interfaces and number of pods.
    pub drafts: Vec<Draft>,
    pub(super) purchase: Purchase,
    pub(super) tags: BTreeMap<String, String>,
}

/// A launch template and what is launched from it.
#[derive(Clone, Debug)]
pub struct Draft {
    pub spec: LaunchTemplateSpec,
    /// Image id.
    pub image: String,
    /// The reservation that the template names.
    pub reserved: Option<Reserved>,
    /// Types with the offerings to ask for, cheapest first.
    pub candidates: Vec<Candidate>,
}

/// Properties that all offerings of a launch share.
#[derive(Clone, Debug)]
pub(super) struct Purchase {
    pub(super) capacity_type: CapacityType,
    /// The claim could be bought in another way, too.
    pub(super) has_other_capacity_types: bool,
    pub(super) dedicated: bool,
    pub(super) placed: Option<Placed>,
}

impl Drafts {
    /// The capacity type that is asked for first.
    pub fn capacity_type(&self) -> CapacityType {
        self.purchase.capacity_type
    }
}

impl Launcher {
    /// Narrows `types` to what a launch asks for, and writes the templates it needs. Of AL2023 the service CIDR must be known.
    ///
    /// # Errors
    /// `NoCapacity` when no offering is left, `NodeClassNotReady` when the `NodeClass` lacks something, `Invalid` when its
    /// user data cannot be merged.
    pub fn draft(
        &self,
        request: &LaunchRequest,
        class: &EC2NodeClass,
        types: &[Arc<InstanceType>],
    ) -> Result<Drafts, Error> {
        let claim = request.claim.as_str();
        let status = status(claim, class)?;
        let tags = self.tags(request, class).map_err(|error| not_ready(claim, &error.to_string()))?;
        let (candidates, purchase) = self.narrowed(request, class, types)?;
        let drafts = self.drafts(request, class, status, (&candidates, &purchase), &tags)?;
        Ok(Drafts { drafts, purchase, tags })
    }

    /// Types to ask for, and how they are bought.
    fn narrowed(
        &self,
        request: &LaunchRequest,
        class: &EC2NodeClass,
        types: &[Arc<InstanceType>],
    ) -> Result<(Vec<Candidate>, Purchase), Error> {
        let claim = request.claim.as_str();
        let wanted = Wanted {
            requirements: &request.requirements,
            requests: &request.requests,
            registry: &self.registry,
            min_values_relaxed: request
                .annotations
                .get(annotation::MIN_VALUES_RELAXED)
                .is_some_and(|v| v == "true"),
        };
        let candidates = filter::narrow(&named(request, types), wanted)
            .map_err(|empty| Error::new(Kind::NoCapacity, OPERATION, claim, empty.to_string()))?;
        let capacity_type = filter::capacity_type(&candidates);
        let has_other_capacity_types = filter::has_other_capacity_types(&candidates, capacity_type);
        let candidates = filter::of_capacity_type(candidates, capacity_type);
        let few = filter::few_to_fall_back_to(&candidates, capacity_type, &request.requirements);
        if let Some(types) = few {
            let advised = filter::FLEXIBLE_TYPES;
            tracing::warn!(
                claim,
                types,
                advised,
                "on-demand launch for lack of spot has few instance types to choose from"
            );
        }
        let (placed, candidates) = match self.placement_groups.last_known(class) {
            Some(group) => {
                let (placed, candidates) = placed::place(group, &request.requirements, candidates);
                (Some(placed), candidates)
            }
            // Launched outside its group, the machine would count as drifted at once.
            None if is_wanted(class) => return Err(not_ready(claim, "its placement group is not known")),
            None => (None, candidates),
        };
        let dedicated = filter::dedicated(&request.requirements);
        Ok((candidates, Purchase { capacity_type, has_other_capacity_types, dedicated, placed }))
    }

    /// Tags of everything but the claim's own instance, which also carries the claim's name.
    fn tags(
        &self,
        request: &LaunchRequest,
        class: &EC2NodeClass,
    ) -> Result<BTreeMap<String, String>, tags::Refused> {
        let view = class.metadata.name.as_deref().unwrap_or_default();
        let pool = request.pool.as_ref().map(ToString::to_string).unwrap_or_default();
        tags::of_launch(&class.spec, view, &self.settings.cluster_name, &pool)
    }

    fn drafts(
        &self,
        request: &LaunchRequest,
        class: &EC2NodeClass,
        status: &Ec2NodeClassStatus,
        (candidates, purchase): (&[Candidate], &Purchase),
        tags: &BTreeMap<String, String>,
    ) -> Result<Vec<Draft>, Error> {
        let claim = request.claim.as_str();
        let profile = status.instance_profile.as_deref();
        let profile = profile.ok_or_else(|| not_ready(claim, "no instance profile is resolved"))?;
        if status.security_groups.is_empty() {
            return Err(not_ready(claim, "no security groups are resolved"));
        }
        let catalogue = self.catalogue.contents();
        let view = ClassView::new(class).evaluating(self.settings.gates.node_class_cel);
        let known = (&*self.settings, &*self.registry);
        let grouped = group::group(candidates, wants_adapters(request), &view, &catalogue, known);
        if grouped.is_empty() {
            return Err(not_ready(claim, "no image of the node class is for any of the instance types"));
        }
        let mut drafts = Vec::new();
        for (key, candidates) in grouped {
            let bootstrap = bootstrap::Inputs {
                settings: &self.settings,
                view: &view,
                service_cidr: self.cluster.service_cidr(),
                pods: key.pods,
                evaluated: &key.evaluated,
                capacity_type: purchase.capacity_type,
                labels: &request.labels,
                taints: &request.taints,
                startup_taints: &request.startup_taints,
            };
            let user_data = bootstrap::user_data(bootstrap).map_err(|error| unrendered(claim, &error))?;
            self.observer.user_data(view.name(), user_data.len());
            let spec = template::template(template::Inputs {
                capacity_type: purchase.capacity_type,
                dedicated: purchase.dedicated,
                adapters: &key.adapters,
                enclave: class.spec.runs_enclaves() || !request.requests.amount(ENCLAVE_SLOTS).is_zero(),
                reserved: key.reserved.as_ref(),
                placed: purchase.placed.as_ref(),
                ..self.template_inputs(&view, status, profile, &key.image, user_data, tags)
            });
            drafts.push(Draft { spec, image: key.image, reserved: key.reserved, candidates });
        }
        Ok(drafts)
    }
}

/// The status of a class that a controller has resolved.
pub(super) fn status<'a>(claim: &str, class: &'a EC2NodeClass) -> Result<&'a Ec2NodeClassStatus, Error> {
    class.status.as_ref().ok_or_else(|| not_ready(claim, "the node class has no status yet"))
}

/// The answer for a claim whose `NodeClass` lacks something.
pub(super) fn not_ready(claim: &str, message: &str) -> Error {
    Error::new(Kind::NodeClassNotReady, OPERATION, claim, message)
}

/// A claim without user data is kept and tried again: as one of a `NodeClass` that is not ready it would end without an
/// event, and be made again (spec aws-provider 6.9).
fn unrendered(claim: &str, error: &bootstrap::Error) -> Error {
    let kind = match error {
        bootstrap::Error::NoServiceCidr => Kind::Transient,
        bootstrap::Error::UserData(_) => Kind::Invalid,
    };
    Error::new(kind, OPERATION, claim, error.to_string()).with_reason(reason::LAUNCH_FAILED)
}

/// The types the request names, in its order; all of them when it names none.
fn named(request: &LaunchRequest, types: &[Arc<InstanceType>]) -> Vec<Arc<InstanceType>> {
    if request.instance_types.is_empty() {
        return types.to_vec();
    }
    let by_name: BTreeMap<&str, &Arc<InstanceType>> =
        types.iter().map(|one| (one.name.as_str(), one)).collect();
    request.instance_types.iter().filter_map(|name| by_name.get(name.as_str()).copied().cloned()).collect()
}
