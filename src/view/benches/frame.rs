//! Cost of one frame at 5,000 nodes and 50,000 pods, and the memory that such a cluster takes. Ten frames a second leave
//! 100 ms for each.
//!
//! `cargo bench -p karpenter-view --bench frame`

use std::sync::Arc;

use criterion::Criterion;
use jiff::Timestamp;
use karpenter_model::Price;
use karpenter_view::{CostHistory, Filter, PriceBook, Prices, Scene, Sort, SortBy, Style, Ui};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

#[path = "../tests/it/large.rs"]
mod large;

const NODES: usize = 5_000;

fn now() -> Timestamp {
    Timestamp::from_second(1_767_355_200).expect("a time of this century")
}

fn main() {
    let mut world = None;
    let held = allocation_counter::measure(|| world = Some(large::cluster(NODES)));
    let world = world.expect("it was made");
    #[expect(clippy::print_stdout, reason = "the figure is what the bench is for")]
    {
        println!("memory/{NODES} nodes: {} MB", held.bytes_current / 1_000_000);
    }
    let book: PriceBook = Arc::new(|kind, _, capacity| {
        Some(Price::from_nanos(if kind == "m5.xlarge" && capacity == "spot" {
            80_500_000
        } else {
            214_000_000
        }))
    });
    let prices = Prices::Known(book);
    let mut history = CostHistory::default();
    for minutes in (0..60).rev() {
        let at = now() - jiff::SignedDuration::from_mins(minutes);
        history.record(at, Price::from_nanos(500_000_000_000 + minutes * 1_000_000_000));
    }
    let scene = Scene {
        world: &world,
        prices: &prices,
        history: &history,
        troubles: &[],
        details: None,
        cluster: "large",
        complete: true,
        now: now(),
    };
    let cases = [
        ("80x24", (80, 24), SortBy::Name, "", false),
        ("200x50", (200, 50), SortBy::Name, "", false),
        ("200x50 by cpu", (200, 50), SortBy::Cpu, "", false),
        ("200x50 filtered by label", (200, 50), SortBy::Age, "karpenter.k8s.aws/fact-7=3 pool=pool-1", false),
        ("200x50 in pools", (200, 50), SortBy::Name, "", true),
    ];
    let mut criterion = Criterion::default().configure_from_args();
    for (name, (width, height), by, filter, by_pool) in cases {
        let mut ui = Ui::new(Sort { by, reversed: false }, Filter::new(filter), by_pool);
        let area = Rect::new(0, 0, width, height);
        let style = Style { colours: true, ascii: false };
        criterion.bench_function(&format!("frame/{name}"), |bench| {
            bench.iter(|| {
                let mut buffer = Buffer::empty(area);
                karpenter_view::draw(&scene, &mut ui, style, area, &mut buffer);
                buffer
            });
        });
    }
    criterion.final_summary();
}
