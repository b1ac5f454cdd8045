//! How long the arm takes to move: a table of measured points, or a formula, for reads and for writes.

use crate::spec::{SeekCurve, SeekSpec};
use crate::timing::nanos;
use tonearm_base::Nanos;

/// Times for every distance, so that a look-up is all.
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

    /// Time from one track to another. A move that is none costs nothing, not even for a write.
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

/// The curve at `distance`, which is not 0, in ms.
pub fn curve_ms(curve: &SeekCurve, distance: u32) -> f64 {
    let d = f64::from(distance);
    match curve {
        SeekCurve::Table(points) => {
            let at = points.partition_point(|(cylinders, _)| *cylinders < distance);
            // Beyond the last point the last two lead on.
            let at = at.clamp(1, points.len().max(2) - 1);
            let Some((&(d1, t1), &(d2, t2))) = points.get(at - 1).zip(points.get(at)) else {
                return points[0].1;
            };
            if distance <= d1 {
                return t1;
            }
            t1 + (t2 - t1) * (d - f64::from(d1)) / f64::from(d2 - d1)
        }
        SeekCurve::Formula {
            first_ms,
            below,
            root,
            above,
        } => match first_ms.get(distance as usize - 1) {
            Some(ms) => *ms,
            None if distance < *below => root.0 + root.1 * d.sqrt(),
            None => above.0 + above.1 * d,
        },
    }
}
