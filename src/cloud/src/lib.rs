//! The provider port, its in-memory provider and the conformance suite.
