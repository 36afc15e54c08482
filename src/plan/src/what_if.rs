//! Changes to a cluster that a plan can be made for without making them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use karpenter_model::names::label;
use karpenter_model::{PoolName, Price, Zone};
use serde_json::Value;

use crate::export;
use crate::lint::near;
use crate::objects::{ObjectKey, Objects, is_foreign, kinds, text};
use crate::offerings::Offerings;
use crate::settle;
use crate::text::named;
use crate::workloads::roll_out::roll_out;
use crate::workloads::{self, Refusals, WORKLOADS, autoscalers, has_ended};

/// Assumed differences.
#[derive(Clone, Debug, Default)]
pub struct WhatIf {
    /// Manifests that are applied: pods and workloads, pools, node classes and whatever else plans read.
    pub manifests: Vec<Value>,
    /// Pools that are deleted, and their nodes with them.
    pub deleted_pools: Vec<PoolName>,
    /// Zones that are gone with everything in them.
    pub lost_zones: Vec<Zone>,
    pub prices: Vec<PriceChange>,
}

/// Another price for some offerings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceChange {
    /// `spot`, `on-demand`, `reserved` or an instance type.
    of: String,
    /// The price as a share of what it is, in percent.
    percent: u32,
}

/// A text that is not a [`PriceChange`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a change of prices; write whole percents above 0: spot=150% for spot prices half as high again, or \
     m7g.large=80%"
)]
pub struct NotAPriceChange(String);

/// A change that would change nothing, because nothing is of what it names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMatch {
    #[error("cannot plan without zone `{zone}`: no node is in it and no pool can launch there; {there}")]
    Zone {
        zone: Zone,
        /// The zones there are, or the one that was probably meant.
        there: String,
    },
    /// A pool.
    #[error("cannot plan without pool `{pool}`: there is none of that name; {there}")]
    Pool {
        /// As it was named.
        pool: PoolName,
        /// The pools there are, or the one that was probably meant.
        there: String,
    },
    /// A price.
    #[error(
        "cannot plan with another price of `{of}`: pools can launch no such capacity type or instance type; {there}"
    )]
    Price {
        of: String,
        /// The names there are, or the one that was probably meant.
        there: String,
    },
}

impl std::str::FromStr for PriceChange {
    type Err = NotAPriceChange;

    fn from_str(written: &str) -> Result<Self, NotAPriceChange> {
        let wrong = || NotAPriceChange(written.to_owned());
        let (of, percent) = written.split_once('=').ok_or_else(wrong)?;
        let percent = percent.strip_suffix('%').and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
        // Nothing is free: a price of zero would make one type the answer to everything.
        if of.is_empty() || percent == 0 {
            return Err(wrong());
        }
        Ok(Self { of: of.to_owned(), percent })
    }
}

impl PriceChange {
    fn apply(&self, price: Price) -> Price {
        let nanos = i128::from(price.nanos()) * i128::from(self.percent) / 100;
        Price::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
    }
}

impl std::fmt::Display for PriceChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {} %", self.of, self.percent)
    }
}

impl WhatIf {
    /// Returns whether nothing is to be different.
    pub fn is_empty(&self) -> bool {
        self.manifests.is_empty()
            && self.deleted_pools.is_empty()
            && self.lost_zones.is_empty()
            && self.prices.is_empty()
    }

    /// Changes the objects; says what that means for pods that nothing brings back.
    pub(crate) fn change(&self, objects: &mut Objects, at: Timestamp) -> (Vec<String>, Refusals) {
        let (mut scaled, mut applied) = (Vec::new(), Vec::new());
        let mut notes = Vec::new();
        for manifest in self.manifests.iter().filter(|manifest| !is_foreign(manifest)) {
            let key = ObjectKey::of(manifest);
            let is_ours = kinds::is_ours(&key.kind);
            let why = if is_ours { settle::refused(manifest) } else { Vec::new() };
            if !why.is_empty() {
                notes.push(format!("an API server refuses {key}, so it changes nothing: {}", why.join("; ")));
                continue;
            }
            let mut manifest = manifest.clone();
            if WORKLOADS.contains(&key.kind.as_str()) {
                workloads::keep_replicas(objects, &key, &mut manifest);
                scaled.push(key.clone());
            }
            applied.push(key);
            objects.apply(manifest);
        }
        roll_out(objects, &applied);
        for pool in &self.deleted_pools {
            let name = pool.to_string();
            objects.remove(&ObjectKey { kind: "NodePool".to_owned(), namespace: String::new(), name });
        }
        let refused = workloads::expand(objects, &scaled, at);
        notes.extend(self.lost_zones.iter().flat_map(|zone| lose(objects, zone)));
        (notes, refused)
    }

