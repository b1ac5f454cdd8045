//! Experiments on simulated drives: named, described, seeded.
