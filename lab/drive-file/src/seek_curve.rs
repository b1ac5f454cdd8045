//! Seek time against distance: a table of measured points, or a formula.

use crate::spec::SeekCurve;

/// The curve at `distance`, which is not 0, in ms.
pub fn curve_ms(curve: &SeekCurve, distance: u32) -> f64 {
    let d = f64::from(distance);
    match curve {
        SeekCurve::Table(points) => {
            let at = points.partition_point(|(cylinders, _)| *cylinders < distance);
            // Beyond the last point the line through the last two continues.
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
