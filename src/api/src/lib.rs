//! CRD types, labels, conditions, hashes and conversion to the model.
