//! Draws a world for plans: pools, workloads and settings of many kinds, and changes to them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;
use karpenter_model::names::{annotation, label};
use karpenter_testkit::objects::{node_pool, one_of};
use serde_json::{Value, json};

use crate::seed::{Seed, one_in};
use crate::world::{CLUSTER, START, WorldOptions, account, budget, class, machines};

/// A world and what changes in it.
pub(super) struct Drawn {
    /// Objects the cluster begins with.
    objects: Vec<Value>,
    settings: BTreeMap<String, String>,
    /// Manifests that are applied.
    pub(super) changes: Vec<Value>,
    /// They are applied while a controller runs.
    pub(super) under_way: bool,
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "settings {:?}, controller runs: {}", self.settings, self.under_way)?;
        for object in self.objects.iter().skip(1) {
            writeln!(f, "  has {object}")?;
        }
        for change in &self.changes {
            writeln!(f, "  changes {change}")?;
        }
        Ok(())
    }
}

impl Drawn {
    /// Returns the inputs that the world is built from.
    pub(super) fn world_options(&self) -> Result<WorldOptions> {
        world_options(self.objects.clone(), self.settings.clone())
    }
}

/// Returns the inputs of a world that begins with these objects.
pub(super) fn world_options(objects: Vec<Value>, settings: BTreeMap<String, String>) -> Result<WorldOptions> {
    Ok(WorldOptions {
        cluster: CLUSTER.to_owned(),
        start: START.parse()?,
        account: account(),
        machines: machines(),
        look: Duration::from_secs(5),
        objects,
        settings,
    })
}

/// The world of a seed.
pub(super) fn world(number: u64) -> Drawn {
    let seed = Seed(number);
    let mut random = seed.stream("pools");
    let with_static = one_in(&mut seed.stream("static"), 4);
    let with_overlays = one_in(&mut seed.stream("overlays"), 4);
    let mut pools: Vec<Value> = (0..random.usize(1..4)).map(|number| pool(number, &mut random)).collect();
    if with_static {
        pools.push(static_pool(&mut seed.stream("static pool")));
    }
    let under_way = one_in(&mut seed.stream("under way"), 2);
    let mut random = seed.stream("workloads");
    let workloads: Vec<Workload> = (0..random.usize(1..5))
        .map(|number| workload(&format!("w{number}"), &mut random, under_way))
        .collect();
    let mut objects = vec![class()];
    objects.extend(pools.iter().cloned());
    if one_in(&mut seed.stream("daemons"), 2) {
        objects.push(daemons());
    }
    if with_overlays {
        objects.push(overlay(&mut seed.stream("overlay")));
    }
    for workload in &workloads {
        objects.push(workload.object());
        objects.extend(workload.budget());
    }
    let changes = changes(&mut seed.stream("changes"), under_way, &pools, &workloads);
    let gates = [("StaticCapacity", with_static), ("NodeOverlay", with_overlays)];
    let gates: Vec<String> =
        gates.iter().filter(|(_, on)| *on).map(|(gate, _)| format!("{gate}=true")).collect();
    // There is no other replica to elect against.
    let mut settings = BTreeMap::from([("disable-leader-election".to_owned(), "true".to_owned())]);
    if !gates.is_empty() {
        settings.insert("feature-gates".to_owned(), gates.join(","));
    }
    Drawn { objects, settings, changes, under_way }
}

/// Draws one of `of`.
fn one<T: Copy>(random: &mut Rng, of: &[T]) -> T {
    of[random.usize(..of.len())]
}

fn bare_pool(name: &str) -> Value {
    let spec =
        json!({"template": {"spec": {"expireAfter": "Never"}}, "disruption": {"consolidateAfter": "0s"}});
    node_pool(name, &[one_of(label::ARCH, &["amd64"])], &spec)
}

fn require(pool: &mut Value, requirement: Value) {
    if let Some(list) = pool.pointer_mut("/spec/template/spec/requirements").and_then(Value::as_array_mut) {
        list.push(requirement);
    }
}

fn pool(number: usize, random: &mut Rng) -> Value {
    let mut pool = bare_pool(&format!("p{number}"));
    let kinds = [json!(["spot", "on-demand"]), json!(["on-demand"]), json!(["spot"])];
    let kinds = kinds[random.usize(..3)].clone();
    require(&mut pool, json!({"key": label::CAPACITY_TYPE, "operator": "In", "values": kinds}));
    if one_in(random, 4) {
        require(&mut pool, json!({"key": label::ZONE, "operator": "NotIn", "values": ["us-west-2a"]}));
    }
    if one_in(random, 4) {
        require(&mut pool, json!({"key": label::aws::INSTANCE_CPU, "operator": "Lt", "values": ["9"]}));
    }
    let policies = ["WhenEmpty", "WhenEmptyOrUnderutilized", "WhenEmptyOrUnderutilized"];
    let disruption = json!({
        "consolidationPolicy": one(random, &policies),
        "consolidateAfter": format!("{}s", one(random, &[0, 15, 30])),
        "budgets": [{"nodes": one(random, &["1", "2", "50%", "100%"])}],
    });
    pool["spec"]["disruption"] = disruption;
    if one_in(random, 2) {
        pool["spec"]["weight"] = json!(random.u32(1..20));
    }
    if one_in(random, 3) {
        pool["spec"]["limits"] = json!({"cpu": one(random, &[4, 8, 16, 64]).to_string()});
    }
    if one_in(random, 6) {
        pool["spec"]["template"]["spec"]["taints"] =
            json!([{"key": "team", "value": "x", "effect": "NoSchedule"}]);
    }
    pool
}

