//! Evaluation pass by pass: conditions, what is put in force and when, and pools whose types cannot be had.

use std::collections::BTreeMap;

use async_trait::async_trait;
use karpenter_cloud::overlay::List;
use karpenter_cloud::{
    DriftReason, Instance, Kind, LaunchRequest, NodeClassKind, Provider, Read, RepairPolicy, Termination,
};
use karpenter_kube_harness::watch::Seen;
use karpenter_model::settings::FeatureGates;
use karpenter_model::{
    Claim, ClaimName, InstanceTypeName, LabelRegistry, NodeName, Pool, Price, ProviderId, Quantity,
};
use kube::api::{DeleteParams, Patch, PatchParams};
use parking_lot::Mutex;
use serde_json::Value;

use super::*;
use crate::View;
use crate::fixture::World;

/// The cloud of a fixture, except that the types of one pool cannot be had for a while.
struct Partly {
    inner: Arc<dyn Provider>,
    broken: Mutex<Option<&'static str>>,
    previews: Mutex<BTreeMap<InstanceTypeName, Price>>,
}

#[async_trait]
impl Provider for Partly {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn node_class_kinds(&self) -> &[NodeClassKind] {
        self.inner.node_class_kinds()
    }

    fn label_registry(&self) -> Arc<LabelRegistry> {
        self.inner.label_registry()
    }

    async fn launch(&self, request: &LaunchRequest) -> karpenter_cloud::Result<Instance> {
        self.inner.launch(request).await
    }

    async fn terminate(&self, id: &ProviderId) -> karpenter_cloud::Result<Termination> {
        self.inner.terminate(id).await
    }

    async fn reboot(&self, id: &ProviderId) -> karpenter_cloud::Result<()> {
        self.inner.reboot(id).await
    }

    async fn instance(&self, id: &ProviderId, read: Read) -> karpenter_cloud::Result<Instance> {
        self.inner.instance(id, read).await
    }

    async fn machine_of(&self, claim: &ClaimName) -> karpenter_cloud::Result<Option<ProviderId>> {
        self.inner.machine_of(claim).await
    }

    async fn instances(&self) -> karpenter_cloud::Result<Vec<Instance>> {
        self.inner.instances().await
    }

    async fn instance_types(&self, pool: &Pool) -> karpenter_cloud::Result<List> {
        if self.broken.lock().is_some_and(|broken| pool.name == broken) {
            return Err(karpenter_cloud::Error::new(Kind::Transient, "list", pool.name.as_str(), "broken"));
        }
        self.inner.instance_types(pool).await
    }

    fn preview_prices(&self, prices: BTreeMap<InstanceTypeName, Price>) {
        *self.previews.lock() = prices;
    }

    async fn drift(&self, claim: &Claim) -> karpenter_cloud::Result<Option<DriftReason>> {
        self.inner.drift(claim).await
    }

    async fn tag(&self, id: &ProviderId, claim: &ClaimName, node: &NodeName) -> karpenter_cloud::Result<()> {
        self.inner.tag(id, claim, node).await
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        self.inner.repair_policies()
    }
}

/// A world with the gate open, and its cloud.
fn overlaying() -> (World, Arc<Partly>) {
    let mut world = World::with_definitions();
    let cloud = Arc::new(Partly {
        inner: Arc::clone(&world.context.provider),
        broken: Mutex::default(),
        previews: Mutex::default(),
    });
    let gates = FeatureGates { node_overlay: true, ..FeatureGates::default() };
    let decisions = Arc::new(karpenter_model::Settings { gates, ..karpenter_model::Settings::default() });
    let view = View::new(Arc::clone(&decisions), cloud.label_registry(), cloud.node_class_kinds());
    world.context.provider = Arc::<Partly>::clone(&cloud);
    world.context.settings = Arc::new(Settings { decisions, ..Settings::default() });
    world.context.view = Arc::new(view);
    for pool in ["web", "data"] {
        add_pool(&world, pool);
    }
    (world, cloud)
}

fn add_pool(world: &World, name: &str) {
    world.context.view.put_pool(crate::fixture::pool(name));
}

fn add_overlay(world: &World, name: &str, spec: &Value) {
    let object = json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name}, "spec": spec,
    });
    world.server.load(&object).unwrap();
}

