//! Faults on purpose: refusals, latency and broken watches, chosen by verb, resource and name.
//!
//! Latency is tokio time, so with a paused clock a slow API server costs nothing.

use std::time::Duration;

use parking_lot::Mutex;

use super::refusal::Refusal;
use super::signal::{Signal, Waiter};

/// Injected fault.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// 409 `Conflict`.
    Conflict,
    /// 429 with `Retry-After` in seconds.
    TooManyRequests(u32),
    /// 500.
    InternalError,
    /// Any other refusal.
    Refuse(Box<Refusal>),
    /// The request takes this much longer; then the next matching rule applies.
    Delay(Duration),
    /// The connection ends before anything is done.
    HangUp,
    /// The request is carried out, and the connection ends before the answer.
    LostAnswer,
    /// The request is carried out, and the answer comes this much later.
    LateAnswer(Duration),
}

impl Fault {
    /// A refusal with this code and reason.
    pub fn refuse(code: u16, reason: &'static str, message: &str) -> Self {
        Self::Refuse(Box::new(Refusal::new(code, reason, message)))
    }
}

/// The connection ended before an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection was closed before an answer")]
pub(crate) struct HungUp;

/// Fate of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fate {
    /// It is answered after this long.
    Answered(Duration),
    Refused(Refusal),
    Lost,
    HungUp,
}

/// Requests that a fault hits. An empty text matches everything.
#[derive(Debug, Clone)]
pub struct Rule {
    verb: String,
    resource: String,
    name: String,
    times: u32,
    one_in: u32,
}

impl Rule {
    /// A rule for one verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub fn on(verb: &str) -> Self {
        let verb = verb.to_owned();
        Self { verb, resource: String::new(), name: String::new(), times: u32::MAX, one_in: 1 }
    }

    /// A rule for every verb.
    pub fn any() -> Self {
        Self::on("")
    }

    /// Narrows to this plural resource, with a subresource as `pods/eviction`.
    #[must_use]
    pub fn resource(self, resource: &str) -> Self {
        Self { resource: resource.to_owned(), ..self }
    }

    /// Narrows to the object of this name.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// Narrows to the next `times` matching requests.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    /// Narrows to about one in `n` matching requests, by the seed of the server. 0 means every one.
    #[must_use]
    pub fn one_in(self, n: u32) -> Self {
        Self { one_in: n.max(1), ..self }
    }

    fn matches(&self, request: &Request<'_>) -> bool {
        let fits = |wanted: &str, actual: &str| wanted.is_empty() || wanted == actual;
        self.times > 0
            && fits(&self.verb, request.verb)
            && fits(&self.resource, request.resource)
            && fits(&self.name, request.name)
    }
}

/// A request as rules see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) verb: &'a str,
    pub(super) resource: &'a str,
    pub(super) name: &'a str,
}

/// All rules of one server.
pub struct Faults {
    state: Mutex<State>,
    broken_watches: Signal<String>,
}

struct State {
    rules: Vec<(Rule, Fault)>,
    random: fastrand::Rng,
}

impl Faults {
    pub(super) fn new(seed: u64) -> Self {
        let state = State { rules: Vec::new(), random: fastrand::Rng::with_seed(seed) };
        Self { state: Mutex::new(state), broken_watches: Signal::new(String::new()) }
    }

    /// Adds a rule. Rules are tried in the order they were added; the first refusal wins.
    pub fn inject(&self, rule: Rule, fault: Fault) {
        self.state.lock().rules.push((rule, fault));
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.state.lock().rules.clear();
    }

    /// Ends every open watch of a plural resource, of all resources when empty. Clients see the stream end.
    pub fn break_watches(&self, resource: &str) {
        self.broken_watches.set(resource.to_owned());
    }

    pub(super) fn watch_breaks(&self) -> Waiter<String> {
        self.broken_watches.subscribe()
    }

    /// Returns the fate of a request: the time it waits, and the outcome then.
    pub(super) fn strike(&self, request: Request<'_>) -> (Duration, Fate) {
        let mut delay = Duration::ZERO;
        let state = &mut *self.state.lock();
        for (rule, fault) in &mut state.rules {
            if !rule.matches(&request) || state.random.u32(..rule.one_in) != 0 {
                continue;
            }
            rule.times = if rule.times == u32::MAX { u32::MAX } else { rule.times - 1 };
            match fault {
                Fault::Delay(more) => delay += *more,
                Fault::HangUp => return (delay, Fate::HungUp),
                Fault::LostAnswer => return (delay, Fate::Lost),
                Fault::LateAnswer(late) => return (delay, Fate::Answered(*late)),
                other => return (delay, Fate::Refused(refusal(other, request))),
            }
        }
        (delay, Fate::Answered(Duration::ZERO))
    }
}

fn refusal(fault: &Fault, request: Request<'_>) -> Refusal {
    match fault {
        Fault::Conflict => {
            let on = format!("{} \"{}\"", request.resource, request.name);
            let message = format!("Operation cannot be fulfilled on {on}: injected conflict");
            Refusal::new(409, "Conflict", message)
        }
        Fault::TooManyRequests(seconds) => {
            Refusal::too_many_requests("too many requests, please try again later", Some(*seconds))
        }
        Fault::Refuse(refusal) => Refusal::clone(refusal),
        _ => Refusal::internal("an injected error on the server"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request<'static> = Request { verb: "update", resource: "nodes", name: "n1" };

    #[test]
    fn a_rule_strikes_as_often_as_it_says() {
        let faults = Faults::new(1);
        faults.inject(Rule::on("update").resource("nodes").times(2), Fault::Conflict);
        let refused = |fate| matches!(fate, Fate::Refused(refusal) if refusal.code == 409);
        let struck: Vec<_> = (0..3).map(|_| refused(faults.strike(REQUEST).1)).collect();
        assert_eq!(struck, [true, true, false]);
    }

    #[test]
    fn other_requests_are_spared() {
        let faults = Faults::new(1);
        faults.inject(Rule::on("update").name("n2"), Fault::Conflict);
        faults.inject(Rule::on("get"), Fault::InternalError);
        faults.inject(Rule::any().resource("nodes/status"), Fault::InternalError);
        assert_eq!(faults.strike(REQUEST), (Duration::ZERO, Fate::Answered(Duration::ZERO)));
    }

    #[test]
    fn delays_add_up_before_a_refusal() {
        let faults = Faults::new(1);
        faults.inject(Rule::any(), Fault::Delay(Duration::from_secs(2)));
        faults.inject(Rule::any(), Fault::Delay(Duration::from_secs(3)));
        faults.inject(Rule::any(), Fault::TooManyRequests(1));
        let (delay, fate) = faults.strike(REQUEST);
        assert_eq!(delay, Duration::from_secs(5));
        assert!(matches!(fate, Fate::Refused(refusal) if refusal.retry_after_seconds == Some(1)));
    }
}
