//! Metric names, events, the pass wrapper and logging.