/// Puts into the view what the API server has.
async fn list(world: &World) {
    crate::fixture::list(&world.context.view, world.list::<NodeOverlay>().await);
}

async fn pass(world: &World) -> Done {
    let (triggers, _triggered) = Triggers::new();
    evaluate(&world.context, &triggers).await.unwrap()
}

/// Status, reason and message of `ValidationSucceeded`, by overlay.
async fn conditions(world: &World) -> BTreeMap<String, (String, String, String)> {
    let of = |overlay: NodeOverlay| {
        let conditions = overlay.status.unwrap_or_default().conditions;
        let one = conditions.into_iter().find(|one| one.kind == "ValidationSucceeded")?;
        Some((overlay.metadata.name?, (one.status.as_str().to_owned(), one.reason, one.message)))
    };
    world.list::<NodeOverlay>().await.into_iter().filter_map(of).collect()
}

fn evaluated(world: &World, pool: &str) -> bool {
    let pool = world.context.view.pool(&pool.into()).unwrap();
    world.context.view.through(&pool.model).is_ok()
}

#[tokio::test(start_paused = true)]
async fn every_overlay_says_what_became_of_it() {
    let (world, _) = overlaying();
    add_overlay(&world, "a", &json!({"requirements": [], "price": "1", "weight": 7}));
    add_overlay(&world, "b", &json!({"requirements": [], "price": "1", "weight": 7}));
    add_overlay(&world, "c", &json!({"requirements": [], "price": "1", "weight": 8}));
    let unknown = json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["free"]});
    add_overlay(&world, "d", &json!({"requirements": [unknown], "price": "1"}));
    list(&world).await;
    assert_eq!(pass(&world).await, Done::applied().after(PERIOD));
    let conditions = conditions(&world).await;
    let said = |name: &str| (conditions[name].0.as_str(), conditions[name].1.as_str());
    assert_eq!(
        ["a", "b", "c", "d"].map(said),
        [
            ("False", "Conflict"),
            ("True", "ValidationSucceeded"),
            ("True", "ValidationSucceeded"),
            ("False", "RuntimeValidation"),
        ]
    );
    assert!(
        conditions["a"].2.starts_with("overlay `b` has the same weight and also changes the price"),
        "{conditions:?}"
    );
    assert!(conditions["d"].2.starts_with("`spec.requirements[0]`: none of the values"), "{conditions:?}");
    assert_eq!(pass(&world).await, Done::idle().after(PERIOD), "nothing is written twice");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_decided_before_overlays_are_listed() {
    let (world, _) = overlaying();
    assert_eq!(pass(&world).await, Done::idle());
    assert!(!evaluated(&world, "web"));
    list(&world).await;
    pass(&world).await;
    assert!(evaluated(&world, "web") && evaluated(&world, "data"), "also without any overlay");
    add_pool(&world, "late");
    assert!(!evaluated(&world, "late"));
    pass(&world).await;
    assert!(evaluated(&world, "late"));
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_fails_is_left_out_and_tried_again_while_the_others_are_served() {
    let (world, cloud) = overlaying();
    add_overlay(&world, "o", &json!({"requirements": [], "price": "1"}));
    list(&world).await;
    *cloud.broken.lock() = Some("data");
    assert_eq!(pass(&world).await, Done::applied().backoff());
    assert!(evaluated(&world, "web") && !evaluated(&world, "data"));
    assert_eq!(conditions(&world).await["o"].0, "True");
    *cloud.broken.lock() = None;
    assert_eq!(pass(&world).await, Done::applied().after(PERIOD));
    assert!(evaluated(&world, "data"));
}

#[tokio::test(start_paused = true)]
async fn an_overlay_that_changed_or_went_meanwhile_has_everything_judged_again_before_anything_applies() {
    let (world, _) = overlaying();
    add_overlay(&world, "o", &json!({"requirements": [], "price": "1"}));
    list(&world).await;
    let api = world.context.all::<NodeOverlay>();
    let change = Patch::Merge(json!({"spec": {"price": "2"}}));
    api.patch("o", &PatchParams::default(), &change).await.unwrap();
    assert_eq!(pass(&world).await, Done::idle().after(Duration::ZERO));
    assert!(!evaluated(&world, "web"));
    assert_eq!(pass(&world).await, Done::applied().after(PERIOD), "the newer one was read");
    // The same when it is gone: what was in force stays until the rest was judged.
    add_overlay(&world, "p", &json!({"requirements": [], "price": "3"}));
    list(&world).await;
    api.delete("p", &DeleteParams::default()).await.unwrap();
    assert_eq!(pass(&world).await, Done::idle().after(Duration::ZERO));
    assert_eq!(pass(&world).await, Done::idle().after(PERIOD));
}

#[tokio::test(start_paused = true)]
async fn types_are_laid_out_anew_only_when_they_or_the_overlays_change() {
    let (world, cloud) = overlaying();
    add_overlay(&world, "o", &json!({"requirements": [], "price": "1"}));
    list(&world).await;
    pass(&world).await;
    let pool = world.context.view.pool(&"web".into()).unwrap().model;
    let types = cloud.instance_types(&pool).await.unwrap();
    let laid = |types: &List| world.context.view.overlaid(&pool, Arc::clone(types)).unwrap();
    let first = laid(&types);
    assert!(first.iter().all(|one| one.overlaid.price));
    assert!(Arc::ptr_eq(&first, &laid(&types)));
    let mut newer = cloud.instance_types(&pool).await.unwrap();
    let types = Arc::make_mut(&mut newer);
    Arc::make_mut(&mut types[0]).capacity.set("cpu", Quantity::from_units(7));
    let second = laid(&newer);
    let changed: Vec<bool> =
        first.iter().zip(second.iter()).map(|(one, other)| !Arc::ptr_eq(one, other)).collect();
    assert_eq!(changed.iter().filter(|changed| **changed).count(), 1, "{changed:?}");
    assert!(changed[0]);
    world.context.view.take(Seen::Deleted(world.list::<NodeOverlay>().await.remove(0)));
    pass(&world).await;
    assert!(Arc::ptr_eq(&laid(&newer), &newer), "no overlays, no copies");
}

#[tokio::test(start_paused = true)]
async fn pools_that_see_the_same_through_their_overlays_hold_it_once_and_take_it_with_them() {
    let (world, cloud) = overlaying();
    add_overlay(&world, "o", &json!({"requirements": [], "price": "1"}));
    list(&world).await;
    pass(&world).await;
    let view = &world.context.view;
    let pools = ["web", "data"].map(|name| view.pool(&name.into()).unwrap().model);
    let types = cloud.instance_types(&pools[0]).await.unwrap();
    let [web, data] = pools.each_ref().map(|pool| view.overlaid(pool, Arc::clone(&types)).unwrap());
    assert!(Arc::ptr_eq(&web, &data) && !Arc::ptr_eq(&web, &types));
    let held = Arc::downgrade(&web);
    drop((web, data));
    assert!(held.strong_count() > 0);

    for name in ["web", "data"] {
        view.take(Seen::Deleted(crate::fixture::pool(name)));
    }
    assert_eq!(held.strong_count(), 0);
    let late = Arc::downgrade(&view.overlaid(&pools[0], types).unwrap());
    assert_eq!(late.strong_count(), 0, "an answer that comes after the pool has gone is not kept");
}

#[tokio::test(start_paused = true)]
async fn the_cloud_is_told_prices_for_types_it_has_none_for() {
    let (world, cloud) = overlaying();
    let types = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["new"]}]);
    add_overlay(&world, "o", &json!({"requirements": types, "price": "1.5"}));
    list(&world).await;
    pass(&world).await;
    let previews = cloud.previews.lock().clone();
    assert_eq!(previews, BTreeMap::from([("new".into(), "1.5".parse().unwrap())]));
}

#[tokio::test(start_paused = true)]
async fn with_the_gate_closed_types_are_as_the_cloud_says() {
    let world = World::with_definitions();
    add_pool(&world, "web");
    add_overlay(&world, "o", &json!({"requirements": [], "price": "1"}));
    list(&world).await;
    assert_eq!(world.context.view.overlays(), None);
    let pool = world.context.view.pool(&"web".into()).unwrap().model;
    assert_eq!(world.context.view.through(&pool), Ok(None));
    let types = world.context.provider.instance_types(&pool).await.unwrap();
    assert!(Arc::ptr_eq(&world.context.view.overlaid(&pool, Arc::clone(&types)).unwrap(), &types));
}
