//! Result of a command when the world changes within its quiet time (spec disruption 3.14 and 8.7).

use std::collections::BTreeSet;

use karpenter_audit::audit;
use karpenter_engine::disrupt::{Rejection, RejectionKind, Standing, confirm};
use karpenter_model::{Command, Method, NodeId, Plan, Snapshot};
use karpenter_testkit::snapshot;

use super::decided;

const WORLD: &str = "
type  small cpu=2 mem=4Gi pods=10 od=0.10 spot=0.04 zones=a,b
type  mid   cpu=4 mem=8Gi pods=20 od=0.20 spot=0.08 zones=a,b
type  large cpu=8 mem=16Gi pods=40 od=0.40 spot=0.16 zones=a,b
";

/// The only command for `text`.
fn command(text: &str, method: Method) -> Command {
    let mut commands = decided(&snapshot(&format!("{WORLD}{text}"))).commands.clone();
    assert_eq!(commands.len(), 1, "{commands:#?}");
    let command = commands.remove(0);
    assert_eq!(command.method, method);
    command
}

fn looked(text: &str, command: &Command) -> Result<Command, RejectionKind> {
    confirmed(&world(text), command, &Standing { proposed: &[], running: &BTreeSet::new() })
}

/// Returns the result of a second look; whatever may start must pass the audit.
fn confirmed(
    snapshot: &Snapshot,
    command: &Command,
    standing: &Standing<'_>,
) -> Result<Command, RejectionKind> {
    let answer = confirm(snapshot, std::slice::from_ref(command), standing).remove(0);
    let command = answer.map_err(|rejection| rejection.kind)?;
    let plan = Plan { commands: vec![command.clone()], ..Plan::default() };
    assert_eq!(audit(snapshot, &plan), []);
    Ok(command)
}

fn world(text: &str) -> Snapshot {
    // A type that is described again is another one.
    let again = text.lines().find(|line| line.starts_with("type  small"));
    let lines =
        WORLD.lines().map(|line| if line.starts_with("type  small") { again.unwrap_or(line) } else { line });
    let types: Vec<&str> = lines.collect();
    let rest: Vec<&str> = text.lines().filter(|line| !line.starts_with("type")).collect();
    snapshot(&format!("{}\n{}", types.join("\n"), rest.join("\n")))
}

/// Looks again after each of `changes`, which are replacements in `text` or lines to add.
fn rejections(text: &str, method: Method, changes: &[(&str, &str, RejectionKind)]) {
    let command = command(text, method);
    assert_eq!(looked(text, &command).as_ref(), Ok(&command), "nothing has changed");
    for (from, to, expected) in changes {
        let now = if from.is_empty() { format!("{text}{to}\n") } else { text.replace(from, to) };
        assert_ne!(now, text, "{from:?} is not in the text");
        assert_eq!(looked(&now, &command), Err(*expected), "{from:?} -> {to:?}");
    }
}

const EMPTY: &str = "
pool  web types=* budget=2
node  a pool=web type=small zone=a capacity=spot
node  b pool=web type=small zone=a capacity=spot
";

