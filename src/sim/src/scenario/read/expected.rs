//! Expectations of a scenario, checked: one subject, with bounds, at times that mean something for it.

use crate::scenario::format::{
    Cost, Disruptions, Events, Expectation, Money, Nodes, PendingTime, Pods, Realised, When,
};
use crate::scenario::value::Span;

/// Something that has to be true.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Purpose of the expectation; part of the message when it is not met.
    pub(crate) because: Option<String>,
    pub(crate) window: Window,
    pub(crate) subject: Subject,
}

/// Times at which it has to be true: at the end, if nothing is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) at: Option<Span>,
    /// Never together with `at`.
    pub(crate) when: Option<When>,
    /// From the beginning, if not given.
    pub(crate) from: Option<Span>,
    /// To the end, if not given.
    pub(crate) until: Option<Span>,
}

/// Subject of an expectation; each has a bound.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    CostPerHour(Money),
    CostTotal(Money),
    Realised(Realised),
    Nodes(Nodes),
    Pods(Pods),
    PendingTime(PendingTime),
    Disruptions(Disruptions),
    Events(Events),
}

/// Field and problem.
type Problem = (&'static str, String);

impl Expected {
    /// Checks what serde cannot: that one thing is expected, with bounds, of times that exist.
    pub(crate) fn of(given: Expectation, duration: Span) -> Result<Self, Problem> {
        let Expectation { because, at, when, from, until, .. } = given;
        let Expectation { cost, realised, nodes, pods, pending_time, disruptions, events, .. } = given;
        let others = [
            realised.map(Subject::Realised),
            nodes.map(Subject::Nodes),
            pods.map(Subject::Pods),
            pending_time.map(Subject::PendingTime),
            disruptions.map(Subject::Disruptions),
            events.map(Subject::Events),
        ];
        let mut subjects = cost.map(of_cost).into_iter().chain(others.into_iter().flatten().map(Ok));
        let (Some(subject), None) = (subjects.next(), subjects.next()) else {
            let problem = "must expect one of `cost`, `realised`, `nodes`, `pods`, `pendingTime`, `disruptions` and `events`";
            return Err(("expect", problem.to_owned()));
        };
        let subject = subject?;
        if let Some(bounds) = subject.lacks() {
            return Err((subject.field(), format!("has no bound; add {bounds}")));
        }
        let window = Window { at, when, from, until };
        window.check(&subject, duration)?;
        Ok(Self { because, window, subject })
    }

    /// Returns whether it compares the cluster with one plan for all pods.
    pub fn is_of_one_plan(&self) -> bool {
        matches!(self.subject, Subject::Realised(_))
    }

    /// Returns whether it is about money, which means nothing at prices that are not known.
    pub fn is_about_cost(&self) -> bool {
        matches!(self.subject, Subject::CostPerHour(_) | Subject::CostTotal(_))
    }
}

fn of_cost(cost: Cost) -> Result<Subject, Problem> {
    match (cost.per_hour, cost.total) {
        (Some(money), None) => Ok(Subject::CostPerHour(money)),
        (None, Some(money)) => Ok(Subject::CostTotal(money)),
        (None, None) | (Some(_), Some(_)) => {
            Err(("cost", "must have one of `perHour` and `total`".to_owned()))
        }
    }
}

impl Subject {
    /// The field of the file that names it.
    fn field(&self) -> &'static str {
        match self {
            Self::CostPerHour(_) | Self::CostTotal(_) => "cost",
            Self::Realised(_) => "realised",
            Self::Nodes(_) => "nodes",
            Self::Pods(_) => "pods",
            Self::PendingTime(_) => "pendingTime",
            Self::Disruptions(_) => "disruptions",
            Self::Events(_) => "events",
        }
    }

    /// The bounds it could have, when it has none.
    fn lacks(&self) -> Option<&'static str> {
        let of_number = |bounds: [Option<u64>; 3]| {
            (bounds.iter().any(Option::is_some), "`exactly`, `atMost` or `atLeast`")
        };
        let (bounded, bounds) = match self {
            Self::CostPerHour(it) | Self::CostTotal(it) => {
                (it.at_most.is_some() || it.at_least.is_some(), "`atMost` or `atLeast`")
            }
            Self::Realised(it) => (it.at_most.is_some(), "`atMost`"),
            Self::Nodes(it) => of_number([it.exactly, it.at_most, it.at_least]),
            Self::Pods(it) => of_number([it.exactly, it.at_most, it.at_least]),
            Self::PendingTime(it) => {
                let times = [it.p50, it.p90, it.p99, it.max];
                (times.iter().any(Option::is_some), "`p50`, `p90`, `p99` or `max`")
            }
            Self::Disruptions(it) => of_number([it.exactly, it.at_most, it.at_least]),
            Self::Events(it) => of_number([it.exactly, it.at_most, it.at_least]),
        };
        (!bounded).then_some(bounds)
    }
}

impl Window {
    /// Checks that these times mean something for `subject` and are within the scenario.
    fn check(&self, subject: &Subject, duration: Span) -> Result<(), Problem> {
        let field = subject.field();
        if matches!(subject, Subject::Realised(_)) {
            let times = [("at", self.at.is_some()), ("when", self.when.is_some())];
            let others = [("from", self.from.is_some()), ("until", self.until.is_some())];
            let given = times.into_iter().chain(others).find(|(_, given)| *given);
            return match given {
                Some((time, _)) => {
                    Err((time, "means nothing for `realised`, which is about the end".to_owned()))
                }
                None => Ok(()),
            };
        }
        let moment = matches!(subject, Subject::Nodes(_) | Subject::Pods(_) | Subject::CostPerHour(_));
        let counted = matches!(subject, Subject::Disruptions(_) | Subject::Events(_));
        if !moment && self.when.is_some() {
            return Err(("when", format!("means nothing for `{field}`, which is about a stretch of time")));
        }
        // Money is spent from the beginning to any time.
        if !moment && !matches!(subject, Subject::CostTotal(_)) && self.at.is_some() {
            return Err(("at", format!("means nothing for `{field}`, which is about a stretch of time")));
        }
        if self.at.is_some() && self.when.is_some() {
            return Err(("when", "is given together with `at`; leave one of them out".to_owned()));
        }
        if (self.from.is_some() || self.until.is_some()) && self.when.is_none() && !counted {
            return Err(("from", "needs `when: always` or `when: eventually`".to_owned()));
        }
        let times = [("at", self.at), ("from", self.from), ("until", self.until)];
        let mut times = times.into_iter().filter_map(|(field, time)| Some((field, time?)));
        if let Some((field, late)) = times.find(|(_, time)| *time > duration) {
            return Err((field, format!("is {late}, when the scenario is over after {duration}")));
        }
        if self.until.is_some_and(|until| until <= self.from.unwrap_or_default()) {
            return Err(("until", "is not after `from`".to_owned()));
        }
        Ok(())
    }
}
