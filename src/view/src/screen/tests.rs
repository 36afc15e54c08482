//! Keys in, screen out.

use std::sync::Arc;

use expect_test::{Expect, expect};
use karpenter_model::names::label::{CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, ZONE};
use karpenter_model::{PodKey, Price};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use serde_json::{Value, json};

use super::*;
use crate::details::{Details, EventFacts, Found, Subject};
use crate::facts::Shown;
use crate::history::CostHistory;
use crate::prices::Prices;
use crate::trouble::Trouble;
use crate::ui::Wish;
use crate::world::World;

const NOW: &str = "2026-01-02T12:00:00Z";

fn labels(pool: &str, kind: &str, zone: &str, capacity: &str) -> Value {
    json!({NODE_POOL: pool, INSTANCE_TYPE: kind, ZONE: zone, CAPACITY_TYPE: capacity})
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message,
           "lastTransitionTime": "2026-01-02T11:58:00Z"})
}

fn put_node(world: &mut World, name: &str, labels: &Value, id: &str) {
    let node = json!({
        "metadata": {"name": name, "labels": labels, "creationTimestamp": "2026-01-02T09:00:00Z"},
        "spec": {"providerID": format!("aws:///{id}")},
        "status": {"allocatable": {"cpu": "3920m", "memory": "15Gi", "nvidia.com/gpu": "1"},
                   "conditions": [{"type": "Ready", "status": "True"}]},
    });
    world.put_node(&serde_json::from_value(node).unwrap());
}

fn put_claim(world: &mut World, name: &str, labels: &Value, id: Option<&str>, conditions: &[Value]) {
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "labels": labels, "creationTimestamp": "2026-01-02T11:58:30Z"},
        "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": [],
                 "resources": {"requests": {"cpu": "3", "memory": "6Gi"}}},
        "status": {"providerID": id.map(|id| format!("aws:///{id}")), "conditions": conditions},
    });
    world.put_claim(&serde_json::from_value(claim).unwrap());
}

