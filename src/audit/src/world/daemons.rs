//! Daemons that a machine runs once it is up, whether a plan launches it, it is coming or it is there
//! (spec scheduling 16).
//!
//! Up means: with its life-cycle labels, and with a name that a machine without a Node does not have yet, so that no daemon
//! set can ask for it by name. Of a machine that is not registered a label may be undecided, and daemons may come or not.

use karpenter_model::names::label;
use karpenter_model::pod::NODE_NAME;
use karpenter_model::{
    Daemon, InstanceType, LabelKey, LabelValue, Launch, Node, NodeTerm, Pod, Pool, Requirement, Requirements,
    Resources, Undefined,
};

use super::{World, hard_taint, value_of};

/// Placeholder for the name of a Node, which no Node has.
const NAMELESS: &str = "-";

/// A daemon that a machine is to get.
pub(crate) struct Expected<'a> {
    pub(crate) daemon: &'a Daemon,
    /// True if it runs there whatever the machine turns out to be.
    pub(crate) certain: bool,
}

/// Fact about one label of a machine.
enum Known {
    Value(LabelValue),
    OneOf(Requirement),
    /// The instance decides.
    Open,
    Missing,
}

impl Known {
    /// Returns whether `asked` holds in the end, and whether it may.
    fn answer(&self, asked: &Requirement) -> (bool, bool) {
        let missing = asked.accepts_absence();
        match self {
            Self::Value(value) => (asked.allows(value.as_str()), asked.allows(value.as_str())),
            Self::OneOf(own) => {
                let both = own.intersection(asked).with_min_values(own.min_values());
                (both == *own, own.intersects(asked) || missing && own.accepts_absence())
            }
            Self::Open => (missing, true),
            Self::Missing => (missing, missing),
        }
    }
}

