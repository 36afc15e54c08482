//! The cases of the bench `plan` under criterion, for the distribution of the times and for comparison with an earlier
//! run: `cargo bench -p karpenter-engine --bench criterion -- --save-baseline before`, then `--baseline before`.
//!
//! The bench `plan` checks the bars. Words after `--` select cases, as everywhere in criterion.

#[expect(dead_code, reason = "bars are the other bench's business")]
#[path = "plan/case.rs"]
mod case;

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, SamplingMode, criterion_group, criterion_main};

/// A pass takes long and always does the same work: few runs are enough, and each sample is one.
fn configuration() -> Criterion {
    let criterion = Criterion::default().sample_size(10);
    criterion.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2))
}

fn plans(criterion: &mut Criterion) {
    for (table, cases) in case::tables() {
        let mut group = criterion.benchmark_group(table);
        group.sampling_mode(SamplingMode::Flat);
        for case in cases {
            let mut snapshot = None;
            group.bench_function(&case.name, |bencher| {
                let snapshot = snapshot.get_or_insert_with(|| (case.snapshot)());
                bencher.iter(|| karpenter_engine::plan(black_box(snapshot)));
            });
        }
        group.finish();
    }
}

criterion_group!(name = benches; config = configuration(); targets = plans);
criterion_main!(benches);
