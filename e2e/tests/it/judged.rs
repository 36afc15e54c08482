//! Random worlds on the whole control plane: its API server admits, its controllers make pods and claims, its scheduler
//! binds. It must come to what the scheduler's code alone comes to, on which far more worlds are tried (docs/testing.md).

mod control_plane;

use anyhow::{Context, Result};
use karpenter_e2e::cluster::local::{LocalCluster, Options};
use karpenter_judge::catalogue::Catalogue;
use karpenter_judge::scheduler::Scheduler;
use karpenter_judge::trial::hold;
use karpenter_judge::world;
use karpenter_testkit::number;
use tokio::runtime::Handle;

use control_plane::ControlPlane;

/// Number of worlds that are tried, unless configured otherwise.
const WORLDS: u64 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn the_control_plane_binds_as_the_schedulers_code_alone_does() {
    let cluster = LocalCluster::start(Options::default()).await.expect("the control plane starts");
    let (client, handle) = (cluster.client(), Handle::current());
    let tried = tokio::task::spawn_blocking(move || compare(ControlPlane::new(client, handle)));
    let (summary, differ) = tried.await.unwrap().expect("worlds are planned and bound");
    eprintln!("{summary}");
    assert!(differ.is_empty(), "{summary}\n{}", differ.join("\n"));
    cluster.stop().await.expect("all processes end");
}

/// Compares control plane and code; returns a summary, and the worlds in which they disagree.
fn compare(mut whole: ControlPlane) -> Result<(String, Vec<String>)> {
    let catalogue = Catalogue::read()?;
    let mut code = Scheduler::start()?;
    let first = number("FRESH_SEED").unwrap_or(1);
    let worlds = number("JUDGED_ON_CONTROL_PLANE").unwrap_or(WORLDS);
    let began = std::time::Instant::now();
    let (mut differ, mut open, mut planned, mut otherwise) = (Vec::new(), 0, 0, 0);
    for seed in first..first + worlds {
        let objects = world::draw(seed);
        let by_code = hold(&objects, seed, &catalogue, &mut code)?;
        let by_whole = hold(&objects, seed, &catalogue, &mut whole);
        whole.clear()?;
        let by_whole = by_whole.with_context(|| format!("world {seed}"))?;
        planned += by_whole.planned;
        // The scheduler draws among nodes that are as good, so pods may be elsewhere, and others be planned for.
        otherwise += usize::from((by_code.taken, by_code.planned) != (by_whole.taken, by_whole.planned));
        match (by_code.differences.is_empty(), by_whole.differences.is_empty()) {
            (_, true) => {}
            (false, false) => open += 1,
            (true, false) => {
                differ.push(format!("world {seed}: code {by_code:?}; control plane {by_whole:?}"));
            }
        }
    }
    let seconds = began.elapsed().as_secs();
    let differing = differ.len();
    let summary = format!(
        "{worlds} worlds on the control plane in {seconds} s, {planned} pods planned; {open} differ from their plan by the code \
         as well, {differing} on the control plane alone; in {otherwise} other pods were planned for"
    );
    Ok((summary, differ))
}
