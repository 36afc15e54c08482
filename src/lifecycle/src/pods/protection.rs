//! The events about `karpenter.sh/do-not-disrupt` on a pod (spec disruption 0.5).
//!
//! The annotation is judged afresh in every pass; the recorder drops repetitions. That a protection has ended is news
//! for a while and not for the rest of the pod's life.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::names::reason;
use karpenter_model::{DoNotDisrupt, Pod};

use crate::step::{About, Event, PodRef};

/// Time after the end of a protection in which the end is reported.
const NEWS: Duration = Duration::from_mins(10);

/// The event that goes with a pod's annotation; none without one, nor with `true`.
pub fn event(pod: &Pod, now: Timestamp) -> Option<Event> {
    let about = About::Pod(PodRef::of(pod));
    match &pod.do_not_disrupt {
        DoNotDisrupt::No | DoNotDisrupt::Always => None,
        DoNotDisrupt::Invalid(text) => {
            let message = format!(
                "invalid do-not-disrupt value \"{text}\": use \"true\" or a positive duration such as \"30m\""
            );
            Some(Event::new(about, reason::INVALID_DO_NOT_DISRUPT, message.clone()).on(message))
        }
        DoNotDisrupt::For(duration) => {
            // Until the pod has started there is no end to tell.
            let end = pod.started_at? + *duration;
            if pod.blocks_disruption(now) {
                let message = format!("pod is protected from disruption until {end}");
                return Some(Event::new(about, reason::DO_NOT_DISRUPT_UNTIL, message).on(end.to_string()));
            }
            let message = format!("pod is no longer protected from disruption since {end}");
            let event = Event::new(about, reason::DO_NOT_DISRUPT_ELAPSED, message);
            (since(end, now) < NEWS).then_some(event)
        }
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::PodKey;

    use super::*;
    use crate::fixture::at;

    #[test]
    fn each_form_of_the_annotation_has_its_event() {
        let minute = || DoNotDisrupt::For(Duration::from_mins(1));
        let table = [
            (DoNotDisrupt::No, Some(0), None),
            (DoNotDisrupt::Always, Some(0), None),
            (DoNotDisrupt::Invalid("0s".to_owned()), None, Some("InvalidDoNotDisruptAnnotation")),
            (minute(), None, None),
            (minute(), Some(50), Some("DoNotDisruptUntil")),
            (minute(), Some(40), Some("DoNotDisruptGracePeriodElapsed")),
            (minute(), Some(100 - 60 - 599), Some("DoNotDisruptGracePeriodElapsed")),
            (minute(), Some(100 - 60 - 600), None),
        ];
        for (do_not_disrupt, started, expected) in table {
            let mut pod = Pod::pending(PodKey::new("ns", "a"), "uid", at(0));
            pod.do_not_disrupt = do_not_disrupt;
            pod.started_at = started.map(at);
            let told = event(&pod, at(100)).map(|event| event.reason);
            assert_eq!(told, expected, "{:?} started {started:?}", pod.do_not_disrupt);
        }
    }
}