#[test]
fn emptiness_goes_on_with_the_machines_that_are_still_empty() {
    let both = command(EMPTY, Method::Emptiness);
    let nodes = |text: &str| {
        let confirmed = looked(&format!("{EMPTY}{text}"), &both);
        confirmed.map(|command| command.nodes().map(NodeId::to_string).collect::<Vec<_>>())
    };
    assert_eq!(nodes(""), Ok(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(nodes("pod p cpu=1 on=a\n"), Ok(vec!["b".to_owned()]));
    assert_eq!(nodes("pod p cpu=1 owner=daemonset on=a\n").map(|nodes| nodes.len()), Ok(2));
    let less = looked(&EMPTY.replace("budget=2", "budget=1"), &both).map(|command| command.candidates.len());
    assert_eq!(less, Ok(1), "the budget is smaller now");
}

#[test]
fn emptiness_is_rejected_when_no_machine_is_left() {
    use RejectionKind::{Budget, Churn};
    rejections(
        &EMPTY.replace("node  b pool=web type=small zone=a capacity=spot\n", ""),
        Method::Emptiness,
        &[
            ("", "pod p cpu=1 on=a", Churn),
            ("", "pod p cpu=1 owner=daemonset do-not-disrupt on=a", Churn),
            ("capacity=spot", "capacity=spot leaving", Churn),
            ("capacity=spot", "capacity=spot annotation=karpenter.sh/do-not-disrupt=true", Churn),
            ("budget=2", "budget=2 consolidate=2h", Churn),
            ("budget=2", "budget=2 consolidate=never", Churn),
            ("node  a", "node  other", Churn),
            ("capacity=spot", "capacity=spot nominated=5s", Budget),
            ("budget=2", "budget=0", Budget),
            ("budget=2", "budget=2 budget=0@Empty@0_11_*_*_*/2h", Budget),
        ],
    );
}

#[test]
fn drift_needs_no_machine_where_an_empty_one_that_was_to_go_is_still_there() {
    let text = "
pool  web types=small budget=100%
pool  calm types=large consolidate=0s budget=100% limit=nodes=1
node  a pool=web type=small zone=a capacity=on-demand drifted=1m
node  b pool=calm type=large zone=a capacity=on-demand
pod   p cpu=1 on=a
";
    let commands = decided(&world(text)).commands.clone();
    let [empty, drift] = &commands[..] else { panic!("{commands:#?}") };
    assert_eq!((empty.method, drift.method), (Method::Emptiness, Method::Drift));
    assert_eq!(drift.replacements.len(), 1, "the empty one is taken to be gone");
    // Until its quiet time is over it is not, and nothing holds that against drift.
    let confirmed = looked(text, drift).unwrap();
    assert_eq!((confirmed.replacements.len(), confirmed.nominations.len()), (0, 1));
    // And from then on it is for the pod, whether both are looked at together or one after the other.
    let running = BTreeSet::new();
    let kind = |answer: Result<Command, Rejection>| answer.map_err(|rejection| rejection.kind);
    let together = confirm(
        &world(text),
        &[drift.clone(), empty.clone()],
        &Standing { proposed: &[], running: &running },
    );
    assert_eq!(kind(together.last().unwrap().clone()), Err(RejectionKind::Budget));
    let standing = [empty.clone(), confirmed];
    let later = confirm(
        &world(text),
        std::slice::from_ref(empty),
        &Standing { proposed: &standing, running: &running },
    );
    assert_eq!(kind(later[0].clone()), Err(RejectionKind::Budget));
}

/// Two commands that were decided without each other. The first sends its pod to the node that the second would remove.
#[test]
fn no_command_removes_what_another_of_the_round_sends_pods_to() {
    let text = |a: &str, b: &str| {
        format!(
            "
pool  web types=* budget=100%
pool  calm types=large consolidate=never
node  a pool=web type=small zone=a capacity=on-demand
node  b pool=web type=large zone=a capacity=on-demand
node  c pool=calm type=large zone=a capacity=on-demand
pod   p cpu=1 on=a {a}
pod   q cpu=4 on=b {b}
pod   r cpu=1 on=c
"
        )
    };
    let first = command(&text("", "do-not-disrupt"), Method::SingleNode);
    let second = command(&text("do-not-disrupt", ""), Method::SingleNode);
    let now = world(&text("", ""));
    let running = BTreeSet::new();
    let answers = confirm(&now, &[first, second], &Standing { proposed: &[], running: &running });
    let started: Vec<Command> = answers.iter().filter_map(|answer| answer.clone().ok()).collect();
    assert_eq!(started.len(), 1, "{answers:#?}");
    assert_eq!(audit(&now, &Plan { commands: started, ..Plan::default() }), []);
}

const DELETE: &str = "
pool  web types=* budget=1 limit=nodes=1
pool  calm types=large consolidate=never limit=nodes=1
node  a pool=web type=small zone=a capacity=on-demand
node  b pool=calm type=large zone=a capacity=on-demand
pod   p cpu=1 on=a
pod   q cpu=6 on=b
";

#[test]
fn a_deletion_needs_the_room_it_counted_on() {
    use RejectionKind::{Budget, Churn, Scheduling};
    rejections(
        DELETE,
        Method::SingleNode,
        &[
            ("pod   q cpu=6 on=b", "pod   q cpu=7500m on=b", Scheduling),
            ("", "pod more cpu=1500m", Scheduling),
            ("", "pod guard cpu=100m do-not-disrupt on=a", Churn),
            ("", "pdb all max-unavailable=0 allowed=0", Churn),
            ("pod   p cpu=1 on=a", "pod p cpu=1 owner=daemonset on=a", Churn),
            ("on-demand\nnode  b", "on-demand nominated=5s\nnode  b", Budget),
            ("budget=1", "budget=0", Budget),
            ("budget=1", "budget=1 policy=when-empty", Churn),
        ],
    );
}

const REPLACE: &str = "
pool  web types=* budget=1
node  a pool=web type=large zone=a capacity=on-demand
pod   p cpu=1500m select=capacity=on-demand on=a
";

#[test]
fn a_replacement_must_still_be_enough_and_still_be_cheaper() {
    use RejectionKind::{Price, Scheduling};
    rejections(
        REPLACE,
        Method::SingleNode,
        &[
            ("", "type  small cpu=2 mem=4Gi pods=10 od=0.10 zones=a,b gone=a/od gone=b/od", Scheduling),
            ("", "pod more cpu=1 select=capacity=on-demand on=a", Scheduling),
            ("", "type  small cpu=2 mem=4Gi pods=10 od=0.41 spot=0.04 zones=a,b", Price),
        ],
    );
}

#[test]
fn a_replacement_is_bought_at_the_prices_of_the_second_look() {
    let command = command(REPLACE, Method::SingleNode);
    let listed = |command: &Command| command.replacements[0].instance_types.to_vec();
    assert_eq!(listed(&command), ["small", "mid"]);
    let at = |price: &str| {
        let small = format!("type  small cpu=2 mem=4Gi pods=10 od={price} spot=0.04 zones=a,b");
        looked(&format!("{REPLACE}{small}\n"), &command).expect("it is still cheaper")
    };
    let dearer = at("0.12");
    assert_eq!(listed(&dearer), ["small", "mid"]);
    assert_eq!(dearer.savings.to_string(), "$0.2800");
    let second = at("0.25");
    assert_eq!(listed(&second), ["mid", "small"], "the cheapest comes first");
    assert_eq!(second.savings.to_string(), "$0.2000");
}

#[test]
fn pods_that_came_since_move_with_the_others() {
    for (text, method) in [(REPLACE, Method::SingleNode), (DRIFT, Method::Drift)] {
        let command = command(text, method);
        let came = looked(&format!("{text}pod came cpu=100m select=capacity=on-demand on=a\n"), &command);
        let came = came.expect("there is room for it");
        let moved: Vec<String> = came.replacements[0].pods.iter().map(ToString::to_string).collect();
        assert_eq!(moved, ["default/p", "default/came"], "{method:?}");
        assert_eq!(came.candidates[0].pods.len(), 2, "{method:?}");
    }
}

#[test]
fn a_static_machine_goes_with_the_pods_of_the_second_look() {
    let text = "
set   static=on
pool  fixed types=small replicas=1 budget=100%
node  a pool=fixed type=small zone=a capacity=on-demand drifted=1m
";
    let command = command(text, Method::StaticDrift);
    let came = looked(&format!("{text}pod came cpu=100m on=a\n"), &command).expect("it is still drifted");
    assert_eq!(came.candidates[0].pods.len(), 1);
}

#[test]
fn the_score_is_looked_at_again() {
    let text = "
pool  web types=* budget=1 policy=balanced
node  a pool=web type=large zone=a capacity=on-demand
pod   p cpu=500m select=capacity=on-demand on=a
";
    let cheaper = "type  small cpu=2 mem=4Gi pods=10 od=0.19 spot=0.04 zones=a,b";
    let command = command(text, Method::SingleNode);
    assert_eq!(looked(text, &command).as_ref(), Ok(&command));
    // The saving falls from three quarters of the pool's cost to less than half of it.
    let dear = text.replace("type=large", "type=mid");
    let mut mid = command.clone();
    mid.candidates[0].instance_type = Some("mid".into());
    mid.replacements[0].instance_types = ["small".into()].into();
    assert!(looked(&dear, &mid).is_ok(), "half of the cost is enough");
    assert_eq!(looked(&format!("{dear}{cheaper}\n"), &mid), Err(RejectionKind::Score));
}

const DRIFT: &str = "
pool  web types=* budget=1
node  a pool=web type=small zone=a capacity=on-demand drifted=10m
pod   p cpu=1500m on=a
";

#[test]
fn drift_is_looked_at_again_once_no_new_pod_can_come() {
    use RejectionKind::{Budget, Churn, Scheduling};
    rejections(
        DRIFT,
        Method::Drift,
        &[
            (" drifted=10m", "", Churn),
            ("", "pod guard cpu=100m do-not-disrupt on=a", Churn),
            ("budget=1", "budget=0@Drifted", Budget),
            ("cpu=1500m", "cpu=3", Scheduling),
            ("cpu=1500m", "cpu=64", Scheduling),
        ],
    );
}

#[test]
fn commands_that_start_together_share_budgets_and_room() {
    let text = "
pool  web types=* budget=1
node  a pool=web type=small zone=a capacity=on-demand drifted=10m
node  b pool=web type=small zone=a capacity=on-demand drifted=5m
pod   p cpu=1500m on=a
pod   q cpu=1500m on=b
";
    let both =
        decided(&snapshot(&format!("{WORLD}{}", text.replace("budget=1", "budget=2")))).commands.clone();
    let (first, second) = (&both[0], &both[1]);
    let snapshot = snapshot(&format!("{WORLD}{text}"));
    let none = BTreeSet::new();
    let alone = Standing { proposed: &[], running: &none };
    assert!(confirmed(&snapshot, first, &alone).is_ok() && confirmed(&snapshot, second, &alone).is_ok());
    let after = Standing { proposed: std::slice::from_ref(first), running: &none };
    let rejected = confirmed(&snapshot, second, &after);
    assert_eq!(rejected, Err(RejectionKind::Budget), "proposed a moment ago");
    let running: BTreeSet<NodeId> = first.nodes().cloned().collect();
    let after = Standing { proposed: &[], running: &running };
    let rejected = confirmed(&snapshot, second, &after);
    assert_eq!(rejected, Err(RejectionKind::Budget), "running");
    assert!(confirmed(&snapshot, first, &after).is_ok(), "a command does not stand in its own way");
}

#[test]
fn what_another_command_launched_meanwhile_is_not_in_the_way() {
    let before = "
pool  web types=* budget=2
node  a pool=web type=small zone=a capacity=on-demand drifted=10m
node  b pool=web type=small zone=a capacity=on-demand drifted=5m
pod   p cpu=1500m on=a
pod   q cpu=1500m on=b
";
    let commands = decided(&world(before)).commands.clone();
    let [first, second] = &commands[..] else { panic!("{commands:#?}") };
    let running: BTreeSet<NodeId> = first.nodes().cloned().collect();
    let standing = Standing { proposed: &[], running: &running };
    let leaving = before.replace("drifted=10m", "drifted=10m leaving");
    // `q` fits on what was launched for `p`, which is not initialized yet.
    for state in ["created", "launched zone=a type=large", "registered zone=a type=large"] {
        let new = format!("node new pool=web state={state} cpu=8 mem=16Gi pods=40 require=type:In:large");
        let promised = leaving.replace("on=a", "on=a promised=new");
        let look = confirmed(&world(&format!("{promised}{new}\n")), second, &standing);
        assert!(look.is_ok(), "{state}: {look:?}");
    }
    let claim = "node new pool=web state=created cpu=8 mem=16Gi pods=40 require=type:In:large\n";
    let first_stands = Standing { proposed: std::slice::from_ref(first), running: &running };
    for place in ["on=a promised=new", "on=a"] {
        let shown = before.replace("on=a", place);
        let look = confirmed(&world(&format!("{shown}{claim}")), second, &first_stands);
        assert!(look.is_ok(), "the claim shows before its nodes are leaving, `{place}`: {look:?}");
    }
    let nothing = Standing { proposed: &[], running: &BTreeSet::new() };
    let foreign = format!("{before}{claim}pod waits cpu=100m promised=new\n");
    let look = confirmed(&world(&foreign), second, &nothing);
    assert_eq!(look, Err(RejectionKind::Scheduling), "what comes for others may have room for it soon");
}

#[test]
fn the_words_of_rejections_are_those_dashboards_know() {
    use RejectionKind::{Budget, Churn, Price, Scheduling, Score};
    let words = [Budget, Scheduling, Churn, Price, Score].map(RejectionKind::as_str);
    assert_eq!(words, ["budget", "scheduling", "churn", "price", "score"]);
}

#[test]
fn one_machine_that_changed_stops_a_command_of_several() {
    use RejectionKind::{Budget, Churn};
    rejections(
        "
pool  web types=* budget=2
node  foreign cpu=64 mem=256Gi pods=100 zone=a
node  a pool=web type=small zone=a capacity=on-demand
node  b pool=web type=small zone=b capacity=on-demand
pod   p cpu=1 on=a
pod   q cpu=1 on=b
",
        Method::MultiNode,
        &[
            ("", "pod guard cpu=100m do-not-disrupt on=b", Churn),
            ("", "pdb all max-unavailable=0 allowed=0", Churn),
            ("zone=b capacity=on-demand", "zone=b capacity=on-demand leaving", Churn),
            ("zone=b capacity=on-demand", "zone=b capacity=on-demand nominated=5s", Budget),
            ("budget=2", "budget=1", Budget),
        ],
    );
}

#[test]
fn commands_looked_at_together_share_budgets_and_room() {
    let text = "
pool  web types=* budget=1
node  a pool=web type=small zone=a capacity=on-demand drifted=10m
node  b pool=web type=small zone=a capacity=on-demand drifted=5m
node  c pool=web type=small zone=a capacity=on-demand drifted=1m
pod   p cpu=1500m on=a
pod   q cpu=1500m on=b
pod   r cpu=1500m on=c
";
    let all =
        decided(&snapshot(&format!("{WORLD}{}", text.replace("budget=1", "budget=3")))).commands.clone();
    let alone = Standing { proposed: &[], running: &BTreeSet::new() };
    let kinds = |text: &str| {
        let answers = confirm(&snapshot(&format!("{WORLD}{text}")), &all, &alone);
        answers.into_iter().map(|answer| answer.map(drop).map_err(|no| no.kind)).collect::<Vec<_>>()
    };
    let no = Err(RejectionKind::Budget);
    assert_eq!(kinds(text), [Ok(()), no, no]);
    let first_stays = text.replace(" drifted=10m", "");
    assert_eq!(kinds(&first_stays), [Err(RejectionKind::Churn), Ok(()), no], "what is refused takes nothing");
}

#[test]
fn new_machines_in_another_order_are_the_same() {
    let text = "
pool  web types=small,mid budget=1
node  a pool=web type=large zone=a capacity=on-demand drifted=10m
pod   p cpu=1900m on=a
pod   q cpu=3900m on=a
";
    let snapshot = snapshot(&format!("{WORLD}{text}"));
    let mut command = decided(&snapshot).commands[0].clone();
    assert_eq!((command.method, command.replacements.len()), (Method::Drift, 2));
    let alone = Standing { proposed: &[], running: &BTreeSet::new() };
    assert_eq!(confirmed(&snapshot, &command, &alone).as_ref(), Ok(&command));
    command.replacements.reverse();
    assert_eq!(confirmed(&snapshot, &command, &alone).as_ref(), Ok(&command));
}

#[test]
fn a_command_that_is_proposed_and_runs_already_counts_once() {
    let text = "
pool  web types=* budget=2
node  a pool=web type=small zone=a capacity=on-demand drifted=10m
node  b pool=web type=small zone=a capacity=on-demand drifted=5m
node  room-1 cpu=2 mem=8Gi pods=10 zone=a
node  room-2 cpu=2 mem=8Gi pods=10 zone=a
pod   p cpu=1500m on=a
pod   q cpu=1500m on=b
";
    let snapshot = snapshot(&format!("{WORLD}{text}"));
    let both = decided(&snapshot).commands.clone();
    assert!(both.len() == 2 && both.iter().all(|command| command.replacements.is_empty()), "{both:#?}");
    let running: BTreeSet<NodeId> = both[0].nodes().cloned().collect();
    let standing = Standing { proposed: &both[..1], running: &running };
    assert_eq!(confirmed(&snapshot, &both[1], &standing).as_ref(), Ok(&both[1]));
}
