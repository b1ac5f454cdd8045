//! Refuses impossible figures.

use crate::seek_curve::curve_ms;
use crate::spec::{
    DeltasSpec, DiskSpec, DriveSpec, FlashSpec, HostSpec, MediaCacheSpec, SeekCurve, SeekSpec,
};

mod geometry;

/// Key and reason.
type Wrong = (String, String);

fn wrong<T>(key: &str, reason: impl Into<String>) -> Result<T, Wrong> {
    Err((key.to_owned(), reason.into()))
}

fn within(key: &str, value: f64, least: f64, most: f64) -> Result<(), Wrong> {
    if value >= least && value <= most {
        return Ok(());
    }
    wrong(key, format!("{value} is not between {least} and {most}"))
}

fn sourced(key: &str, source: &str) -> Result<(), Wrong> {
    if source.trim().is_empty() {
        return wrong(key, "say where the figures come from");
    }
    Ok(())
}

impl DriveSpec {
    pub(crate) fn check(&self) -> Result<(), Wrong> {
        sourced("source", &self.source)?;
        within(
            "write_cache.idle_ms",
            self.write_cache.idle_ms,
            0.0,
            60_000.0,
        )?;
        match (&self.disk, &self.flash) {
            (Some(disk), None) => disk.check()?,
            (None, Some(flash)) => {
                flash.check()?;
                if flash.power_loss_protection && self.write_cache.enabled {
                    return wrong(
                        "write_cache.enabled",
                        "a cache with power-loss protection is not volatile: write false",
                    );
                }
            }
            _ => return wrong("disk", "a drive has either [disk] or [flash]"),
        }
        if self.write_cache.enabled && self.disk.is_some() && self.write_cache.sectors == 0 {
            return wrong(
                "write_cache.sectors",
                "an enabled cache has at least one sector",
            );
        }
        if self.write_cache.enabled {
            sourced("write_cache.source", &self.write_cache.source)?;
        }
        self.host.check()
    }
}

impl HostSpec {
    fn check(&self) -> Result<(), Wrong> {
        within("host.request_ms", self.request_ms, 0.0, 1000.0)?;
        within("host.late_ms", self.late_ms, 0.0, 1000.0)?;
        if self.request_ms > 0.0 || self.late_ms > 0.0 {
            sourced("host.source", &self.source)?;
        }
        Ok(())
    }
}

impl FlashSpec {
    fn check(&self) -> Result<(), Wrong> {
        sourced("flash.source", &self.source)?;
        within("flash.channels", f64::from(self.channels), 1.0, 4096.0)?;
        within("flash.sectors", self.sectors as f64, 8.0, 1e15)?;
        for (key, value) in [
            ("flash.read_ms", self.read_ms),
            ("flash.write_ms", self.write_ms),
            ("flash.write_cached_ms", self.write_cached_ms),
            ("flash.flush_ms", self.flush_ms),
            ("flash.flush_ms_per_mib", self.flush_ms_per_mib),
        ] {
            within(key, value, 0.0, 10_000.0)?;
        }
        within("flash.read_mib_per_s", self.read_mib_per_s, 0.001, 1e6)?;
        within("flash.write_mib_per_s", self.write_mib_per_s, 0.001, 1e6)
    }
}

impl DiskSpec {
    fn check(&self) -> Result<(), Wrong> {
        sourced("disk.rotation.source", &self.rotation.source)?;
        within("disk.rotation.rpm", self.rotation.rpm, 60.0, 100_000.0)?;
        within(
            "disk.rotation.jitter_ns",
            self.rotation.jitter_ns as f64,
            0.0,
            1e8,
        )?;
        self.geometry.check()?;
        self.seek.check(self.geometry.cylinders)?;
        self.check_overheads()?;
        sourced("disk.bus.source", &self.bus.source)?;
        within(
            "disk.bus.read_sector_ms",
            self.bus.read_sector_ms,
            0.0,
            100.0,
        )?;
        within(
            "disk.bus.write_sector_ms",
            self.bus.write_sector_ms,
            0.0,
            100.0,
        )?;
        let buffer = &self.buffer;
        sourced("disk.buffer.source", &buffer.source)?;
        within(
            "disk.buffer.segments",
            f64::from(buffer.segments),
            0.0,
            65_536.0,
        )?;
        within(
            "disk.buffer.read_watermark",
            buffer.read_watermark,
            0.0,
            1.0,
        )?;
        if buffer.segments > 0 && buffer.segment_sectors == 0 {
            return wrong(
                "disk.buffer.segment_sectors",
                "a segment has at least one sector",
            );
        }
        within(
            "disk.queue_depth",
            f64::from(self.queue_depth),
            0.0,
            65_536.0,
        )?;
        if let Some(cache) = &self.media_cache {
            cache.check()?;
            if self.deltas.is_some() {
                return wrong(
                    "disk.deltas",
                    "with a media cache no write goes to the place of its sector: leave it out",
                );
            }
        }
        match &self.deltas {
            Some(deltas) => deltas.check(),
            None => Ok(()),
        }
    }

