//! The cases that are measured, by table, with the bar each must stay under.

use karpenter_model::Snapshot;
use karpenter_testkit::world::{self, Mix};

/// What a case must not exceed.
#[derive(Clone, Copy)]
pub(crate) enum Bar {
    /// Nothing; the figure is for comparison.
    None,
    /// So many milliseconds.
    Milliseconds(u32),
    /// So many times the first case of the table.
    Times(u32),
}

/// One snapshot to plan.
pub(crate) struct Case {
    /// What it is, for the table.
    pub(crate) name: String,
    /// What it must not exceed.
    pub(crate) bar: Bar,
    /// Builds the snapshot; the same every time.
    pub(crate) snapshot: Box<dyn Fn() -> Snapshot>,
}

/// All tables, by name.
pub(crate) fn tables() -> Vec<(&'static str, Vec<Case>)> {
    vec![
        ("mixes", mixes()),
        ("sizes", sizes()),
        ("nodes", nodes()),
        ("pools", pools()),
        ("classes", classes()),
    ]
}

fn case(name: impl Into<String>, bar: Bar, snapshot: impl Fn() -> Snapshot + 'static) -> Case {
    Case { name: name.into(), bar, snapshot: Box::new(snapshot) }
}

/// What pods ask for.
fn mixes() -> Vec<Case> {
    use Mix::{Diverse, Generic, Mixed, Selectors, Taints, Topology, Volumes};
    let mixes = [Generic, Selectors, Taints, Mixed, Volumes, Topology, Diverse];
    let case =
        |mix| case(format!("{mix:?}"), Bar::Milliseconds(100), move || world::pending(10_000, 400, mix, 1));
    mixes.into_iter().map(case).collect()
}

/// More pods and more types, on an empty cluster.
fn sizes() -> Vec<Case> {
    let sizes = [400, 1_000]
        .into_iter()
        .flat_map(|types| [1, 100, 1_000, 10_000, 50_000].into_iter().map(move |pods| (pods, types)));
    let case = |(pods, types)| {
        case(format!("{pods} x {types}"), Bar::None, move || world::pending(pods, types, Mix::Mixed, 1))
    };
    sizes.map(case).collect()
}

/// The same on machines that exist.
fn nodes() -> Vec<Case> {
    let sizes = [(1_000, 10_000), (10_000, 1), (10_000, 10_000), (10_000, 50_000)];
    let cases =
        [Mix::Mixed, Mix::Topology, Mix::Diverse].into_iter().flat_map(|mix| sizes.map(|size| (mix, size)));
    let case = |(mix, (nodes, pods))| {
        case(format!("{pods} on {nodes} {mix:?}"), Bar::Milliseconds(2_000), move || {
            world::busy(nodes, 5, pods, 1_000, mix, 1)
        })
    };
    cases.map(case).collect()
}

/// One pool or many, for the same pods.
fn pools() -> Vec<Case> {
    let case =
        |pools| case(format!("{pools} pools"), Bar::Times(2), move || world::pools(pools, 10_000, 400, 1));
    [1, 10, 200].map(case).into()
}

/// Few or many different pods.
fn classes() -> Vec<Case> {
    let case = |classes| {
        case(format!("{classes} classes"), Bar::None, move || world::classes(classes, 10_000, 400, 1))
    };
    [10, 100, 1_000, 10_000].map(case).into()
}
