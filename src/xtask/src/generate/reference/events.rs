//! The page of events.

use std::time::Duration;

use karpenter_telemetry::events::reason::reference;

use super::table;

/// The page below its title.
pub(super) fn body() -> String {
    let rows = reference().into_iter().map(|(reason, meaning)| {
        let rate = reason.rate().map(|rate| format!(", {}/s with bursts of {}", rate.per_second, rate.burst));
        let unchanged = reason.unchanged_period();
        let unchanged = (unchanged > reason.period()).then(|| format!(", {} unchanged", period(unchanged)));
        let suppressed = period(reason.period());
        let repeated = format!("{suppressed}{}{}", unchanged.unwrap_or_default(), rate.unwrap_or_default());
        vec![
            format!("`{}`", reason.name()),
            reason.kinds().join(", "),
            reason.severity().as_str().to_owned(),
            repeated,
            meaning.to_owned(),
        ]
    });
    format!("{INTRODUCTION}{}", table(&["reason", "about", "type", "suppressed for", "meaning"], rows))
}

fn period(period: Duration) -> String {
    let seconds = period.as_secs();
    match period {
        Duration::ZERO => "never".to_owned(),
        _ if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        _ => format!("{seconds} s"),
    }
}

const INTRODUCTION: &str = "\
Events have the component `karpenter` and are about the object they concern: `kubectl describe` shows them. Reasons and
types are those of the reference v1.15; what it does not have says so. An event equal to one that was written is
suppressed for the time given, for longer where it also says the same; then it raises the count of the first.

Besides these, every change of a status condition of a NodeClaim, NodePool, Node or EC2NodeClass is an event whose
reason is the type of the condition, never suppressed.

";
