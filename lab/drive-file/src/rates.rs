//! What the paper on HyLog takes of a drive: the time to find a place, and the rate of long transfers (Table 1).

use crate::seek_curve::curve_ms;
use crate::spec::DiskSpec;

impl DiskSpec {
    /// Seconds from one random place to another: the mean seek and half a revolution.
    pub fn positioning(&self) -> f64 {
        let cylinders = u64::from(self.cylinders());
        // Of all pairs of cylinders, 2 (n - d) lie d apart.
        let weighted = (1..cylinders).map(|distance| {
            let pairs = 2 * (cylinders - distance);
            pairs as f64 * curve_ms(&self.seek.curve, distance as u32)
        });
        let seek_ms = weighted.sum::<f64>() / (cylinders * cylinders) as f64;
        (seek_ms + self.revolution_ms() / 2.0) / 1e3
    }

    /// Bytes a second over whole cylinders, with the skews between their tracks; the mean of all cylinders.
    pub fn sustained_rate(&self) -> f64 {
        let heads = f64::from(self.geometry.heads);
        let rates = self.geometry.zones.iter().map(|zone| {
            let (sectors, count) = (
                f64::from(zone.track_sectors),
                f64::from(zone.last_cylinder - zone.first_cylinder + 1),
            );
            let skews = (heads - 1.0) * zone.track_skew + zone.cylinder_skew;
            let revolutions = heads + skews / sectors;
            let bytes = heads * sectors * 512.0;
            count * bytes / (revolutions * self.revolution_ms() / 1e3)
        });
        rates.sum::<f64>() / f64::from(self.cylinders())
    }

    fn revolution_ms(&self) -> f64 {
        60e3 / self.rotation.rpm
    }

    /// Cylinders of all zones.
    fn cylinders(&self) -> u32 {
        let zones = self.geometry.zones.iter();
        zones
            .map(|zone| zone.last_cylinder - zone.first_cylinder + 1)
            .sum()
    }
}

#[cfg(test)]
#[path = "rates_test.rs"]
mod rates_test;
