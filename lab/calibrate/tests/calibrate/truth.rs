//! Compares a result with the true drive.

use tonearm_calibrate::{Disk, Findings, Kind, drive_file};
use tonearm_drive_file::{DiskSpec, DriveSpec, Geometry, curve_ms};

/// How near a result is to the drive.
#[derive(Debug, Default)]
pub struct Accuracy {
    /// Error of the period, in millionths.
    pub period_ppm: f64,
    pub zones: usize,
    /// Zones whose sectors per track, from the first sector to the last, are right.
    pub zones_right: usize,
    /// Largest error of a skew, in sectors.
    pub skew: f64,
    /// Sectors that were compared, and those of them whose angle is wrong by half a sector or more.
    pub places: (u64, u64),
    pub heads: (u32, u32),
    /// Least times of writes to other cylinders: root mean square of the errors in ms, at the measured distances.
    pub seek_rms_ms: f64,
    pub seek_max_ms: f64,
    /// The same over all distances.
    pub seek_all_rms_ms: f64,
}

pub fn disk_of(found: &Findings) -> &Disk {
    match &found.kind {
        Kind::Disk(disk) => disk,
        Kind::Flash(flash) => panic!("no platter was found: {flash:?}"),
    }
}

/// The drive file of a result, parsed.
pub fn parsed(found: &Findings) -> DriveSpec {
    let text = drive_file("a drive", found).unwrap();
    DriveSpec::parse("made.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The least time of a write of one sector after a write at `distance` cylinders, without the wait for the platter.
fn least_ms(disk: &DiskSpec, distance: u32) -> f64 {
    let overhead = &disk.overhead;
    let moved = curve_ms(&disk.seek.curve, distance) + disk.seek.write_settle_ms;
    let moved = moved.max(disk.seek.same_track_ms);
    let Some(detour) = &overhead.write_detour else {
        return overhead.write_miss_ms.write + moved + overhead.write_done_ms;
    };
    let moved = moved.max(overhead.write_seek_at_least_ms);
    detour.command_ms
        + detour.seek_delay_ms
        + moved
        + overhead.reconnect_again_ms
        + overhead.write_done_ms
}

/// Root mean square and largest error of `made` over distances.
fn seek_errors(
    truth: &DiskSpec,
    made: &DiskSpec,
    distances: impl Iterator<Item = u32>,
) -> (f64, f64) {
    let (mut squares, mut count, mut most) = (0.0, 0.0, 0.0f64);
    for distance in distances {
        let error = least_ms(made, distance) - least_ms(truth, distance);
        squares += error * error;
        count += 1.0;
        most = most.max(error.abs());
    }
    ((squares / count).sqrt(), most)
}

/// Compares. `sectors` is the measured part of the drive.
pub fn accuracy(truth: &DriveSpec, found: &Findings) -> Accuracy {
    let made = parsed(found);
    let (truth, made) = (truth.disk.as_ref().unwrap(), made.disk.as_ref().unwrap());
    let (real, believed) = (
        Geometry::new(&truth.geometry),
        Geometry::new(&made.geometry),
    );
    let (start, end) = (found.options.region.start, found.options.region.end);
    let mut accuracy = Accuracy {
        period_ppm: (truth.rotation.rpm / made.rotation.rpm - 1.0) * 1e6,
        heads: (made.geometry.heads, truth.geometry.heads),
        ..Accuracy::default()
    };
    let mut at = start;
    for zone in &truth.geometry.zones {
        let inside = |lba: u64| lba < end && real.extent(lba).cylinder <= zone.last_cylinder;
        if !inside(at) {
            continue;
        }
        // The zone's last sector.
        let (mut low, mut high) = (at, end);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if inside(middle) {
                low = middle
            } else {
                high = middle
            }
        }
        accuracy.zones += 1;
        let near = [
            at,
            at + 1,
            at.midpoint(low),
            low.saturating_sub(1).max(at),
            low,
        ];
        let right = |lba: u64| real.extent(lba).track_sectors == believed.extent(lba).track_sectors;
        accuracy.zones_right += usize::from(near.into_iter().all(right));
        let of = |index: u64| disk_of(found).layout.zone_of(index);
        let made_zone = &disk_of(found).layout.zones[of(at.midpoint(low))];
        let skews = [
            made_zone.track_skew - zone.track_skew,
            made_zone.cylinder_skew - zone.cylinder_skew,
        ];
        for (error, used) in skews.into_iter().zip([truth.geometry.heads > 1, true]) {
            if used {
                accuracy.skew = accuracy.skew.max(error.abs());
            }
        }
        at = low + 1;
    }
    let places = 50_000;
    let base = real
        .extent(start)
        .angle
        .wrapping_sub(believed.extent(start).angle);
    accuracy.places.0 = places;
    for index in 0..places {
        let lba = start + index * (end - start) / places;
        let (real, believed) = (real.extent(lba), believed.extent(lba));
        let off = real.angle.wrapping_sub(believed.angle).wrapping_sub(base) as i64;
        accuracy.places.1 += u64::from(off.unsigned_abs() > real.width / 2);
    }
    let arm = &disk_of(found).arm;
    let most = truth.geometry.cylinders.min(made.geometry.cylinders);
    (accuracy.seek_rms_ms, accuracy.seek_max_ms) =
        seek_errors(truth, made, arm.seeks.iter().map(|(distance, _)| *distance));
    (accuracy.seek_all_rms_ms, _) = seek_errors(truth, made, 1..most);
    accuracy
}