fn static_pool(random: &mut Rng) -> Value {
    let mut pool = bare_pool("fixed");
    pool["spec"]["replicas"] = json!(random.u32(1..3));
    require(&mut pool, json!({"key": label::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}));
    if let Some(spec) = pool["spec"].as_object_mut() {
        spec.remove("disruption");
    }
    pool
}

fn daemons() -> Value {
    let labels = json!({"app": "daemons"});
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "daemons", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}}],
        }}},
    })
}

fn overlay(random: &mut Rng) -> Value {
    let mut spec = json!({
        "requirements": [{"key": label::aws::INSTANCE_CATEGORY, "operator": "In", "values": [one(random, &["c", "m", "r"])]}],
    });
    if random.bool() {
        spec["priceAdjustment"] = json!(one(random, &["+50%", "-30%"]));
    } else {
        spec["capacity"] = json!({"example.com/device": "2"});
    }
    json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "o"}, "spec": spec})
}

#[derive(Clone)]
struct Workload {
    name: String,
    replicas: u32,
    millicores: u32,
    mebibytes: u32,
    guarded: bool,
    protected: bool,
    spread: Option<&'static str>,
    selector: Value,
    tolerates: bool,
}

fn workload(name: &str, random: &mut Rng, under_way: bool) -> Workload {
    // Over hosts the scheduler counts those there are, plans also the empty one that could come: what the scheduler places
    // before a controller sees it is no launch.
    let hosts = if under_way { label::ZONE } else { label::HOSTNAME };
    let selectors = [
        json!({label::ARCH: "arm64"}),
        json!({label::ZONE: "us-west-2b"}),
        json!({label::CAPACITY_TYPE: "on-demand"}),
        json!({label::CAPACITY_TYPE: "spot"}),
    ];
    Workload {
        name: name.to_owned(),
        replicas: random.u32(1..7),
        millicores: one(random, &[100, 400, 900, 1_500, 3_000, 7_000]),
        mebibytes: one(random, &[128, 1_000, 6_000]),
        guarded: one_in(random, 4),
        protected: one_in(random, 6),
        spread: one(random, &[None, None, None, Some(label::ZONE), Some(hosts)]),
        selector: if one_in(random, 4) { selectors[random.usize(..4)].clone() } else { json!({}) },
        tolerates: one_in(random, 3),
    }
}

impl Workload {
    fn object(&self) -> Value {
        let labels = json!({"app": self.name});
        let requests =
            json!({"cpu": format!("{}m", self.millicores), "memory": format!("{}Mi", self.mebibytes)});
        let mut spec = json!({
            "terminationGracePeriodSeconds": 5, "nodeSelector": self.selector,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}],
        });
        if let Some(key) = self.spread {
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": labels},
            }]);
        }
        if self.tolerates {
            spec["tolerations"] = json!([{"key": "team", "operator": "Exists"}]);
        }
        let mut metadata = json!({"labels": labels});
        if self.protected {
            metadata["annotations"] = json!({annotation::DO_NOT_DISRUPT: "true"});
        }
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": self.name, "namespace": "default"},
            "spec": {
                "replicas": self.replicas, "selector": {"matchLabels": labels},
                "template": {"metadata": metadata, "spec": spec},
            },
        })
    }

    fn budget(&self) -> Option<Value> {
        self.guarded.then(|| budget(&self.name, ""))
    }
}

/// Draws changes: pods come, in workloads that arrive or grow and under other limits; or nodes go, by workloads that shrink
/// and, where a controller runs to see it, by templates of pools that change.
fn changes(random: &mut Rng, under_way: bool, pools: &[Value], workloads: &[Workload]) -> Vec<Value> {
    let pods_come = one_in(random, 2);
    let mut changes = Vec::new();
    for number in 0..random.usize(1..4) {
        let mut pool = random.choice(pools).cloned().unwrap_or_default();
        let known = random.choice(workloads).cloned();
        let replicas = known.as_ref().map_or(1, |known| known.replicas);
        let scaled = |replicas| known.map(|known| Workload { replicas, ..known }.object());
        match random.u32(..6) {
            0..=2 if pods_come => {
                changes.push(workload(&format!("late{number}"), random, under_way).object());
            }
            3 | 4 if pods_come => changes.extend(scaled(replicas + random.u32(1..6))),
            // A static pool has no limit but that of its nodes.
            _ if pods_come && pool["spec"].get("replicas").is_none() => {
                pool["spec"]["limits"] = json!({"cpu": one(random, &[2, 12, 200]).to_string()});
                changes.push(pool);
            }
            _ if pods_come => {}
            // The pods that go are chosen by their controller, so it has to have chosen them before the plan.
            0..=2 if !under_way => changes.extend(scaled(random.u32(..replicas))),
            3 if pool["spec"].get("replicas").is_some() => {
                pool["spec"]["replicas"] = json!(random.u32(0..4));
                changes.push(pool);
            }
            _ if under_way => {
                pool["spec"]["template"]["metadata"] = json!({"labels": {"example.com/team": "y"}});
                changes.push(pool);
            }
            _ => {}
        }
    }
    // Each object once: of two changes to one the last would be the whole truth.
    let mut last: BTreeMap<(String, String), Value> = BTreeMap::new();
    for change in changes {
        let of = |pointer| change.pointer(pointer).map(ToString::to_string).unwrap_or_default();
        last.insert((of("/kind"), of("/metadata/name")), change);
    }
    last.into_values().collect()
}
