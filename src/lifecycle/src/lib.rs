//! Step functions for one claim or node.