impl<'a> World<'a> {
    /// The daemon sets that count.
    pub(crate) fn daemons(&self) -> impl Iterator<Item = &'a Daemon> {
        let ignored = self.snapshot.settings.ignore_dra_requests;
        let daemons = self.snapshot.daemons.iter().map(AsRef::as_ref);
        daemons.filter(move |daemon| !(ignored && daemon.pod.has_resource_claims))
    }

    /// Daemons that new machines of `pool` do not keep out, whatever their instance type, with what they ask for: any
    /// one of the sets.
    pub(super) fn daemons_of(&self, pool: &Pool) -> Vec<(&'a Daemon, Vec<Requirements>)> {
        let mut template = self.template_of(pool);
        for (key, value) in once_up() {
            template.add(Requirement::one_of(key.into(), [value.into()]));
        }
        let agrees =
            |asked: &Requirements| template.compatible(asked, Undefined::WellKnown(self.registry())).is_ok();
        let tolerant =
            self.daemons().filter(|daemon| hard_taint(&pool.template.taints, &daemon.pod).is_none());
        tolerant
            .map(|daemon| (daemon, self.asked_by(&daemon.pod).into_iter().filter(agrees).collect()))
            .collect()
    }

    /// Returns those of `daemons` that may come with the machine of `launch`.
    pub(crate) fn daemons_with<'d>(&self, launch: &Launch, daemons: &[&'d Daemon]) -> Vec<Expected<'d>> {
        let types = self.types_of(launch);
        let known = |key: &LabelKey, one: &InstanceType| {
            if let Some((_, value)) = once_up().into_iter().find(|(known, _)| *known == key.as_str()) {
                return Known::Value(value.into());
            }
            let own = [&launch.requirements, &one.requirements].map(|all| all.get(key.as_str()));
            let label = launch.labels.get(key).map(|value| Requirement::one_of(key.clone(), [value.clone()]));
            let stated = own.into_iter().flatten().cloned().chain(label);
            match stated.reduce(|one, other| one.intersection(&other)) {
                Some(own) => Known::OneOf(own),
                None if self.registry().is_well_known(key.as_str()) => Known::Open,
                None => Known::Missing,
            }
        };
        let mut expected = Vec::new();
        for daemon in daemons.iter().filter(|daemon| hard_taint(&launch.taints, &daemon.pod).is_none()) {
            let sets = self.asked_by(&daemon.pod);
            let on = |one: &&InstanceType| verdict(&sets, |key| known(key, one));
            let answers: Vec<(bool, bool)> = types.iter().map(on).collect();
            if answers.iter().any(|(_, possible)| *possible) {
                expected.push(Expected { daemon, certain: answers.iter().all(|(certain, _)| *certain) });
            }
        }
        expected
    }

    /// Returns those of `daemons` that a machine runs or is to get.
    fn daemons_on<'d>(&self, node: &Node, daemons: impl Iterator<Item = &'d Daemon>) -> Vec<Expected<'d>> {
        let taints = node.effective_taints();
        let known = |key: &LabelKey| self.known(node, key);
        let tolerant = daemons.filter(|daemon| hard_taint(&taints, &daemon.pod).is_none());
        let expected = tolerant.filter_map(|daemon| {
            let sets = self.asked_by(&daemon.pod);
            let (certain, _) = verdict(&sets, known);
            let mut possible = sets.iter().filter(|asked| verdict(std::slice::from_ref(*asked), known).1);
            let runs = certain || possible.any(|asked| self.may_become(node, asked));
            runs.then_some(Expected { daemon, certain })
        });
        expected.collect()
    }

    /// Returns those of `daemons` that a machine is to get and has no pod of.
    pub(crate) fn daemons_to_come<'d>(
        &self,
        node: &Node,
        daemons: impl Iterator<Item = &'d Daemon>,
    ) -> Vec<Expected<'d>> {
        let mut expected = self.daemons_on(node, daemons);
        expected.retain(|one| !node.pods.iter().any(|pod| one.daemon.owns(pod) && !pod.is_terminal()));
        let left = node.effective_allocatable().subtract(&node.requested());
        for one in &mut expected {
            one.certain &= one.daemon.pod.requests.fits(&left);
        }
        expected
    }

    /// Returns the resources that the daemons of `node` will request in addition to the requests of those there.
    pub(crate) fn daemons_missing(&self, node: &Node) -> Resources {
        let missing = self.daemons_on(node, self.daemons()).into_iter().map(|Expected { daemon, .. }| {
            let own = node.pods.iter().filter(|pod| daemon.owns(pod) && !pod.is_terminal());
            let has: Resources = own.map(|pod| &pod.requests).sum();
            daemon.pod.requests.subtract(&has).floor_zero()
        });
        missing.fold(Resources::new(), |sum, one| sum.merge(&one))
    }

    fn known(&self, node: &Node, key: &LabelKey) -> Known {
        let name = || node.name.as_ref().map(|name| LabelValue::from(name.as_str()));
        let label = || node.labels.get(label::HOSTNAME).cloned();
        match key.as_str() {
            label::REGISTERED | label::INITIALIZED if node.is_managed() => {
                return Known::Value("true".into());
            }
            NODE_NAME => return Known::Value(name().unwrap_or_else(|| NAMELESS.into())),
            label::HOSTNAME => return Known::Value(label().or_else(name).unwrap_or_else(|| NAMELESS.into())),
            _ => {}
        }
        if let Some(value) = value_of(node, key, self.registry()) {
            return Known::Value(value);
        }
        if let Some(own) = node.unlaunched().and_then(|claim| claim.requirements.get(key.as_str())) {
            return Known::OneOf(own.clone());
        }
        if !node.registered() && self.registry().is_well_known(key.as_str()) {
            return Known::Open;
        }
        Known::Missing
    }

    /// Returns whether a machine that is not registered may have an instance type that suits `asked`. Where its types
    /// are not known, any may.
    fn may_become(&self, node: &Node, asked: &Requirements) -> bool {
        if node.registered() {
            return false;
        }
        let types = node.pool().and_then(|pool| self.snapshot.instance_types.get(&pool));
        let Some(types) = types else { return true };
        let key = label::INSTANCE_TYPE.into();
        let is_one = |one: &InstanceType| match self.known(node, &key) {
            Known::Value(name) => name.as_str() == one.name.as_str(),
            Known::OneOf(names) => names.allows(one.name.as_str()),
            Known::Open | Known::Missing => true,
        };
        types.iter().any(|one| is_one(one) && one.requirements.intersects(asked).is_ok())
    }

    /// Returns the alternatives for nodes of `pod`, which belongs to a daemon set; one must hold. A term that is empty
    /// or contradicts the selector is met by no node.
    fn asked_by(&self, pod: &Pod) -> Vec<Requirements> {
        let selected = Requirements::from_labels(self.registry(), &pod.node_selector);
        let with = |term: &NodeTerm| {
            let written = term.expressions.iter().chain(&term.fields);
            let written = written.map(|expression| Requirement::new(self.registry(), expression));
            let stated: Vec<Requirement> = selected.iter().cloned().chain(written).collect();
            let all: Requirements = stated.iter().cloned().collect();
            let is_void = |key: &LabelKey| all.get(key.as_str()).is_some_and(Requirement::is_empty);
            let clashes = stated.iter().any(|one| !one.accepts_absence() && is_void(one.key()));
            (!clashes).then_some(all)
        };
        if pod.required_terms.is_empty() {
            return with(&NodeTerm::default()).into_iter().collect();
        }
        pod.required_terms.iter().filter(|term| !term.is_empty()).filter_map(with).collect()
    }
}

/// Returns the labels of every new machine of ours once it is up, and its name.
fn once_up() -> [(&'static str, &'static str); 4] {
    [
        (label::REGISTERED, "true"),
        (label::INITIALIZED, "true"),
        (label::HOSTNAME, NAMELESS),
        (NODE_NAME, NAMELESS),
    ]
}

/// Returns whether a machine meets one of `sets` for certain, and whether it may.
fn verdict(sets: &[Requirements], known: impl Fn(&LabelKey) -> Known) -> (bool, bool) {
    let answers = sets.iter().map(|asked| {
        let each = asked.iter().map(|asked| known(asked.key()).answer(asked));
        each.fold((true, true), |all, one| (all.0 && one.0, all.1 && one.1))
    });
    answers.fold((false, false), |any, one| (any.0 || one.0, any.1 || one.1))
}
