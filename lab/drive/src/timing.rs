//! Times of drive files.

use tonearm_base::Nanos;

/// A time of a drive file.
pub(crate) fn nanos(ms: f64) -> Nanos {
    Nanos((ms * 1e6).round() as u64)
}