    /// Refuses a change of which nothing is that it names: the plan would be the same, and say so of another zone or price
    /// than was meant. `nodes` are the zones there are nodes in, `pools` the names of all pools.
    pub(crate) fn check(
        &self,
        nodes: &BTreeSet<Zone>,
        pools: &BTreeSet<PoolName>,
        offerings: &Offerings,
    ) -> Result<(), NoMatch> {
        if let Some(pool) = self.deleted_pools.iter().find(|pool| !pools.contains(*pool)) {
            let names = pools.iter().map(PoolName::as_str).collect();
            return Err(NoMatch::Pool { pool: pool.clone(), there: there(pool.as_str(), &names) });
        }
        let types = || offerings.types.values().flat_map(|types| types.iter());
        let offered = || types().flat_map(|one| one.offerings.iter());
        if !self.lost_zones.is_empty() {
            let mut zones: BTreeSet<&str> = offered().map(|offering| offering.zone.as_str()).collect();
            zones.extend(nodes.iter().map(Zone::as_str));
            if let Some(zone) = self.lost_zones.iter().find(|zone| !zones.contains(zone.as_str())) {
                return Err(NoMatch::Zone { zone: zone.clone(), there: listed(&zones) });
            }
        }
        if !self.prices.is_empty() {
            let mut names: BTreeSet<&str> =
                offered().map(|offering| offering.capacity_type.as_str()).collect();
            names.extend(types().map(|one| one.name.as_str()));
            if let Some(change) = self.prices.iter().find(|change| !names.contains(change.of.as_str())) {
                return Err(NoMatch::Price { of: change.of.clone(), there: there(&change.of, &names) });
            }
        }
        Ok(())
    }

    /// Changes what can be launched.
    pub(crate) fn offered(&self, offerings: Offerings) -> Offerings {
        if self.lost_zones.is_empty() && self.prices.is_empty() {
            return offerings;
        }
        offerings.with(|one| {
            let name = one.name.to_string();
            for offering in &mut one.offerings {
                offering.available &= !self.lost_zones.contains(&offering.zone);
                let kind = offering.capacity_type.as_str();
                for change in self.prices.iter().filter(|change| change.of == kind || change.of == name) {
                    offering.price = change.apply(offering.price);
                }
            }
        })
    }
}

/// The zones that nodes and claims are in.
pub(crate) fn zones_of(objects: &Objects) -> BTreeSet<Zone> {
    let machines = ["Node", "NodeClaim"].into_iter().flat_map(|kind| objects.of_kind(kind));
    let zones = machines.filter_map(|(_, object)| object["metadata"]["labels"][label::ZONE].as_str());
    zones.map(Zone::from).collect()
}

/// Describes what there is instead of `written`: the name that is near, or the first few.
fn there(written: &str, names: &BTreeSet<&str>) -> String {
    let meant = near(written, names.iter().copied());
    meant.map_or_else(|| listed(names), |meant| format!("`{meant}` is probably meant"))
}

/// The first few names. Those of zones are all near each other, so none of them is meant more than another.
fn listed(names: &BTreeSet<&str>) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if quoted.is_empty() {
        return "there are none, because pools can launch nothing".to_owned();
    }
    format!("there are {}", named(&quoted))
}

