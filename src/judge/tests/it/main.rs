//! Worlds before the judge: those that once showed a difference, and fresh ones.

mod stand_in;
mod worlds;
