//! Faults on demand: the nth call of an operation fails, hangs, or works without the caller getting its
//! answer.

use std::time::Duration;

use jiff::Timestamp;

use karpenter_aws_api::Error;

/// A fault to inject. Without narrowing it hits every call of the operation until removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    operation: String,
    subject: Option<String>,
    skip: u32,
    times: Option<u32>,
    until: Option<Timestamp>,
    effect: Effect,
}

/// Effect of a fault on a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// AWS answers with this error code and text; nothing happens.
    Fail {
        /// AWS error code.
        code: String,
        /// AWS text.
        message: String,
    },
    /// The call is carried out, but its answer is lost: the caller sees a transport error.
    LoseAnswer,
    /// The call is carried out after this long.
    Delay(Duration),
}

impl Fault {
    /// The operation fails with an error code.
    pub fn fail(operation: &str, code: &str) -> Self {
        let effect = Effect::Fail { code: code.to_owned(), message: format!("injected {code}") };
        Self::new(operation, effect)
    }

    /// The operation is carried out, but its answer is lost.
    pub fn lose_answer(operation: &str) -> Self {
        Self::new(operation, Effect::LoseAnswer)
    }

    /// The operation takes this long.
    pub fn delay(operation: &str, by: Duration) -> Self {
        Self::new(operation, Effect::Delay(by))
    }

    /// Any effect on an operation; `*` is every operation.
    pub fn new(operation: &str, effect: Effect) -> Self {
        Self { operation: operation.to_owned(), subject: None, skip: 0, times: None, until: None, effect }
    }

    /// Sets the text of AWS, where classification depends on it.
    #[must_use]
    pub fn saying(mut self, text: &str) -> Self {
        if let Effect::Fail { message, .. } = &mut self.effect {
            text.clone_into(message);
        }
        self
    }

    /// Limits the fault to this number of calls.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Begins the fault after this number of calls have passed unharmed.
    #[must_use]
    pub fn after(mut self, calls: u32) -> Self {
        self.skip = calls;
        self
    }

    /// Ends it at this instant.
    #[must_use]
    pub fn until(mut self, end: Timestamp) -> Self {
        self.until = Some(end);
        self
    }

    /// Narrows it to calls whose subject contains this text.
    #[must_use]
    pub fn about(mut self, subject: &str) -> Self {
        self.subject = Some(subject.to_owned());
        self
    }

    fn concerns(&self, operation: &str, subject: &str, now: Timestamp) -> bool {
        (self.operation == "*" || self.operation == operation)
            && self.subject.as_ref().is_none_or(|part| subject.contains(part.as_str()))
            && self.until.is_none_or(|end| now < end)
            && self.times != Some(0)
    }
}

/// The faults in force, first match wins.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    pub(super) fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The effect on this call, if any; counts it.
    pub(super) fn strike(&mut self, operation: &str, subject: &str, now: Timestamp) -> Option<Effect> {
        let fault = self.0.iter_mut().find(|fault| fault.concerns(operation, subject, now))?;
        if fault.skip > 0 {
            fault.skip -= 1;
            return None;
        }
        if let Some(times) = &mut fault.times {
            *times -= 1;
        }
        Some(fault.effect.clone())
    }
}

/// The error a caller sees when the answer is lost.
pub(super) fn lost(operation: &'static str, subject: &str) -> Error {
    Error::transient(operation, subject, "connection closed before the answer arrived")
}

/// A token bucket, as EC2 throttles: `burst` calls at once, refilled at `per_second`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    burst: u32,
    per_second: u32,
    /// Thousandths of a call.
    level: u64,
    filled_at: Timestamp,
}

impl Bucket {
    pub(super) fn full(burst: u32, per_second: u32, now: Timestamp) -> Self {
        Self { burst, per_second, level: u64::from(burst) * 1000, filled_at: now }
    }

    /// Takes one call out; false when throttled.
    pub(super) fn take(&mut self, now: Timestamp) -> bool {
        let millis = u64::try_from(now.duration_since(self.filled_at).as_millis()).unwrap_or(0);
        self.level = (self.level + millis.saturating_mul(u64::from(self.per_second)))
            .min(u64::from(self.burst) * 1000);
        self.filled_at = now;
        if self.level < 1000 {
            return false;
        }
        self.level -= 1000;
        true
    }
}
