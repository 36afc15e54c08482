//! The loop on a terminal in memory and a cluster in memory, in virtual time.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use jiff::Timestamp;
use karpenter_kube_sim::VirtualClock;
use karpenter_kube_sim::apiserver::{ApiServer, Fault, Rule};
use kube::client::Body;
use parking_lot::Mutex;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use serde_json::json;

use super::*;

/// A cluster in memory, and a view of it.
struct World {
    server: ApiServer,
    clock: Arc<dyn Clock>,
    /// Set when the connection to the API server is cut.
    cut: Arc<AtomicBool>,
    /// Questions that the controller received.
    asked: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new() -> Self {
        Self::defined_by(karpenter_api::crd_values())
    }

    /// A cluster whose definitions take anything, as those of another release take what ours do not.
    fn lenient() -> Self {
        let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let mut definitions = karpenter_api::crd_values();
        for definition in &mut definitions {
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = anything.clone();
        }
        Self::defined_by(definitions)
    }

    fn defined_by(definitions: Vec<serde_json::Value>) -> Self {
        let start: Timestamp = "2026-01-02T12:00:00Z".parse().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::starting_at(start));
        let server = ApiServer::new(Arc::clone(&clock));
        for definition in definitions {
            server.load(&definition).unwrap();
        }
        Self { server, clock, cut: Arc::default(), asked: Arc::default() }
    }

    fn node(&self, name: &str) {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        self.server.load(&node).unwrap();
    }

    fn refuse(&self, resource: &str) {
        let refusal = Fault::refuse(403, "Forbidden", "no role allows it");
        self.server.faults().inject(Rule::any().resource(resource), refusal);
    }

    /// A client on whose way to the server something may be in between.
    fn client(&self) -> Client {
        let (client, cut) = (self.server.client(), Arc::clone(&self.cut));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (client, cut) = (client.clone(), cut.load(Ordering::Relaxed));
            async move {
                if cut {
                    return Err(std::io::Error::other("connection refused").into());
                }
                client.send(request).await.map_err(tower::BoxError::from)
            }
        });
        Client::new(service, "default")
    }

    /// Cuts the way to the API server, or makes it whole.
    fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::Relaxed);
        for resource in ["nodes", "pods", "nodeclaims"] {
            self.server.faults().break_watches(resource);
        }
    }

    fn sources(&self) -> Sources {
        let asked = Arc::clone(&self.asked);
        Sources {
            client: self.client(),
            cluster: "test".to_owned(),
            prices: watch::channel(Prices::Off).1,
            explainer: Arc::new(move |question| {
                asked.lock().push(question.clone());
                async move { Ok(format!("{question} stays\n")) }.boxed()
            }),
            planner: Arc::new(|| async { Ok("Launch 1 node\n    for shop/api-0\n".to_owned()) }.boxed()),
            clock: Arc::clone(&self.clock),
        }
    }

    /// Returns the screen when `script`, which gets the keyboard, has ended.
    async fn screen<F: Future<Output = ()>>(&self, script: impl FnOnce(Keyboard) -> F) -> String {
        let mut terminal = Terminal::new(TestBackend::new(100, 40)).unwrap();
        let (sender, keys) = mpsc::unbounded_channel();
        let (over, ended) = tokio::sync::oneshot::channel::<()>();
        let stopped = async { _ = ended.await };
        let style = Style { colours: true, ascii: false };
        let shown = Shown::new(&[]);
        let looking = run(&mut terminal, keys, stopped, self.sources(), shown, Ui::default(), style);
        let keyboard = Keyboard(sender);
        let held = keyboard.0.clone();
        let script = async {
            script(keyboard).await;
            let _ = over.send(());
        };
        let (outcome, ()) = tokio::join!(looking, script);
        drop(held);
        outcome.unwrap();
        let buffer = terminal.backend().buffer().clone();
        let lines = buffer.content.chunks(100).map(|line| {
            let line: String = line.iter().map(ratatui::buffer::Cell::symbol).collect();
            line.trim_end().to_owned() + "\n"
        });
        lines.collect()
    }
}

struct Keyboard(mpsc::UnboundedSender<Event>);

impl Keyboard {
    async fn press(&self, key: KeyCode) {
        self.0.send(Event::Key(KeyEvent::from(key))).unwrap();
        seconds(1).await;
    }
}

