//! Exit codes beside success and failure.

/// Of a check that has found damage.
pub(super) const DAMAGED: u8 = 3;
