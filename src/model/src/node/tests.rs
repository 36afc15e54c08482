//! The merged views at every stage of a machine.
