//! The planner: a snapshot in, a plan and a report out.
