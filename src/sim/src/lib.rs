//! A virtual-time world around the production code.