    fn check_overheads(&self) -> Result<(), Wrong> {
        let overhead = &self.overhead;
        sourced("disk.overhead.source", &overhead.source)?;
        let mut times = vec![
            ("read_done_ms", overhead.read_done_ms),
            ("write_done_ms", overhead.write_done_ms),
            ("write_disconnect_ms", overhead.write_disconnect_ms),
            ("reconnect_ms", overhead.reconnect_ms),
            ("reconnect_again_ms", overhead.reconnect_again_ms),
            ("prepare_ms", overhead.prepare_ms),
            ("write_seek_at_least_ms", overhead.write_seek_at_least_ms),
            ("flush_ms", overhead.flush_ms),
            ("noise_ms", overhead.noise_ms),
        ];
        for (key, after) in [
            ("read_hit_ms", overhead.read_hit_ms),
            ("read_miss_ms", overhead.read_miss_ms),
            ("write_hit_ms", overhead.write_hit_ms),
            ("write_miss_ms", overhead.write_miss_ms),
            ("read_disconnect_ms", overhead.read_disconnect_ms),
        ] {
            times.extend([(key, after.read), (key, after.write)]);
        }
        if let Some(detour) = &overhead.write_detour {
            times.extend([
                ("write_detour.command_ms", detour.command_ms),
                ("write_detour.disconnect_ms", detour.disconnect_ms),
                ("write_detour.away_ms", detour.away_ms),
                (
                    "write_detour.disconnect_again_ms",
                    detour.disconnect_again_ms,
                ),
                ("write_detour.seek_delay_ms", detour.seek_delay_ms),
            ]);
        }
        for (key, value) in times {
            within(&format!("disk.overhead.{key}"), value, 0.0, 1000.0)?;
        }
        Ok(())
    }
}

impl MediaCacheSpec {
    fn check(&self) -> Result<(), Wrong> {
        sourced("disk.media_cache.source", &self.source)?;
        for (key, value, least, most) in [
            ("sectors", self.sectors as f64, 8.0, 1e12),
            // Moving one must not take minutes.
            (
                "zone_sectors",
                f64::from(self.zone_sectors),
                0.0,
                8_388_608.0,
            ),
            ("idle_ms", self.idle_ms, 0.0, 600_000.0),
            ("map_ms", self.map_ms, 0.0, 10_000.0),
        ] {
            within(&format!("disk.media_cache.{key}"), value, least, most)?;
        }
        if (self.map_ms > 0.0) != (self.map_writes > 0) {
            return wrong(
                "disk.media_cache.map_writes",
                "map_writes and map_ms are both above 0, or both 0",
            );
        }
        Ok(())
    }
}

impl DeltasSpec {
    fn check(&self) -> Result<(), Wrong> {
        sourced("disk.deltas.source", &self.source)?;
        let turn = f64::from(self.track_sectors);
        within("disk.deltas.track_sectors", turn, 2.0, 1e6)?;
        for (key, sectors) in [
            ("write_after_write", self.write_after_write),
            ("write_after_read", self.write_after_read),
            ("read_after_write", self.read_after_write),
        ] {
            let key = format!("disk.deltas.{key}");
            within(&key, f64::from(sectors), 0.0, turn - 1.0)?;
        }
        within(
            "disk.deltas.read_lag_ns",
            self.read_lag_ns as f64,
            -1e9,
            1e9,
        )
    }
}

impl SeekSpec {
    fn check(&self, cylinders: u32) -> Result<(), Wrong> {
        sourced("disk.seek.source", &self.source)?;
        within("disk.seek.head_switch_ms", self.head_switch_ms, 0.0, 1000.0)?;
        within("disk.seek.same_track_ms", self.same_track_ms, 0.0, 1000.0)?;
        within(
            "disk.seek.write_settle_ms",
            self.write_settle_ms,
            -1000.0,
            1000.0,
        )?;
        match &self.curve {
            SeekCurve::Table(points) => {
                if points.is_empty() {
                    return wrong("disk.seek.curve.table", "a table has at least one point");
                }
                let mut last = 0;
                for (index, (distance, ms)) in points.iter().enumerate() {
                    let key = format!("disk.seek.curve.table[{index}]");
                    if *distance <= last {
                        let reason = format!("distance {distance} does not follow {last}");
                        return wrong(&key, reason);
                    }
                    last = *distance;
                    within(&key, *ms, 0.0, 1000.0)?;
                }
            }
            SeekCurve::Formula {
                first_ms,
                root,
                above,
                ..
            } => {
                for (key, value) in [("root", root), ("above", above)] {
                    let key = format!("disk.seek.curve.formula.{key}");
                    within(&key, value.0, -2000.0, 2000.0)?;
                    within(&key, value.1, -2000.0, 2000.0)?;
                }
                for (index, ms) in first_ms.iter().enumerate() {
                    within(
                        &format!("disk.seek.curve.formula.first_ms[{index}]"),
                        *ms,
                        0.0,
                        1000.0,
                    )?;
                }
            }
        }
        // Between these the curve only rises or only falls.
        let (first, below) = match &self.curve {
            SeekCurve::Table(_) => (1, 1),
            SeekCurve::Formula {
                first_ms, below, ..
            } => (first_ms.len() as u32 + 1, *below),
        };
        for distance in [1, first, below.saturating_sub(1), below, cylinders - 1] {
            if distance > 0 && distance < cylinders {
                let time = curve_ms(&self.curve, distance);
                let key = format!("disk.seek.curve at {distance} cylinders");
                within(&key, time, 0.0, 2000.0)?;
            }
        }
        Ok(())
    }
}