/// Takes a zone away: machines there are gone, and pods on them wait for another node.
fn lose(objects: &mut Objects, zone: &Zone) -> Vec<String> {
    let is_there = |object: &Value| object["metadata"]["labels"][label::ZONE] == *zone.as_str();
    let gone = |objects: &Objects, kind: &str| -> Vec<ObjectKey> {
        let there = objects.of_kind(kind).filter(|(_, object)| is_there(object));
        there.map(|(key, _)| key.clone()).collect()
    };
    let nodes = gone(objects, "Node");
    for key in gone(objects, "NodeClaim").iter().chain(&nodes) {
        objects.remove(key);
    }
    // Pods that have ended stay as they are: they ask for no node, and a Job counts them.
    let on_them = objects.of_kind("Pod").filter(|(_, pod)| {
        let node = text(pod, "/spec/nodeName");
        !has_ended(pod) && nodes.iter().any(|key| key.name == node)
    });
    let on_them: Vec<ObjectKey> = on_them.map(|(key, _)| key.clone()).collect();
    let mut lost = Vec::new();
    for key in on_them {
        let Some(mut pod) = objects.remove(&key) else { continue };
        let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let owner = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
        match owner.map(|owner| text(owner, "/kind").to_owned()) {
            // They end with their node.
            Some(kind) if kind == "DaemonSet" || kind == "Node" => {}
            Some(_) => {
                if let Some(spec) = pod["spec"].as_object_mut() {
                    spec.remove("nodeName");
                }
                if let Some(pod) = pod.as_object_mut() {
                    pod.remove("status");
                }
                objects.put(pod);
            }
            None => lost.push(format!("{}/{}", key.namespace, key.name)),
        }
    }
    // Their status is that of new pods, which were admitted once.
    let _refused = workloads::expand(objects, &[], Timestamp::UNIX_EPOCH);
    let mut notes = Vec::new();
    if !nodes.is_empty() {
        let count = nodes.len();
        let (s, them) = if count == 1 { ("", "it") } else { ("s", "them") };
        notes
            .push(format!("zone `{zone}` is taken away with {count} node{s}; the picture is without {them}"));
    }
    if !lost.is_empty() {
        notes.push(format!("pods without a controller are lost with zone `{zone}`: {}", lost.join(", ")));
    }
    notes
}

