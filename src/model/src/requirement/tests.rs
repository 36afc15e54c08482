//! Exhaustive comparison with plain sets over a small universe.
