"""The parts of self_test.py: one module per subject, `kit` for all."""
