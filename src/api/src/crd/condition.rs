//! The schema of status conditions, in the strict form of Kubernetes and in the relaxed form of NodeClaims.

use super::pattern::{CONDITION_REASON, CONDITION_TYPE};
use super::schema::Schema;

/// A list of conditions, one per type.
pub(super) fn conditions() -> Schema {
    let item = item()
        .required("message", message())
        .required("reason", reason().length(1..=1024).pattern(CONDITION_REASON));
    Schema::list(item).describe("Observed aspects of the object.")
}

/// A list of conditions whose reason and message may be missing or empty, as old versions wrote them
/// (spec scheduling 4).
pub(super) fn relaxed_conditions() -> Schema {
    let item = item()
        .optional("message", message())
        .optional("reason", reason().length(..=1024).pattern("^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$"));
    Schema::list(item).describe("Observed aspects of the object.")
}

fn item() -> Schema {
    Schema::object()
        .required("lastTransitionTime", Schema::date_time().describe("When status last changed."))
        .required("status", Schema::string().one_of(["True", "False", "Unknown"]))
        .required("type", Schema::string().length(..=316).pattern(CONDITION_TYPE))
        .optional(
            "observedGeneration",
            Schema::int64().within(0..).describe("Generation of the object this was computed for."),
        )
}

fn message() -> Schema {
    Schema::string().length(..=32768).describe("Why, for people.")
}

fn reason() -> Schema {
    Schema::string().describe("Why, for machines.")
}
