//! Operations that a stack allows, from its status alone.

/// Situation of a stack, as far as it matters for the next operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Situation {
    /// There is none, or one that holds nothing: only change sets were made for it.
    Absent,
    /// At rest; can be changed.
    Settled,
    /// Its creation failed. It can only be deleted, which loses nothing: it never worked.
    FailedCreation,
    /// Something is being done to it, by an earlier run or by another client.
    Busy,
    /// A change failed, and so did taking it back, which has to be done first.
    StuckRollback,
    /// Its deletion failed; what is left of it can only be deleted.
    FailedDeletion,
}

impl Situation {
    /// Statuses that AWS may invent count as at rest: its refusal of a change set is then the error the user sees.
    pub fn of(status: &str) -> Self {
        match status {
            "REVIEW_IN_PROGRESS" | "DELETE_COMPLETE" => Self::Absent,
            "CREATE_FAILED" | "ROLLBACK_COMPLETE" | "ROLLBACK_FAILED" => Self::FailedCreation,
            "UPDATE_ROLLBACK_FAILED" => Self::StuckRollback,
            "DELETE_FAILED" => Self::FailedDeletion,
            _ if status.ends_with("_IN_PROGRESS") => Self::Busy,
            _ => Self::Settled,
        }
    }

    /// Returns the operation that has to happen before the stack can be changed; `None` when none has to.
    pub fn first(self) -> Option<&'static str> {
        match self {
            Self::Absent | Self::Settled => None,
            Self::FailedCreation => Some("delete what is left of a creation that failed"),
            Self::Busy => Some("wait for what is being done to it"),
            Self::StuckRollback => Some("continue the rollback of a change that failed"),
            Self::FailedDeletion => Some("delete what is left of it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_cloudformation_has_leads_somewhere() {
        use Situation::{Absent, Busy, FailedCreation, FailedDeletion, Settled, StuckRollback};
        for (status, situation) in [
            ("CREATE_IN_PROGRESS", Busy),
            ("CREATE_FAILED", FailedCreation),
            ("CREATE_COMPLETE", Settled),
            ("ROLLBACK_IN_PROGRESS", Busy),
            ("ROLLBACK_FAILED", FailedCreation),
            ("ROLLBACK_COMPLETE", FailedCreation),
            ("DELETE_IN_PROGRESS", Busy),
            ("DELETE_FAILED", FailedDeletion),
            ("DELETE_COMPLETE", Absent),
            ("UPDATE_IN_PROGRESS", Busy),
            ("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", Busy),
            ("UPDATE_COMPLETE", Settled),
            ("UPDATE_FAILED", Settled),
            ("UPDATE_ROLLBACK_IN_PROGRESS", Busy),
            ("UPDATE_ROLLBACK_FAILED", StuckRollback),
            ("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS", Busy),
            ("UPDATE_ROLLBACK_COMPLETE", Settled),
            ("REVIEW_IN_PROGRESS", Absent),
            ("IMPORT_IN_PROGRESS", Busy),
            ("IMPORT_COMPLETE", Settled),
            ("IMPORT_ROLLBACK_IN_PROGRESS", Busy),
            ("IMPORT_ROLLBACK_FAILED", Settled),
            ("IMPORT_ROLLBACK_COMPLETE", Settled),
        ] {
            assert_eq!(Situation::of(status), situation, "{status}");
        }
    }
}