fn put_pod(world: &mut World, name: &str, node: Option<&str>, cpu: &str) {
    let refused = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/4 nodes are available: 4 Insufficient cpu. preemption: 0/4 nodes are available."}]);
    let pod = json!({
        "metadata": {"namespace": "shop", "name": name, "creationTimestamp": "2026-01-02T11:59:15Z"},
        "spec": {"nodeName": node,
                 "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "2Gi"}}}]},
        "status": {"conditions": if node.is_none() { refused } else { json!([]) }},
    });
    world.put_pod(&serde_json::from_value(pod).unwrap());
}

/// Two machines at work, one that is to go, one that starts, one that cannot start, one of a node group.
fn world() -> World {
    let mut world = World::new(Shown::new(&[]));
    let done = ["Launched", "Registered", "Initialized"].map(|kind| condition(kind, "True", kind, ""));
    let web = |capacity| labels("web", "m5.xlarge", "eu-west-1a", capacity);
    for (number, capacity) in [(1, "on-demand"), (2, "spot")] {
        let id = format!("i-{number}");
        put_node(&mut world, &format!("ip-10-0-0-{number}.eu-west-1.compute.internal"), &web(capacity), &id);
        put_claim(&mut world, &format!("web-{number}"), &web(capacity), Some(&id), &done);
        put_pod(
            &mut world,
            &format!("api-{number}"),
            Some(&format!("ip-10-0-0-{number}.eu-west-1.compute.internal")),
            "3",
        );
    }
    let batch = labels("batch", "c7g.2xlarge", "eu-west-1b", "spot");
    let chosen = condition("DisruptionReason", "True", "Underutilized", "");
    put_node(&mut world, "ip-10-0-0-3.eu-west-1.compute.internal", &batch, "i-3");
    put_claim(&mut world, "batch-1", &batch, Some("i-3"), &[&done[..], &[chosen]].concat());
    let starts = [
        condition("Launched", "True", "Launched", ""),
        condition("Registered", "Unknown", "NodeNotFound", "Node not registered with cluster"),
    ];
    put_claim(&mut world, "batch-2", &batch, Some("i-4"), &starts);
    put_claim(&mut world, "web-3", &json!({NODE_POOL: "web"}), None, &[]);
    put_node(&mut world, "group", &json!({INSTANCE_TYPE: "t3.medium", ZONE: "eu-west-1c"}), "i-9");
    put_pod(&mut world, "api-3", None, "2");
    world
}

/// A terminal, and what is on it.
struct Screen {
    terminal: Terminal<TestBackend>,
    ui: Ui,
    style: Style,
    world: World,
    prices: Prices,
    history: CostHistory,
    troubles: Vec<Trouble>,
    details: Option<Details>,
}

impl Screen {
    fn new(width: u16, height: u16) -> Self {
        let book: crate::PriceBook = Arc::new(|kind, _, capacity| match (kind, capacity) {
            ("m5.xlarge", "on-demand") => Some(Price::from_nanos(214_000_000)),
            ("m5.xlarge", "spot") => Some(Price::from_nanos(80_500_000)),
            ("c7g.2xlarge", "spot") => Some(Price::from_nanos(112_233_445)),
            _ => None,
        });
        let mut history = CostHistory::default();
        let start: i64 = 1_767_353_400;
        for (minute, cents) in (0..).zip([10, 10, 40, 52, 52]) {
            let at = jiff::Timestamp::from_second(start + 60 * minute).unwrap();
            history.record(at, Price::from_nanos(cents * 10_000_000));
        }
        Self {
            terminal: Terminal::new(TestBackend::new(width, height)).unwrap(),
            ui: Ui::default(),
            style: Style { colours: false, ascii: false },
            world: world(),
            prices: Prices::Known(book),
            history,
            troubles: Vec::new(),
            details: None,
        }
    }

    fn scene(&self) -> Scene<'_> {
        Scene {
            world: &self.world,
            prices: &self.prices,
            history: &self.history,
            troubles: &self.troubles,
            details: self.details.as_ref(),
            cluster: "prod",
            complete: true,
            now: NOW.parse().unwrap(),
        }
    }

    fn draw(&mut self) {
        let (mut ui, mut terminal) = (self.ui.clone(), self.terminal.clone());
        let scene = self.scene();
        let whole = |frame: &mut ratatui::Frame<'_>| {
            draw(&scene, &mut ui, self.style, frame.area(), frame.buffer_mut());
        };
        terminal.draw(whole).unwrap();
        (self.ui, self.terminal) = (ui, terminal);
    }

    /// Presses each key on what is drawn before it, and draws.
    fn press(&mut self, keys: &[KeyCode]) -> &mut Self {
        self.draw();
        for key in keys {
            assert_eq!(self.ui.press(KeyEvent::new(*key, KeyModifiers::NONE)), Wish::Draw, "{key:?}");
            self.draw();
        }
        self
    }

    fn type_text(&mut self, text: &str) -> &mut Self {
        let keys: Vec<KeyCode> = text.chars().map(KeyCode::Char).collect();
        self.press(&keys)
    }

    fn text(&self) -> String {
        let buffer = self.terminal.backend().buffer();
        let width = usize::from(buffer.area.width);
        let mut text = String::new();
        for line in buffer.content.chunks(width) {
            let line: String = line.iter().map(ratatui::buffer::Cell::symbol).collect();
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn shows(&self, expected: &Expect) {
        expected.assert_eq(&self.text());
    }

    /// The lines that contain `part`.
    fn lines_with(&self, part: &str) -> Vec<String> {
        self.text().lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }
}

#[test]
fn everything_one_needs_fits_into_80_by_24() {
    let mut screen = Screen::new(80, 24);
    screen.press(&[]).shows(&expect![[r#"
        prod · 2026-01-02 12:00:00 UTC · by name
        6 nodes: 1 pending, 1 launching, 3 ready, 1 disrupted · 3 pods, 1 waiting
        $0.5190 an hour, $378.85 a month (+1 without price) ▂▂▇█ $0.02 spent in 4m
        requested · cpu 6/15.7 38% · memory 4Gi/60Gi 7%
        NODE↓          TYPE        ZONE       CAP     $/H CPU% MEM% PODS  AGE STATE
        batch-2        c7g.2xlarge eu-west-1b spot 0.1122    -    -    0  90s launching
        group          t3.medium   eu-west-1c           -    0    0    0   3h ready
        ip-10-0-0-1    m5.xlarge   eu-west-1a od   0.2140   77   13    1   3h ready
        ip-10-0-0-2    m5.xlarge   eu-west-1a spot 0.0805   77   13    1   3h ready
        ip-10-0-0-3    c7g.2xlarge eu-west-1b spot 0.1122    0    0    0   3h disrupted
        web-3                                           -    -    -    0  90s pending









        pods that wait for a node: 1
        shop/api-3 waits 45s for 0/4 nodes are available: 4 Insufficient cpu. preemptio…
        batch-2 · pool batch · launching: NodeNotFound · $81.93 a month · cpu 3/- · mem…
        enter open · / filter · s r sort · f fold · w waiting · p plan · ? help · q quit
    "#]]);
}

#[test]
fn a_wide_terminal_shows_pools_months_amounts_and_reasons() {
    let mut screen = Screen::new(200, 18);
    screen.press(&[]).shows(&expect![[r#"
        prod · 2026-01-02 12:00:00 UTC · by name
        6 nodes: 1 pending, 1 launching, 3 ready, 1 disrupted · 3 pods, 1 waiting
        $0.5190 an hour, $378.85 a month (+1 without price) ▂▂▇█ $0.02 spent in 4m
        requested · cpu 6/15.7 38% · memory 4Gi/60Gi 7%
        NODE↓                                  POOL       TYPE        ZONE       CAPACITY     $/H  $/MONTH CPU%                    CPU MEM%                      MEM PODS  AGE STATE
        batch-2                                batch      c7g.2xlarge eu-west-1b spot      0.1122    81.93    -                    3/-    -                    6Gi/-    0  90s launching: NodeNotFound
        group                                             t3.medium   eu-west-1c                -        -    0 ▁▁▁▁▁▁▁▁▁▁      0/3.92    0 ▁▁▁▁▁▁▁▁▁▁        0/15Gi    0   3h ready
        ip-10-0-0-1.eu-west-1.compute.internal web        m5.xlarge   eu-west-1a on-demand 0.2140   156.22   77 ████████▁▁      3/3.92   13 █▁▁▁▁▁▁▁▁▁      2Gi/15Gi    1   3h ready
        ip-10-0-0-2.eu-west-1.compute.internal web        m5.xlarge   eu-west-1a spot      0.0805    58.77   77 ████████▁▁      3/3.92   13 █▁▁▁▁▁▁▁▁▁      2Gi/15Gi    1   3h ready
        ip-10-0-0-3.eu-west-1.compute.internal batch      c7g.2xlarge eu-west-1b spot      0.1122    81.93    0 ▁▁▁▁▁▁▁▁▁▁      0/3.92    0 ▁▁▁▁▁▁▁▁▁▁        0/15Gi    0   3h disrupted: Underutilized
        web-3                                  web                                              -        -    -                    3/-    -                    6Gi/-    0  90s pending



        pods that wait for a node: 1
        shop/api-3 waits 45s for 0/4 nodes are available: 4 Insufficient cpu. preemption: 0/4 nodes are available.
        batch-2 · pool batch · launching: NodeNotFound · $81.93 a month · cpu 3/- · memory 6Gi/-
        enter open · / filter · s r sort · f fold · w waiting · p plan · ? help · q quit
    "#]]);
}

#[test]
fn resources_that_are_asked_for_have_columns_and_totals() {
    let mut screen = Screen::new(80, 24);
    screen.world = World::new(Shown::new(&["nvidia.com/gpu".to_owned()]));
    put_node(&mut screen.world, "gpu", &labels("ml", "g5.xlarge", "eu-west-1a", "spot"), "i-1");
    screen.press(&[]);
    assert!(screen.text().contains("nvidia.com/gpu 0/1 0%"), "{}", screen.text());
    assert_eq!(screen.lines_with("GPU%").len(), 1);
}

#[test]
fn a_filter_with_a_misspelt_word_says_so() {
    let mut screen = Screen::new(120, 24);
    screen.press(&[KeyCode::Char('/')]).type_text("poool=web").press(&[KeyCode::Enter]);
    assert_eq!(screen.lines_with("none has a label `poool`; pool, type, zone").len(), 1, "{}", screen.text());
    assert!(plain(&screen.scene(), &screen.ui, 120).contains("none has a label `poool`"));
    screen.press(&[KeyCode::Esc, KeyCode::Char('/')]).type_text("pool=nowhere").press(&[KeyCode::Enter]);
    assert_eq!(screen.lines_with("no node matches the filter; Esc removes it").len(), 1);
}

#[test]
fn labels_that_are_asked_for_have_columns_and_the_order_is_marked() {
    let mut screen = Screen::new(100, 24);
    screen.world = World::new(Shown::new(&[]).with_labels(&["shop.example.com/team".to_owned()]));
    let mut labelled = labels("web", "m5.large", "eu-west-1a", "spot");
    labelled["shop.example.com/team"] = json!("checkout");
    put_node(&mut screen.world, "one", &labelled, "i-1");
    put_node(&mut screen.world, "two", &labels("web", "m5.large", "eu-west-1a", "spot"), "i-2");
    screen.press(&[]);
    assert_eq!(screen.lines_with("TEAM").len(), 1, "{}", screen.text());
    assert_eq!(screen.lines_with("checkout").len(), 1, "{}", screen.text());
    assert_eq!(screen.lines_with("NODE↓").len(), 1, "{}", screen.text());
    screen.press(&[KeyCode::Char('s'), KeyCode::Char('s'), KeyCode::Char('r')]);
    assert_eq!(screen.lines_with("TYPE↑").len(), 1, "{}", screen.text());
    let document = serde_json::to_value(crate::document(&screen.scene(), &screen.ui)).unwrap();
    let labels: Vec<&Value> =
        document["nodes"].as_array().unwrap().iter().map(|node| &node["labels"]).collect();
    assert!(labels.contains(&&json!({"shop.example.com/team": "checkout"})) && labels.contains(&&json!({})));
}

#[test]
fn the_page_of_a_node_has_conditions_events_and_the_answer_of_the_controller() {
    let mut screen = Screen::new(80, 34);
    let node: Arc<str> = "ip-10-0-0-3.eu-west-1.compute.internal".into();
    screen.details = Some(Details {
        subject: Subject::Machine { node: Some(node), claim: Some("batch-1".into()) },
        events: Found::Is(vec![EventFacts {
            at: "2026-01-02T11:59:00Z".parse().unwrap(),
            count: 3,
            reason: "DisruptionTerminating".to_owned(),
            message: "Disrupting Node: Underutilized/Delete".to_owned(),
        }]),
        explained: Found::Is("node/ip-10-0-0-3 is to go, by SingleNode\n  command 1  delete\n".to_owned()),
    });
    screen.press(&[KeyCode::Down, KeyCode::Down, KeyCode::Enter]);
    assert!(screen.text().contains("is gone") || !screen.lines_with("conditions of the claim").is_empty());
    screen.press(&[KeyCode::Esc, KeyCode::Home]);
    for _ in 0..10 {
        if screen.lines_with("batch-1").iter().any(|line| line.contains("·")) {
            break;
        }
        screen.press(&[KeyCode::Down]);
    }
    screen.press(&[KeyCode::Enter]).shows(&expect![[r#"
        ip-10-0-0-3.eu-west-1.compute.internal  disrupted: Underutilized
          claim         batch-1
          pool          batch
          instance      aws:///i-3
          type          c7g.2xlarge
          zone          eu-west-1b
          capacity type spot
          price         $0.1122 an hour, $81.93 a month
          cpu           0 of 3.92 (0%)
          memory        0 of 15Gi (0%)
          pods          0
          age           3h

        conditions of the claim
          Launched              True      2m
          Registered            True      2m
          Initialized           True      2m
          DisruptionReason      True      2m  Underutilized

        what the controller says
          node/ip-10-0-0-3 is to go, by SingleNode
          command 1  delete

        events
          60s  DisruptionTerminating (3 times): Disrupting Node: Underutilized/Delete

        labels
          karpenter.sh/capacity-type=spot
          karpenter.sh/nodepool=batch
          node.kubernetes.io/instance-type=c7g.2xlarge
          topology.kubernetes.io/zone=eu-west-1b


        ↑↓ scroll · y yaml · esc back · q quit
    "#]]);
    screen.press(&[KeyCode::Esc]);
    assert_eq!(screen.lines_with("STATE").len(), 1, "the list again");
}

#[test]
fn the_page_of_a_node_lists_its_pods_with_what_they_ask_for() {
    let mut screen = Screen::new(80, 34);
    // Below the claim that starts and the node of a group.
    screen.press(&[KeyCode::Down, KeyCode::Down, KeyCode::Enter]);
    assert_eq!(screen.lines_with("claim         web-1").len(), 1, "{}", screen.text());
    assert_eq!(screen.lines_with("shop/api-1  3 cpu, 2Gi memory").len(), 1, "{}", screen.text());
}

#[test]
fn a_page_goes_on_when_the_claim_gets_its_node() {
    let mut screen = Screen::new(80, 24);
    screen.press(&[KeyCode::Char('/')]).type_text("batch-2").press(&[KeyCode::Enter, KeyCode::Enter]);
    assert_eq!(screen.lines_with("batch-2  launching: NodeNotFound").len(), 1, "{}", screen.text());
    let batch = labels("batch", "c7g.2xlarge", "eu-west-1b", "spot");
    put_node(&mut screen.world, "ip-10-0-0-4", &batch, "i-4");
    screen.press(&[]);
    assert_eq!(screen.lines_with("ip-10-0-0-4  launching").len(), 1, "{}", screen.text());
    screen.world = World::new(Shown::new(&[]));
    screen.press(&[]);
    assert_eq!(screen.lines_with("batch-2 is gone").len(), 1);
}

#[test]
fn the_filter_narrows_while_it_is_typed_and_esc_removes_it() {
    let mut screen = Screen::new(80, 24);
    screen.press(&[KeyCode::Char('/')]).type_text("pool=web");
    assert_eq!(screen.lines_with("filter: pool=web_").len(), 1);
    assert_eq!(screen.lines_with("3 of 6 nodes: 1 pending, 2 ready").len(), 1, "{}", screen.text());
    // `q` is a letter while typing; nothing matches.
    screen.type_text("q");
    assert_eq!(screen.lines_with("no node matches the filter").len(), 1);
    screen.press(&[KeyCode::Backspace, KeyCode::Enter]);
    assert_eq!(screen.lines_with("filter: pool=web").len(), 1);
    screen.press(&[KeyCode::Esc]);
    assert_eq!(screen.lines_with("6 nodes").len(), 1);
}

#[test]
fn pools_fold_and_unfold() {
    let mut screen = Screen::new(80, 24);
    screen.press(&[KeyCode::Char('f'), KeyCode::Down, KeyCode::Down, KeyCode::Enter]);
    let names: Vec<String> =
        screen.text().lines().skip(5).take(6).map(|line| line.chars().take(14).collect()).collect();
    let expected = [
        "▸ no pool (1) ",
        "▸ batch (2)   ",
        "▾ web (3)     ",
        "ip-10-0-0-1   ",
        "ip-10-0-0-2   ",
        "web-3         ",
    ];
    assert_eq!(names, expected);
    screen.press(&[KeyCode::Left, KeyCode::Up, KeyCode::Right]);
    assert_eq!(screen.lines_with("▸ web").len(), 1);
    assert_eq!(screen.lines_with("▾ batch").len(), 1);
}

#[test]
fn sorting_goes_through_the_columns() {
    let mut screen = Screen::new(80, 24);
    let first = |screen: &Screen| screen.text().lines().nth(5).unwrap().to_owned();
    screen.press(&[]);
    assert!(first(&screen).starts_with("batch-2"));
    screen.press(&[KeyCode::Char('s'); 5]);
    assert_eq!(screen.lines_with("by price").len(), 1);
    assert!(first(&screen).starts_with("ip-10-0-0-1"), "{}", first(&screen));
    screen.press(&[KeyCode::Char('r')]);
    assert_eq!(screen.lines_with("by price, reversed").len(), 1);
    assert!(!first(&screen).starts_with("ip-10-0-0-1"), "{}", first(&screen));
}

#[test]
fn pods_that_wait_have_a_list_and_pages() {
    let mut screen = Screen::new(80, 24);
    screen.press(&[KeyCode::Char('w')]);
    assert_eq!(
        screen.lines_with("shop/api-3 waits 45s for 0/4 nodes are available: 4 Insufficient").len(),
        1
    );
    screen.details = Some(Details::asking(Subject::Pod(PodKey::new("shop", "api-3"))));
    screen.press(&[KeyCode::Enter]).shows(&expect![[r#"
        pod shop/api-3 waits for
          0/4 nodes are available: 4 Insufficient cpu. preemption: 0/4 nodes are
          available.
          age           45s
          cpu           2
          memory        2Gi

        what the controller says
          asking ...

        events
          asking ...











        ↑↓ scroll · y yaml · esc back · q quit
    "#]]);
    screen.press(&[KeyCode::Esc, KeyCode::Esc]);
    assert_eq!(screen.lines_with("STATE").len(), 1);
}

#[test]
fn missing_rights_are_named_with_the_rule_to_add() {
    let mut screen = Screen::new(100, 24);
    screen.troubles = vec![
        Trouble::Refused { verb: "watch", group: "karpenter.sh", resource: "nodeclaims" },
        Trouble::NoPrices("no credentials".to_owned()),
    ];
    screen.press(&[]);
    assert_eq!(screen.lines_with("not allowed to watch nodeclaims; the rule to add is on page `!`").len(), 1);
    assert_eq!(screen.lines_with("no prices: no credentials").len(), 1);
    screen.press(&[KeyCode::Char('!')]);
    for line in [
        "- apiGroups: [\"karpenter.sh\"]",
        "resources: [\"nodeclaims\"]",
        "verbs: [\"get\", \"list\", \"watch\"]",
    ] {
        assert_eq!(screen.lines_with(line).len(), 1, "{line}\n{}", screen.text());
    }
}

#[test]
fn an_api_server_that_is_away_is_in_the_status() {
    let mut screen = Screen::new(100, 24);
    let since = "2026-01-02T11:59:30Z".parse().unwrap();
    screen.troubles = vec![Trouble::Away { since, why: "connection refused".to_owned() }];
    screen.press(&[]);
    let told = screen.lines_with("the API server does not answer since 11:59:30, showing what was known");
    assert_eq!(told.len(), 1, "{}", screen.text());
    assert_eq!(screen.lines_with("ip-10-0-0-1").len(), 1, "what was known is still there");
}

#[test]
fn a_small_screen_keeps_machines_and_a_tall_one_shows_more_pods_that_wait() {
    for (width, height) in [(60, 12), (80, 10), (40, 8), (30, 6)] {
        let mut screen = Screen::new(width, height);
        for number in 0..9 {
            put_pod(&mut screen.world, &format!("more-{number}"), None, "2");
        }
        screen.press(&[]);
        let text = screen.text();
        let below_titles =
            text.lines().skip_while(|line| !line.starts_with("NODE")).nth(1).unwrap_or_default();
        assert!(below_titles.starts_with("batch-2  "), "{width}x{height}: {text}");
    }
    let mut screen = Screen::new(100, 40);
    for number in 0..9 {
        put_pod(&mut screen.world, &format!("more-{number}"), None, "2");
    }
    screen.press(&[]);
    assert_eq!(screen.lines_with("shop/more-").len(), 9, "{}", screen.text());
}

#[test]
fn prices_of_which_none_is_known_are_no_sum_of_zero() {
    let mut screen = Screen::new(100, 24);
    screen.prices = Prices::Known(Arc::new(|_, _, _| None));
    screen.press(&[KeyCode::Char('f')]);
    let json = serde_json::to_value(crate::document(&screen.scene(), &screen.ui)).unwrap();
    let text = screen.text();
    assert!(!text.contains("0.0000") && text.contains("\n- an hour (+5 without price)"), "{text}");
    assert!(json["totals"]["pricePerHour"].is_null() && json["pools"][0]["pricePerHour"].is_null(), "{json}");
}

#[test]
fn prices_that_are_there_are_shown_beside_what_is_said_of_the_others() {
    let mut screen = Screen::new(100, 24);
    let Prices::Known(book) = screen.prices.clone() else { panic!("the screen begins with prices") };
    let priced = screen.scene().machines().iter().filter(|machine| machine.price.is_some()).count();
    screen.prices = Prices::Partial(book, "machines on spot have no price: refused".to_owned());
    screen.troubles.extend(screen.prices.trouble());
    screen.press(&[]);
    assert_eq!(screen.lines_with("an hour, $").len(), 1, "{}", screen.text());
    assert_eq!(screen.lines_with("machines on spot have no price: refused").len(), 1, "{}", screen.text());
    let still = screen.scene().machines().iter().filter(|machine| machine.price.is_some()).count();
    assert_eq!((still, still > 0), (priced, true));
    screen.press(&[KeyCode::Char('!')]);
    assert_eq!(screen.lines_with("ec2:DescribeSpotPriceHistory").len(), 1, "{}", screen.text());
}

#[test]
fn without_colours_no_cell_has_one_and_ascii_is_enough() {
    for (colours, ascii) in [(false, true), (true, false)] {
        let mut screen = Screen::new(80, 24);
        screen.style = Style { colours, ascii };
        screen.troubles = vec![Trouble::NoPrices("no credentials".to_owned())];
        screen.press(&[KeyCode::Char('f')]);
        let cells = &screen.terminal.backend().buffer().content;
        let plain = cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset);
        assert_eq!(plain, !colours);
        assert_eq!(cells.iter().all(|cell| cell.symbol().is_ascii()), ascii, "{}", screen.text());
    }
}

#[test]
fn no_size_is_too_small() {
    for (width, height) in [(1, 1), (10, 3), (20, 8), (40, 12), (300, 5)] {
        let mut screen = Screen::new(width, height);
        screen.press(&[KeyCode::Down, KeyCode::Enter, KeyCode::Esc, KeyCode::Char('w'), KeyCode::Char('?')]);
    }
}

#[test]
fn help_scrolls_on_a_small_screen() {
    let mut screen = Screen::new(80, 10);
    screen.press(&[KeyCode::Char('?')]);
    assert_eq!(screen.lines_with("more lines below").len(), 1);
    screen.press(&[KeyCode::End]);
    assert_eq!(screen.lines_with("this program runs.").len(), 1, "{}", screen.text());
}

#[test]
fn q_and_ctrl_c_quit() {
    let mut ui = Ui::default();
    assert_eq!(ui.press(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE)), Wish::Quit);
    assert_eq!(ui.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Wish::Quit);
    ui.press(KeyEvent::new(KeyCode::Char('/'), KeyModifiers::NONE));
    assert_eq!(
        ui.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)),
        Wish::Quit,
        "while typing"
    );
}

#[test]
fn plain_text_has_every_machine_and_pod_and_no_keys() {
    let screen = Screen::new(80, 24);
    expect![[r#"
        prod · 2026-01-02 12:00:00 UTC · by name
        6 nodes: 1 pending, 1 launching, 3 ready, 1 disrupted · 3 pods, 1 waiting
        $0.5190 an hour, $378.85 a month (+1 without price) ▂▂▇█ $0.02 spent in 4m
        requested · cpu 6/15.7 38% · memory 4Gi/60Gi 7%
        NODE↓          POOL       TYPE        ZONE       CAP     $/H  $/MONTH CPU%         CPU MEM% PODS  AGE STATE
        batch-2        batch      c7g.2xlarge eu-west-1b spot 0.1122    81.93    -         3/-    -    0  90s launching: NodeNo…
        group                     t3.medium   eu-west-1c           -        -    0      0/3.92    0    0   3h ready
        ip-10-0-0-1    web        m5.xlarge   eu-west-1a od   0.2140   156.22   77      3/3.92   13    1   3h ready
        ip-10-0-0-2    web        m5.xlarge   eu-west-1a spot 0.0805    58.77   77      3/3.92   13    1   3h ready
        ip-10-0-0-3    batch      c7g.2xlarge eu-west-1b spot 0.1122    81.93    0      0/3.92    0    0   3h disrupted: Underu…
        web-3          web                                         -        -    -         3/-    -    0  90s pending
        shop/api-3 waits 45s for 0/4 nodes are available: 4 Insufficient cpu. preemption: 0/4 nodes are available.
    "#]].assert_eq(&plain(&screen.scene(), &screen.ui, 120));
}

#[test]
#[expect(clippy::too_many_lines, reason = "the whole document, line by line")]
fn the_document_is_exact() {
    let screen = Screen::new(80, 24);
    let ui = Ui::new(crate::Sort::default(), crate::Filter::new("pool=web type=m5.xlarge"), true);
    let document = crate::document(&screen.scene(), &ui);
    expect![[r#"
        {
          "at": "2026-01-02T12:00:00Z",
          "cluster": "prod",
          "complete": true,
          "troubles": [],
          "totals": {
            "nodes": 2,
            "states": {
              "ready": 2
            },
            "pods": 2,
            "pricePerHour": "0.2945",
            "nodesWithoutPrice": 0,
            "requested": {
              "cpu": "6",
              "memory": "4Gi"
            },
            "allocatable": {
              "cpu": "7840m",
              "memory": "30Gi"
            }
          },
          "pools": [
            {
              "name": "web",
              "nodes": 2,
              "states": {
                "ready": 2
              },
              "pods": 2,
              "pricePerHour": "0.2945",
              "nodesWithoutPrice": 0,
              "requested": {
                "cpu": "6",
                "memory": "4Gi"
              },
              "allocatable": {
                "cpu": "7840m",
                "memory": "30Gi"
              }
            }
          ],
          "nodes": [
            {
              "node": "ip-10-0-0-1.eu-west-1.compute.internal",
              "claim": "web-1",
              "pool": "web",
              "instanceType": "m5.xlarge",
              "zone": "eu-west-1a",
              "capacityType": "on-demand",
              "pricePerHour": "0.2140",
              "state": "ready",
              "why": null,
              "created": "2026-01-02T09:00:00Z",
              "pods": 1,
              "labels": {},
              "requested": {
                "cpu": "3",
                "memory": "2Gi"
              },
              "allocatable": {
                "cpu": "3920m",
                "memory": "15Gi"
              }
            },
            {
              "node": "ip-10-0-0-2.eu-west-1.compute.internal",
              "claim": "web-2",
              "pool": "web",
              "instanceType": "m5.xlarge",
              "zone": "eu-west-1a",
              "capacityType": "spot",
              "pricePerHour": "0.0805",
              "state": "ready",
              "why": null,
              "created": "2026-01-02T09:00:00Z",
              "pods": 1,
              "labels": {},
              "requested": {
                "cpu": "3",
                "memory": "2Gi"
              },
              "allocatable": {
                "cpu": "3920m",
                "memory": "15Gi"
              }
            }
          ],
          "waitingPods": [
            {
              "namespace": "shop",
              "name": "api-3",
              "created": "2026-01-02T11:59:15Z",
              "waitsFor": "0/4 nodes are available: 4 Insufficient cpu. preemption: 0/4 nodes are available.",
              "requested": {
                "cpu": "2",
                "memory": "2Gi"
              }
            }
          ]
        }
    "#]]
    .assert_eq(&(serde_json::to_string_pretty(&document).unwrap() + "\n"));
}
