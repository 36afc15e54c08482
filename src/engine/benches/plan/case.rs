//! The cases that are measured, by table, with the bar each must stay under.

use karpenter_model::Snapshot;
use karpenter_testkit::world::{self, Mix};

/// Limit of a case.
#[derive(Clone, Copy)]
pub(crate) enum Bar {
    /// No bar; the figure is for comparison.
    None,
    Milliseconds(u32),
    /// Percent of the time of the first case of the table.
    Percent(u32),
}

/// One snapshot to plan.
pub(crate) struct Case {
    /// Name of the case in the table.
    pub(crate) name: String,
    pub(crate) bar: Bar,
    /// Builds the snapshot; the same every time.
    pub(crate) snapshot: Box<dyn Fn() -> Snapshot>,
}

/// All tables, by name.
pub(crate) fn tables() -> Vec<(&'static str, Vec<Case>)> {
    vec![
        ("mixes", mixes()),
        ("matrix", matrix()),
        ("nodes", nodes()),
        ("pods", pods()),
        ("pools", pools()),
        ("classes", classes()),
    ]
}

fn case(name: impl Into<String>, bar: Bar, snapshot: impl Fn() -> Snapshot + 'static) -> Case {
    Case { name: name.into(), bar, snapshot: Box::new(snapshot) }
}

/// Returns a case for each mix of pods.
fn mixes() -> Vec<Case> {
    use Mix::{Diverse, Generic, Mixed, Selectors, Taints, Topology, Volumes};
    let mixes = [Generic, Selectors, Taints, Mixed, Volumes, Topology, Diverse];
    let case =
        |mix| case(format!("{mix:?}"), Bar::Milliseconds(100), move || world::pending(10_000, 400, mix, 1));
    mixes.into_iter().map(case).collect()
}

/// The mix of everything, in every size: few and many pods, types and machines that exist.
fn matrix() -> Vec<Case> {
    let mut cases = Vec::new();
    for nodes in [0, 1_000, 10_000] {
        for types in [400, 1_000] {
            for pods in [1, 50, 100, 500, 1_000, 5_000, 10_000, 20_000, 50_000] {
                let bar = if (pods, types, nodes) == (10_000, 400, 0) { 100 } else { 2_000 };
                let name = format!("{pods} x {types} on {nodes}");
                cases.push(case(name, Bar::Milliseconds(bar), move || {
                    world::busy(nodes, 5, pods, types, Mix::Diverse, 1)
                }));
            }
        }
    }
    cases
}

/// Other combinations on machines that exist.
fn nodes() -> Vec<Case> {
    let sizes = [(1_000, 10_000), (10_000, 1), (10_000, 10_000), (10_000, 50_000)];
    let cases = [Mix::Mixed, Mix::Topology].into_iter().flat_map(|mix| sizes.map(|size| (mix, size)));
    let case = |(mix, (nodes, pods))| {
        case(format!("{pods} on {nodes} {mix:?}"), Bar::Milliseconds(2_000), move || {
            world::busy(nodes, 5, pods, 1_000, mix, 1)
        })
    };
    cases.map(case).collect()
}

/// One pool or many, for the same pods.
fn pools() -> Vec<Case> {
    let case = |pools| {
        case(format!("{pools} pools"), Bar::Percent(200), move || world::pools(pools, 10_000, 400, 1))
    };
    [1, 10, 200].map(case).into()
}

/// More pods of the same classes: no worse than n log n.
fn pods() -> Vec<Case> {
    let case =
        |(pods, bar)| case(format!("{pods} pods"), bar, move || world::pending(pods, 400, Mix::Mixed, 1));
    [(10_000, Bar::None), (20_000, Bar::Percent(215)), (50_000, Bar::Percent(587))].map(case).into()
}

/// More classes of the same number of pods: no worse than linear.
fn classes() -> Vec<Case> {
    let case = |classes: usize| {
        let percent = u32::try_from(classes / 10).unwrap_or(u32::MAX);
        case(format!("{classes} classes"), Bar::Percent(percent), move || {
            world::classes(classes, 10_000, 400, 1)
        })
    };
    [1_000, 2_000, 5_000, 10_000].map(case).into()
}