async fn seconds(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn changes_of_the_cluster_reach_the_screen() {
    let world = World::new();
    world.node("first");
    let screen = world
        .screen(|_| async {
            seconds(3).await;
            world.node("second");
            seconds(3).await;
        })
        .await;
    assert!(screen.contains("2 nodes: 2 ready"), "{screen}");
    assert!(screen.contains("\nfirst ") && screen.contains("\nsecond "), "{screen}");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_goes_away_is_named_and_its_return_ends_that() {
    let world = World::new();
    world.node("first");
    let mut away = String::new();
    let back = world
        .screen(|_| async {
            seconds(3).await;
            world.cut(true);
            seconds(60).await;
            // Another view of the same world cannot even begin, and shows the reason.
            away = gather(world.sources(), Shown::new(&[]), |_| ()).await.unwrap_err().to_string();
            world.cut(false);
            world.node("second");
            seconds(60).await;
        })
        .await;
    assert!(away.starts_with("cannot read the cluster: the API server does not answer"), "{away}");
    assert!(!back.contains("does not answer"), "{back}");
    assert!(back.contains("2 nodes: 2 ready"), "{back}");
}

#[tokio::test(start_paused = true)]
async fn while_the_api_server_is_away_the_last_state_stays() {
    let world = World::new();
    world.node("first");
    let screen = world
        .screen(|_| async {
            seconds(3).await;
            world.cut(true);
            seconds(20).await;
        })
        .await;
    assert!(screen.contains("the API server does not answer since 12:00:0"), "{screen}");
    assert!(screen.contains("\nfirst "), "{screen}");
}

#[tokio::test(start_paused = true)]
async fn rights_that_are_missing_are_named_and_the_rest_is_shown() {
    let world = World::new();
    world.node("first");
    world.refuse("nodeclaims");
    let screen = world.screen(|_| seconds(5)).await;
    assert!(screen.contains("not allowed to watch nodeclaims"), "{screen}");
    assert!(screen.contains("\nfirst "), "{screen}");
    let told = gather(world.sources(), Shown::new(&[]), |scene| {
        (scene.complete, scene.troubles.iter().map(Trouble::full).collect::<Vec<_>>())
    });
    let (complete, troubles) = told.await.unwrap();
    assert!(complete, "no more will come");
    let rule = "- apiGroups: [\"karpenter.sh\"]\n  resources: [\"nodeclaims\"]\n  verbs: [\"get\", \"list\", \"watch\"]";
    assert!(troubles.len() == 1 && troubles[0].contains(rule), "{troubles:?}");
}

#[tokio::test(start_paused = true)]
async fn rights_that_are_granted_later_are_used() {
    let world = World::new();
    world.node("first");
    world.refuse("nodes");
    let screen = world
        .screen(|_| async {
            seconds(5).await;
            world.server.faults().clear();
            seconds(120).await;
        })
        .await;
    assert!(!screen.contains("not allowed"), "{screen}");
    assert!(screen.contains("\nfirst "), "{screen}");
}

#[tokio::test(start_paused = true)]
async fn a_page_asks_for_events_and_for_the_answer_of_the_controller() {
    let world = World::new();
    world.node("first");
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": "first"}, "reason": "Unconsolidatable",
        "message": "Can't remove without creating 2 candidates", "count": 4,
        "firstTimestamp": "2026-01-02T11:00:00Z", "lastTimestamp": "2026-01-02T11:58:00Z"});
    world.server.load(&event).unwrap();
    let screen = world
        .screen(|keyboard| async move {
            seconds(2).await;
            keyboard.press(KeyCode::Enter).await;
            seconds(2).await;
        })
        .await;
    assert!(screen.contains("2m  Unconsolidatable (4 times): Can't remove without"), "{screen}");
    assert!(screen.contains("node/first stays"), "{screen}");
    assert_eq!(*world.asked.lock(), ["node/first"], "asked again only after five seconds");
}

#[tokio::test(start_paused = true)]
async fn the_plan_and_the_objects_of_a_node_have_pages() {
    let world = World::new();
    world.node("first");
    let plan = world.screen(|keyboard| async move { keyboard.press(KeyCode::Char('p')).await }).await;
    assert!(plan.contains("the plan of this moment\nLaunch 1 node\n    for shop/api-0\n"), "{plan}");
    assert!(world.asked.lock().is_empty(), "the controller is not asked for a plan");
    let yaml = world
        .screen(|keyboard| async move {
            seconds(2).await;
            keyboard.press(KeyCode::Enter).await;
            keyboard.press(KeyCode::Char('y')).await;
        })
        .await;
    assert!(yaml.starts_with("apiVersion: v1\nkind: Node\nmetadata:\n  "), "{yaml}");
    assert!(yaml.contains("\n  name: first\n") && !yaml.contains("managedFields"), "{yaml}");
}

/// A claim with a requirement of this operator.
fn claim(name: &str, operator: &str) -> serde_json::Value {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "web"}},
        "spec": {"nodeClassRef": class, "requirements": [{"key": "a", "operator": operator, "values": ["1"]}]},
    })
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_decoded_is_shown_and_hides_no_other() {
    let world = World::lenient();
    world.server.load(&claim("web-1", "Resembles")).unwrap();
    world.server.load(&claim("web-2", "In")).unwrap();
    let screen = world
        .screen(|_| async {
            seconds(3).await;
            world.server.load(&claim("web-3", "In")).unwrap();
            world.server.load(&claim("web-4", "Resembles")).unwrap();
            seconds(3).await;
        })
        .await;
    assert!(screen.contains("4 nodes: 4 pending"), "{screen}");
    for name in ["web-1", "web-2", "web-3", "web-4"] {
        assert!(screen.contains(&format!("\n{name} ")), "{name} in {screen}");
    }
    assert!(screen.contains("not decoded"), "{screen}");
    let told = gather(world.sources(), Shown::new(&[]), |scene| {
        (scene.complete, scene.troubles.iter().map(Trouble::full).collect::<Vec<_>>())
    });
    let (complete, troubles) = told.await.unwrap();
    assert!(complete, "all claims are there");
    let lead =
        "cannot decode NodeClaim web-1 and 1 more, of which less is shown: spec.requirements[0].operator: ";
    assert!(troubles.len() == 1 && troubles[0].starts_with(lead), "{troubles:?}");
}

#[tokio::test(start_paused = true)]
async fn q_ends_the_loop() {
    let world = World::new();
    world
        .screen(|keyboard| async move {
            seconds(1).await;
            keyboard.press(KeyCode::Char('q')).await;
            let closed = keyboard.0.send(Event::FocusGained).is_err();
            assert!(closed, "the loop has dropped its keyboard");
        })
        .await;
}
