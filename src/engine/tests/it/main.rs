//! The planner from outside: golden scenarios and properties over generated worlds.

mod scenarios;
