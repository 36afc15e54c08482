//! The film in README: what `karpenter view` shows while a Deployment goes from ten to six to three pods. Everything in it
//! happens, in virtual time, on the cluster and the account in memory. `UPDATE_GOLDEN=1` rewrites it.

mod svg;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::NodeClaim;
use karpenter_bootstrap::make_ready;
use karpenter_compose::playground::{Playground, Speed};
use karpenter_kube_sim::VirtualClock;
use karpenter_model::{Clock, Price};
use karpenter_testkit::objects::{node_pool, one_of};
use karpenter_view::{CostHistory, Filter, Prices, Scene, Shown, Sort, Style, Ui, World, draw};
use kube::api::{Api, ListParams, Patch, PatchParams};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style as Ink};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::crowd::{self, CLUSTER};
use svg::Frame;

const FILM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/view.svg");
/// A line for the command, one blank, and the screen.
const SIZE: Rect = Rect { x: 0, y: 0, width: 124, height: 17 };
const SCREEN: Rect = Rect { x: 0, y: 2, width: 124, height: 15 };
/// Number of replicas that is typed, and the number of nodes when all has settled.
const STEPS: [(usize, usize); 3] = [(10, 5), (6, 3), (3, 2)];
/// Interval of the looks.
const LOOK: Duration = Duration::from_millis(500);
/// Virtual time without a change after which a step has settled: twice `consolidateAfter` and a validation.
const SETTLED: Duration = Duration::from_secs(45);
/// Time that a frame is shown: long enough to be read, and never as long as it is boring.
const SHORTEST: Duration = Duration::from_millis(700);
const LONGEST: Duration = Duration::from_secs(3);

/// A camera on a cluster.
struct Camera {
    playground: Playground,
    clock: Arc<dyn Clock>,
    began: Timestamp,
    history: CostHistory,
    frames: Vec<Frame>,
    /// The last frame without the time, to see whether a new one differs.
    last: Option<Buffer>,
}

impl Camera {
    /// Looks once; returns whether something has changed but the time.
    async fn look(&mut self, command: &str) -> bool {
        let world = self.world().await;
        let now = self.clock.now();
        let book = self.playground.account();
        let prices = Prices::Known(Arc::new(move |kind, _zone, _capacity| {
            let nanos = book.on_demand_price(kind)?;
            i64::try_from(nanos).ok().map(Price::from_nanos)
        }));
        let without_history = CostHistory::default();
        let mut scene = Scene {
            world: &world,
            prices: &prices,
            history: &without_history,
            troubles: &[],
            details: None,
            cluster: CLUSTER,
            complete: true,
            now: self.began,
        };
        let timeless = screen(&scene, command);
        self.history.record(now, scene.cost());
        let changed = self.last.as_ref() != Some(&timeless);
        if changed {
            (scene.now, scene.history) = (now, &self.history);
            self.frames.push(Frame { buffer: screen(&scene, command), lasts: Duration::ZERO });
            self.last = Some(timeless);
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.lasts += LOOK;
        }
        changed
    }

    async fn world(&self) -> World {
        let client = self.playground.client();
        let mut world = World::new(Shown::new(&[]));
        let all = ListParams::default();
        Api::<Node>::all(client.clone()).list(&all).await.unwrap().iter().for_each(|n| world.put_node(n));
        Api::<NodeClaim>::all(client.clone())
            .list(&all)
            .await
            .unwrap()
            .iter()
            .for_each(|c| world.put_claim(c));
        Api::<Pod>::all(client).list(&all).await.unwrap().iter().for_each(|p| world.put_pod(p));
        world
    }

    /// Scales, and looks until nothing changes any more.
    async fn play(&mut self, replicas: usize) {
        let api: Api<Deployment> = Api::namespaced(self.playground.client(), "default");
        let patch = json!({ "spec": { "replicas": replicas } });
        api.patch("inflate", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        let command = format!("$ kubectl scale deployment inflate --replicas={replicas}");
        let mut quiet = Duration::ZERO;
        while quiet < SETTLED {
            quiet = if self.look(&command).await { Duration::ZERO } else { quiet + LOOK };
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn screen(scene: &Scene<'_>, command: &str) -> Buffer {
    let mut ui = Ui::new(Sort::default(), Filter::default(), false);
    let mut buffer = Buffer::empty(SIZE);
    draw(scene, &mut ui, Style { colours: true, ascii: false }, SCREEN, &mut buffer);
    buffer.set_string(0, 0, command, Ink::default().add_modifier(Modifier::BOLD));
    buffer
}

fn pool() -> [Value; 3] {
    let requirements = [
        one_of("karpenter.sh/capacity-type", &["on-demand"]),
        one_of("karpenter.k8s.aws/instance-category", &["c", "m", "r"]),
        one_of("karpenter.k8s.aws/instance-size", &["large", "xlarge"]),
    ];
    let disruption = json!({ "disruption": { "consolidateAfter": "5s", "budgets": [{ "nodes": "100%" }] } });
    let container = json!({
        "name": "inflate", "image": "registry.k8s.io/pause:3.10",
        "resources": { "requests": { "cpu": "1500m", "memory": "1Gi" } },
    });
    [
        node_pool("general", &requirements, &disruption),
        crowd::class(),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "inflate", "namespace": "default" },
            "spec": {
                "replicas": 0,
                "selector": { "matchLabels": { "app": "inflate" } },
                "template": {
                    "metadata": { "labels": { "app": "inflate" } },
                    "spec": { "terminationGracePeriodSeconds": 0, "containers": [container] },
                },
            },
        }),
    ]
}

#[tokio::test(start_paused = true)]
async fn the_film_in_readme_is_what_happens() {
    let shutdown = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let began: Timestamp = "2026-01-02T12:00:00Z".parse().unwrap();
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::starting_at(began));
    let playground = Playground::new(Arc::clone(&clock), CLUSTER, Speed::demo());
    playground.spawn(&mut tasks, &shutdown);
    make_ready(&playground.aws(), CLUSTER).await.unwrap();
    for object in karpenter_api::crd_values().into_iter().chain(pool()) {
        playground.load(&object).unwrap();
    }
    tasks.spawn(karpenter_compose::run(playground.parts().unwrap(), shutdown.clone()));

    let history = CostHistory::default();
    let mut camera = Camera { playground, clock, began, history, frames: Vec::new(), last: None };
    for (replicas, nodes) in STEPS {
        camera.play(replicas).await;
        assert_eq!(camera.playground.instances_alive(), nodes, "with {replicas} pods");
    }
    shutdown.cancel();
    while tasks.join_next().await.is_some() {}

    for frame in &mut camera.frames {
        frame.lasts = frame.lasts.clamp(SHORTEST, LONGEST);
    }
    let title = "karpenter view while a Deployment goes from ten to six to three pods";
    let drawn = svg::film(title, &camera.frames);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(FILM, &drawn).unwrap();
    }
    let kept = std::fs::read_to_string(FILM).unwrap_or_default();
    assert!(kept == drawn, "docs/view.svg is stale; UPDATE_GOLDEN=1 rewrites it");
}
