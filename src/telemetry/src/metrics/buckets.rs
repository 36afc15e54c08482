//! Histogram bucket bounds, in seconds unless said otherwise (spec disruption 6).

/// The default for durations: 5 ms to 10 min, dense below one second where scheduling happens.
pub(super) const DURATION: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0, 120.0, 150.0, 300.0, 450.0, 600.0,
];

/// The default of Prometheus clients: 5 ms to 10 s.
pub(super) const DEFAULT: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Requests to the API server: 1 ms to 2.2 s, half as much again each.
pub(super) const KUBE_REQUEST: &[f64] = &growing::<20>(0.001);

/// Requests to AWS: 10 ms to 22 s, half as much again each.
pub(super) const AWS_REQUEST: &[f64] = &growing::<20>(0.01);

const fn growing<const N: usize>(first: f64) -> [f64; N] {
    let mut bounds = [first; N];
    let mut index = 1;
    while index < N {
        bounds[index] = bounds[index - 1] * 1.5;
        index += 1;
    }
    bounds
}

/// How long a cloud takes to end an instance: 1 s to 17 min, doubling.
pub(super) const INSTANCE_TERMINATION: &[f64] =
    &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// Duration of a reboot: 10 s to 21 min, doubling.
pub(super) const REBOOT: &[f64] = &[10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1280.0];

/// How long a claim takes to end, drain included: 1 s to 34 min, doubling.
pub(super) const CLAIM_TERMINATION: &[f64] =
    &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0];

const MINUTE: f64 = 60.0;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// How long nodes live: 15 min to 30 days.
pub(super) const NODE_LIFETIME: &[f64] = &[
    15.0 * MINUTE,
    30.0 * MINUTE,
    45.0 * MINUTE,
    HOUR,
    2.0 * HOUR,
    4.0 * HOUR,
    6.0 * HOUR,
    8.0 * HOUR,
    10.0 * HOUR,
    12.0 * HOUR,
    16.0 * HOUR,
    20.0 * HOUR,
    DAY,
    2.0 * DAY,
    3.0 * DAY,
    5.0 * DAY,
    10.0 * DAY,
    15.0 * DAY,
    20.0 * DAY,
    25.0 * DAY,
    30.0 * DAY,
];

/// Scores of the `Balanced` policy; 0.5 is the approval threshold.
pub(super) const SCORE: &[f64] = &[0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0];

/// Status conditions: half a second to 2.3 hours, doubling.
pub(super) const CONDITION: &[f64] =
    &[0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];

/// Reconcile times of the controller runtime.
pub(super) const RECONCILE: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
];

/// Times of work queues as the controller runtime has them: 10 ns to 1,000 s, times ten.
pub(super) const QUEUE: &[f64] = &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

/// Repeated requests.
pub(super) const RETRIES: &[f64] = &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];

/// Requests merged into one cloud call.
pub(super) const BATCH_SIZE: &[f64] = &[
    1.0, 2.0, 4.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 125.0,
    150.0, 175.0, 200.0, 225.0, 250.0, 275.0, 300.0, 350.0, 400.0, 450.0, 500.0, 550.0, 600.0, 700.0, 800.0,
    900.0, 1000.0,
];
