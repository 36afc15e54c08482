//! Faults of single requests, drawn from the random stream of the port that a request passes; none once all faults have stopped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use karpenter_aws_api::id::Zone;
use parking_lot::Mutex;

use crate::history::{Fault, History};
use crate::seed::{Seed, one_in};

/// Fault injector: the kinds of faults that are possible now, for both ports. Clones share them.
#[derive(Clone)]
pub(crate) struct FaultInjector {
    seed: Seed,
    possible: Arc<Mutex<BTreeSet<Fault>>>,
    hidden: Arc<Mutex<BTreeSet<Hidden>>>,
}

/// Resources that EC2 does not find.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hidden {
    /// Any image.
    Images,
    /// Any capacity reservation.
    Reservations,
    Subnets(Zone),
}

impl FaultInjector {
    /// Returns the injector for the faults of a history.
    pub(crate) fn of(history: &Arc<History>) -> Self {
        let possible = Arc::new(Mutex::new(history.faults.clone()));
        Self { seed: Seed(history.seed), possible, hidden: Arc::default() }
    }

    /// Switches a kind of fault on or off.
    pub(crate) fn allow(&self, fault: Fault, possible: bool) {
        let mut faults = self.possible.lock();
        if possible {
            faults.insert(fault);
        } else {
            faults.remove(&fault);
        }
    }

    /// Hides something from calls that look for it, or shows it again.
    pub(crate) fn hide(&self, what: &Hidden, hidden: bool) {
        let mut all = self.hidden.lock();
        if hidden {
            all.insert(what.clone());
        } else {
            all.remove(what);
        }
    }

    /// Ends all faults.
    pub(crate) fn clear(&self) {
        self.hidden.lock().clear();
        self.possible.lock().clear();
    }

    /// Chance of a fault: one in `n`, or 0 for never.
    fn chance(&self, fault: Fault, n: u32) -> u32 {
        if self.possible.lock().contains(&fault) { n } else { 0 }
    }

    /// The chances of a port of its own.
    pub(crate) fn port(&self, name: &str) -> Chances {
        let random = self.seed.stream(name);
        Chances { weather: self.clone(), random: Arc::new(Mutex::new(random)) }
    }
}

/// Fate of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    /// It is answered with this number, of an HTTP status or of an error of AWS, and not carried out.
    Refused(u16),
    /// It is carried out, and its answer is lost.
    Lost,
}

/// Fate and delays of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lot {
    /// Delay before it is carried out.
    pub(crate) before: Duration,
    pub(crate) fate: Fate,
    /// Between carrying out and the answer.
    pub(crate) after: Duration,
    /// Should its sender die meanwhile, it is carried out all the same.
    pub(crate) lands: bool,
}

/// Fate and delay of one event of a watch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameLot {
    pub(crate) late: Duration,
    pub(crate) twice: bool,
    pub(crate) cut: Option<Cut>,
    pub(crate) silent: bool,
}

/// Place at which a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Instead of the event.
    Between,
    /// In the middle of the event.
    Within,
}

/// The chances of one port.
#[derive(Clone)]
pub(crate) struct Chances {
    weather: FaultInjector,
    random: Arc<Mutex<Rng>>,
}

impl Chances {
    /// Draws the lot of a request to the API server; only writes meet conflicts.
    pub(crate) fn of_kube(&self, writes: bool) -> Lot {
        let chance = |fault, n| self.weather.chance(fault, n);
        self.with(|random| {
            let (before, after) = latencies(random, chance(Fault::KubeLatency, 3), 2_000);
            let refused = one_in(random, chance(Fault::KubeErrors, 25));
            let code = [409, 429, 500, 503][random.usize(..4)];
            let lost = one_in(random, chance(Fault::KubeLostAnswers, 30));
            let hangs = one_in(random, chance(Fault::KubeHangs, 150));
            let fate = match (refused && (writes || code != 409), lost) {
                (true, _) => Fate::Refused(code),
                (false, true) => Fate::Lost,
                (false, false) => Fate::Answered,
            };
            let after = if hangs { after + Duration::from_secs(random.u64(60..90)) } else { after };
            Lot { before, fate, after, lands: random.bool() }
        })
    }

    /// Draws the lot of a call of AWS.
    pub(crate) fn of_aws(&self) -> Lot {
        let chance = |fault, n| self.weather.chance(fault, n);
        self.with(|random| {
            let (before, after) = latencies(random, chance(Fault::AwsLatency, 2), 5_000);
            let refused = one_in(random, chance(Fault::AwsErrors, 12));
            let code = random.u16(..3);
            let lost = one_in(random, chance(Fault::AwsLostAnswers, 12));
            let fate = match (refused, lost) {
                (true, _) => Fate::Refused(code),
                (false, true) => Fate::Lost,
                (false, false) => Fate::Answered,
            };
            Lot { before, fate, after, lands: random.bool() }
        })
    }

    /// Draws whether a description is out of date.
    pub(crate) fn stale(&self) -> bool {
        let chance = self.weather.chance(Fault::AwsStale, 4);
        self.with(|random| one_in(random, chance))
    }

    /// Returns whether something is not found.
    pub(crate) fn hides(&self, what: &Hidden) -> bool {
        self.weather.hidden.lock().contains(what)
    }

    /// Draws the reported number of free instances of a capacity reservation; `None` for the true one.
    pub(crate) fn miscounted(&self, total: u32) -> Option<u32> {
        let chance = self.weather.chance(Fault::AwsReservations, 3);
        self.with(|random| {
            let (wrong, count) = (one_in(random, chance), random.u32(..=total));
            wrong.then_some(count)
        })
    }

    /// Draws the lot of one event of a watch.
    pub(crate) fn of_frame(&self) -> FrameLot {
        let chance = |fault, n| self.weather.chance(fault, n);
        self.with(|random| {
            let late = one_in(random, chance(Fault::WatchLate, 20));
            let millis = random.u64(..10_000);
            let (cut, within) = (one_in(random, chance(Fault::WatchCuts, 60)), random.bool());
            FrameLot {
                late: Duration::from_millis(if late { millis } else { 0 }),
                twice: one_in(random, chance(Fault::WatchRepeats, 20)),
                cut: cut.then_some(if within { Cut::Within } else { Cut::Between }),
                silent: chance(Fault::WatchSilence, 1) == 1,
            }
        })
    }

    fn with<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.random.lock())
    }
}

/// A few milliseconds, which is what puts equal things into another order, and sometimes much more.
fn latencies(random: &mut Rng, chance: u32, most: u64) -> (Duration, Duration) {
    let mut one = || {
        let (slow, little, much) = (one_in(random, chance), random.u64(..12), random.u64(..most));
        Duration::from_millis(if slow { much } else { little })
    };
    (one(), one())
}