/// Names manifests that change nothing in a plan.
pub(crate) fn without_effect(manifests: &[Value]) -> Option<String> {
    let is_read = |manifest: &Value| {
        let kind = text(manifest, "/kind");
        let is_target = |one: &Value| ObjectKey::of(one) == autoscalers::target(manifest);
        let reads = match kind {
            "PodTemplate" | "ResourceClaimTemplate" => true,
            // Of one for a workload of the cluster it is not known how many pods its metrics ask for.
            autoscalers::KIND => manifests.iter().any(is_target),
            kind => WORKLOADS.contains(&kind) || export::reads(kind),
        };
        reads && !is_foreign(manifest) && !text(manifest, "/metadata/name").is_empty()
    };
    let keys = manifests.iter().filter(|manifest| !is_read(manifest)).map(ObjectKey::of);
    let said = |key: ObjectKey| {
        if key.name.is_empty() {
            format!("{} without a name", key.kind)
        } else {
            format!("{} `{}`", key.kind, key.name)
        }
    };
    let names: Vec<String> = keys.map(said).collect();
    (!names.is_empty())
        .then(|| format!("plans do not read these manifests, so they change nothing: {}", named(&names)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_lost_zone_takes_its_machines_and_frees_their_pods() {
        let node = |name: &str, zone: &str| json!({"kind": "Node", "metadata": {"name": name, "labels": {label::ZONE: zone}}});
        let pod_in = |phase: &str, name: &str, node: &str, owner: Option<&str>| {
            let owners: Vec<Value> =
                owner.iter().map(|kind| json!({"kind": kind, "controller": true})).collect();
            json!({"kind": "Pod", "metadata": {"name": name, "uid": name, "ownerReferences": owners},
                "spec": {"nodeName": node}, "status": {"phase": phase}})
        };
        let pod = |name: &str, node: &str, owner: Option<&str>| pod_in("Running", name, node, owner);
        let mut objects: Objects = [
            node("a", "zone-a"),
            node("b", "zone-b"),
            pod("api", "a", Some("ReplicaSet")),
            pod("cni", "a", Some("DaemonSet")),
            pod("bare", "a", None),
            pod("other", "b", Some("ReplicaSet")),
            pod_in("Succeeded", "done", "a", Some("Job")),
            pod_in("Failed", "evicted", "a", Some("ReplicaSet")),
        ]
        .into_iter()
        .collect();
        let lost = WhatIf { lost_zones: vec!["zone-a".into()], ..WhatIf::default() };
        let (notes, _) = lost.change(&mut objects, Timestamp::UNIX_EPOCH);
        assert_eq!(
            notes,
            [
                "zone `zone-a` is taken away with 1 node; the picture is without it",
                "pods without a controller are lost with zone `zone-a`: default/bare",
            ]
        );
        let pods: BTreeMap<&str, &str> = objects
            .of_kind("Pod")
            .map(|(key, pod)| (key.name.as_str(), text(pod, "/status/phase")))
            .collect();
        let expected =
            [("api", "Pending"), ("done", "Succeeded"), ("evicted", "Failed"), ("other", "Running")];
        assert_eq!(pods, BTreeMap::from(expected), "pods that have ended are not started again");
        let nodes: Vec<&str> = objects.of_kind("Node").map(|(key, _)| key.name.as_str()).collect();
        assert_eq!(nodes, ["b"]);
    }

    #[test]
    fn a_manifest_that_an_api_server_refuses_changes_nothing() {
        let class = |spec: Value| {
            json!({
                "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
                "spec": spec,
            })
        };
        let mut stored = class(json!({"role": "nodes"}));
        stored["metadata"]["uid"] = json!("1");
        let mut objects: Objects = [stored.clone()].into_iter().collect();
        let manifests = vec![class(json!({"role": "nodes", "instanceProfile": "nodes"}))];
        let (notes, _) =
            WhatIf { manifests, ..WhatIf::default() }.change(&mut objects, Timestamp::UNIX_EPOCH);
        assert!(
            notes[0].starts_with("an API server refuses EC2NodeClass/default, so it changes nothing: "),
            "{notes:?}"
        );
        assert_eq!(objects.values(), [stored]);
    }

    #[test]
    fn a_workload_whose_manifest_leaves_replicas_out_keeps_the_pods_it_has() {
        let workload = |kind: &str, replicas: Option<u32>| {
            json!({
                "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "api"},
                "spec": {
                    "replicas": replicas, "selector": {"matchLabels": {"app": "api"}},
                    "template": {"metadata": {"labels": {"app": "api"}}, "spec": {"containers": []}},
                },
            })
        };
        let pod = |number: usize| {
            json!({
                "kind": "Pod", "metadata": {"name": format!("api-{number}"), "uid": "u", "labels": {"app": "api"}},
                "spec": {"nodeName": "n"}, "status": {"phase": "Running"},
            })
        };
        // Pods of the picture, replicas of the workload in the picture if it is there, replicas of the manifest.
        let table = [
            (3, None, None, 3),
            (3, None, Some(2), 2),
            (0, None, None, 1),
            (0, Some(4), None, 4),
            (0, Some(0), None, 0),
            (3, Some(3), None, 3),
        ];
        for kind in ["Deployment", "ReplicaSet", "StatefulSet"] {
            for (running, live, written, expected) in table {
                let mut objects: Objects = (0..running).map(pod).collect();
                live.map(|live| workload(kind, Some(live))).into_iter().for_each(|live| objects.put(live));
                workloads::expand(&mut objects, &[], Timestamp::UNIX_EPOCH);
                let mut manifest = workload(kind, written);
                if written.is_none() {
                    manifest["spec"].as_object_mut().unwrap().remove("replicas");
                }
                let what_if = WhatIf { manifests: vec![manifest], ..WhatIf::default() };
                what_if.change(&mut objects, Timestamp::UNIX_EPOCH);
                let case = format!("{kind} {running} {live:?} {written:?}");
                assert_eq!(objects.of_kind("Pod").count(), expected, "{case}");
                let (_, applied) = objects.of_kind(kind).next().unwrap();
                let replicas = applied["spec"]["replicas"].as_u64().unwrap_or(1);
                assert_eq!(replicas, expected as u64, "buffers count by it: {case}");
            }
        }
    }

    #[test]
    fn a_job_whose_pods_have_ended_is_not_planned_again() {
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate"},
            "spec": {"template": {"spec": {"containers": []}}},
        });
        let ended = json!({
            "kind": "Pod",
            "metadata": {"name": "migrate-x", "uid": "u", "ownerReferences": [{"kind": "Job", "name": "migrate"}]},
            "status": {"phase": "Succeeded"},
        });
        let mut objects: Objects = [ended].into_iter().collect();
        let what_if = WhatIf { manifests: vec![job], lost_zones: vec!["zone-a".into()], ..WhatIf::default() };
        what_if.change(&mut objects, Timestamp::UNIX_EPOCH);
        let pods: Vec<&str> = objects.of_kind("Pod").map(|(key, _)| key.name.as_str()).collect();
        assert_eq!(pods, ["migrate-x"]);
    }

    #[test]
    fn prices_change_by_capacity_type_or_instance_type() {
        let change: PriceChange = "spot=150%".parse().unwrap();
        assert_eq!(change.apply(Price::from_nanos(100)), Price::from_nanos(150));
        for wrong in ["spot", "spot=1.5", "=10%", "spot=-1%", "spot=0%"] {
            assert!(wrong.parse::<PriceChange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_zone_or_a_price_that_nothing_has_is_refused_with_what_there_is() {
        let offerings = crate::fixture::offerings(&["a"]);
        let nodes = BTreeSet::from([Zone::from("zone-b")]);
        let lost = |zone: &str| {
            let what_if = WhatIf { lost_zones: vec![zone.into()], ..WhatIf::default() };
            what_if.check(&nodes, &BTreeSet::new(), &offerings).map_err(|error| error.to_string())
        };
        assert_eq!(
            (lost("zone-a"), lost("zone-b")),
            (Ok(()), Ok(())),
            "a pool launches there; a node is there"
        );
        let none = "cannot plan without zone `eu`: no node is in it and no pool can launch there; there are `zone-a`, `zone-b`";
        assert_eq!(lost("eu"), Err(none.to_owned()));
        let price = |change: &str, offerings: &Offerings| {
            let what_if = WhatIf { prices: vec![change.parse().unwrap()], ..WhatIf::default() };
            what_if.check(&nodes, &BTreeSet::new(), offerings).map_err(|error| error.to_string())
        };
        assert_eq!((price("spot=1%", &offerings), price("small=1%", &offerings)), (Ok(()), Ok(())));
        let none = "cannot plan with another price of `m7g.large`: pools can launch no such capacity type or instance type; \
                    there are `large`, `on-demand`, `small`, `spot`";
        assert_eq!(price("m7g.large=80%", &offerings), Err(none.to_owned()));
        assert!(price("sport=80%", &offerings).unwrap_err().ends_with("; `spot` is probably meant"));
        let empty = price("spot=80%", &Offerings::default()).unwrap_err();
        assert!(empty.ends_with("; there are none, because pools can launch nothing"), "{empty}");
    }

    #[test]
    fn manifests_that_plans_do_not_read_are_named() {
        let of = |manifest: Value| without_effect(&[manifest]);
        for (version, kind) in [
            ("apps/v1", "Deployment"),
            ("v1", "Pod"),
            ("karpenter.sh/v1", "NodePool"),
            ("storage.k8s.io/v1", "StorageClass"),
            ("karpenter.sh/v1alpha1", "NodeOverlay"),
            ("batch/v1", "Job"),
            ("v1", "ReplicationController"),
            ("karpenter.k8s.aws/v1", "EC2NodeClass"),
        ] {
            let found = of(json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}}));
            assert_eq!(found, None, "{kind}");
        }
        let lead = "plans do not read these manifests, so they change nothing: ";
        let config = json!({"kind": "ConfigMap", "metadata": {"name": "a"}});
        assert_eq!(of(config), Some(format!("{lead}ConfigMap `a`")));
        let autoscaler = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}},
        });
        assert_eq!(of(autoscaler.clone()), Some(format!("{lead}HorizontalPodAutoscaler `a`")));
        let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
        assert_eq!(without_effect(&[autoscaler, web]), None);
        let unnamed = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool"});
        assert_eq!(of(unnamed), Some(format!("{lead}NodePool without a name")));
    }
}
