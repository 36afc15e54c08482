//! Obstacles to a complete screen, and what to do about them.

use jiff::Timestamp;
use karpenter_kube_harness::watch;

/// The kinds that are followed, as the API server calls them: group and resource.
pub(crate) const NODES: Followed = Followed { group: "", resource: "nodes" };
/// See [`NODES`].
pub(crate) const PODS: Followed = Followed { group: "", resource: "pods" };
/// See [`NODES`].
pub(crate) const CLAIMS: Followed = Followed { group: "karpenter.sh", resource: "nodeclaims" };
/// Read for one page at a time.
pub(crate) const EVENTS: Followed = Followed { group: "", resource: "events" };

/// Rights that prices need.
const PRICE_RIGHTS: &str = "Prices come from AWS with your own credentials, which need pricing:GetProducts and \
    ec2:DescribeSpotPriceHistory; `--no-prices` leaves them out.";

/// Something the API server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Followed {
    group: &'static str,
    pub(crate) resource: &'static str,
}

impl Followed {
    /// Returns the trouble of an unsuccessful request for it; `code` is the HTTP status, none without an answer.
    pub(crate) fn trouble(self, verb: &'static str, code: Option<u16>, text: &str) -> Trouble {
        match code {
            Some(403) => Trouble::Refused { verb, group: self.group, resource: self.resource },
            Some(404) => Trouble::Missing { group: self.group, resource: self.resource },
            _ => Trouble::Unlisted { resource: self.resource, why: text.to_owned() },
        }
    }

    /// Returns the trouble of a watch.
    pub(crate) fn trouble_of_watch(self, trouble: &watch::Trouble) -> Trouble {
        self.trouble(trouble.verb, trouble.code, &trouble.text)
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The API server does not answer.
    Away {
        /// The last time it did.
        since: Timestamp,
        /// Event that happened instead.
        why: String,
    },
    /// The user may not do this.
    Refused {
        /// `list` or `watch`.
        verb: &'static str,
        /// The group of the resource, empty for the core group.
        group: &'static str,
        /// Resource that was requested.
        resource: &'static str,
    },
    /// The API server does not serve the resource.
    Missing {
        /// The group of the resource.
        group: &'static str,
        /// Resource that was requested.
        resource: &'static str,
    },
    /// A list is not there yet for another reason.
    Unlisted {
        /// Resource that was requested.
        resource: &'static str,
        /// Error text.
        why: String,
    },
    /// Claims are written in a way that this release cannot decode.
    Undecoded {
        /// The first of them by name.
        claim: String,
        /// The path of its field, and what is wrong with it.
        problem: String,
        /// Number of further objects.
        more: usize,
    },
    /// There are no prices.
    NoPrices(String),
    /// There are some prices; which are not there, and why.
    PricesMissing(String),
}

impl Trouble {
    /// The trouble of these claims, each with what is wrong; `None` where there is none.
    pub(crate) fn of_undecoded<'a>(mut claims: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Self> {
        let (claim, problem) = claims.next()?;
        Some(Self::Undecoded { claim: claim.to_owned(), problem: problem.to_owned(), more: claims.count() })
    }

    /// Returns whether waiting does not help: a person has to change something.
    pub const fn lasts(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Missing { .. })
    }

    /// Says it in one line.
    pub fn short(&self) -> String {
        match self {
            Self::Away { since, why } => {
                format!(
                    "the API server does not answer since {}, showing what was known, trying again: {why}",
                    since.strftime("%H:%M:%S")
                )
            }
            Self::Refused { verb, resource, .. } => {
                format!("not allowed to {verb} {resource}; the rule to add is on page `!`")
            }
            Self::Missing { resource, group } => {
                format!("the API server does not know {resource}.{group}; run `karpenter crds`, see page `!`")
            }
            Self::Unlisted { resource, why } => format!("cannot list {resource}, trying again: {why}"),
            Self::Undecoded { claim, problem, more } => {
                let more = if *more > 0 { format!(" and {more} more") } else { String::new() };
                format!("cannot decode NodeClaim {claim}{more}, of which less is shown: {problem}")
            }
            Self::NoPrices(why) => format!("no prices: {why}"),
            Self::PricesMissing(missing) => missing.clone(),
        }
    }

    /// Says it with what to do about it.
    pub fn full(&self) -> String {
        match self {
            Self::Refused { verb, group, resource } => format!(
                "cannot {verb} {resource}: the API server refuses it to this user.\n\
                 Add this rule to a ClusterRole that is bound to the user:\n\n\
                 - apiGroups: [\"{group}\"]\n  resources: [\"{resource}\"]\n  verbs: [\"get\", \"list\", \"watch\"]\n\n\
                 The role with all rules this program uses is in docs/view.md. Tried again all the time."
            ),
            Self::Missing { group, resource } => format!(
                "cannot list {resource}.{group}: the API server does not know them, so only Nodes are shown.\n\
                 If this cluster is to have Karpenter: `karpenter crds | kubectl apply --server-side -f -`."
            ),
            Self::Away { why, .. } => format!(
                "{}\n{why}\nWhat is shown is what was known then; it goes on when the API server answers.",
                "the API server does not answer; check the network, and `kubectl get --raw /version`."
            ),
            Self::Unlisted { resource, why } => {
                format!("cannot list {resource}; tried again all the time.\n{why}")
            }
            Self::Undecoded { .. } => format!(
                "{}\nA controller of another release has probably written it. Its machine is shown with what can be read: \
                 labels, instance, Node and conditions. Use the `karpenter` of the controller's release.",
                self.short()
            ),
            Self::NoPrices(why) => format!("cannot read prices: {why}\n{PRICE_RIGHTS}"),
            Self::PricesMissing(missing) => format!("{missing}\n{PRICE_RIGHTS}"),
        }
    }
}
