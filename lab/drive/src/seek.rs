//! Seek times of reads and of writes: a table of measured points, or a formula.

use crate::timing::nanos;
use tonearm_base::Nanos;
use tonearm_drive_file::{SeekSpec, curve_ms};

/// Seek times for every distance, computed in advance.
pub struct Seek {
    /// By distance in cylinders; 0 at distance 0.
    times: Vec<u32>,
    head_switch: u64,
    /// A new access where the heads are.
    pub same_track: Nanos,
    write_settle: i64,
}

impl Seek {
    /// The curve of `spec` for distances up to `cylinders`.
    pub fn new(spec: &SeekSpec, cylinders: u32) -> Self {
        let time = |distance: u32| match distance {
            0 => 0,
            _ => nanos(curve_ms(&spec.curve, distance).max(0.0)).0 as u32,
        };
        Self {
            times: (0..cylinders).map(time).collect(),
            same_track: nanos(spec.same_track_ms),
            head_switch: nanos(spec.head_switch_ms).0,
            write_settle: (spec.write_settle_ms * 1e6).round() as i64,
        }
    }

    /// Time from one track to another. Without a move it is 0, even for a write.
    #[inline]
    pub fn time(&self, distance: u32, other_head: bool, write: bool) -> Nanos {
        let seek = u64::from(self.times[distance as usize]);
        let move_time = if other_head {
            seek.max(self.head_switch)
        } else {
            seek
        };
        if write && move_time != 0 {
            return Nanos(move_time.saturating_add_signed(self.write_settle));
        }
        Nanos(move_time)
    }
}
