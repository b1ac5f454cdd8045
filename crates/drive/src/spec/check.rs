//! Figures that cannot be.

use super::{DiskSpec, DriveSpec, FlashSpec, GeometrySpec, SeekCurve, SeekSpec, Sparing};

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
    pub(super) fn check(&self) -> Result<(), Wrong> {
        sourced("source", &self.source)?;
        within(
            "write_cache.idle_ms",
            self.write_cache.idle_ms,
            0.0,
            60_000.0,
        )?;
        match (&self.disk, &self.flash) {
            (Some(disk), None) => disk.check()?,
            (None, Some(flash)) => flash.check()?,
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
            1000.0,
        )?;
        within(
            "disk.bus.write_sector_ms",
            self.bus.write_sector_ms,
            0.0,
            1000.0,
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
        Ok(())
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
            SeekCurve::Formula { first_ms, .. } => {
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
        for distance in [1, cylinders / 2, cylinders - 1] {
            if distance > 0 {
                let time = crate::seek::curve_ms(&self.curve, distance);
                let key = format!("disk.seek.curve at {distance} cylinders");
                within(&key, time, 0.0, 2000.0)?;
            }
        }
        Ok(())
    }
}

impl GeometrySpec {
    fn check(&self) -> Result<(), Wrong> {
        sourced("disk.geometry.source", &self.source)?;
        within("disk.geometry.heads", f64::from(self.heads), 1.0, 256.0)?;
        within(
            "disk.geometry.cylinders",
            f64::from(self.cylinders),
            1.0,
            10_000_000.0,
        )?;
        if let Sparing::Cylinders(0) = self.sparing {
            return wrong("disk.geometry.sparing", "a range has at least one cylinder");
        }
        if self.zones.is_empty() {
            return wrong("disk.geometry.zones", "a drive has at least one zone");
        }
        let mut next = 0;
        for (index, zone) in self.zones.iter().enumerate() {
            let key = |name: &str| format!("disk.geometry.zones[{index}].{name}");
            if zone.first_cylinder < next {
                let reason = format!(
                    "{} overlaps the zone before, which ends at {next}",
                    zone.first_cylinder
                );
                return wrong(&key("first_cylinder"), reason);
            }
            if zone.last_cylinder < zone.first_cylinder || zone.last_cylinder > self.cylinders {
                let reason = format!(
                    "{} is not between the first cylinder, {}, and the drive's last, {}",
                    zone.last_cylinder, zone.first_cylinder, self.cylinders
                );
                return wrong(&key("last_cylinder"), reason);
            }
            next = zone.last_cylinder + 1;
            within(
                &key("track_sectors"),
                f64::from(zone.track_sectors),
                1.0,
                1e6,
            )?;
            let turn = f64::from(zone.track_sectors);
            for (name, value) in [
                ("track_skew", zone.track_skew),
                ("cylinder_skew", zone.cylinder_skew),
                ("offset", zone.offset),
            ] {
                within(&key(name), value, -turn, turn)?;
            }
            self.check_spares(index)?;
        }
        Ok(())
    }

    fn check_spares(&self, index: usize) -> Result<(), Wrong> {
        let zone = &self.zones[index];
        let key = |name: &str| format!("disk.geometry.zones[{index}].{name}");
        let track = u64::from(zone.track_sectors);
        let cylinders = u64::from(zone.last_cylinder - zone.first_cylinder + 1);
        let physical = track * u64::from(self.heads) * cylinders;
        let places = match self.sparing {
            Sparing::Tracks => physical / track,
            _ => physical,
        };
        let region = match self.sparing {
            Sparing::Track => track,
            Sparing::Cylinder => track * u64::from(self.heads),
            Sparing::Cylinders(range) => track * u64::from(self.heads) * u64::from(range),
            _ => places,
        };
        let taken = u64::from(zone.spares) + zone.slips.len() as u64;
        if u64::from(zone.spares) >= region || (taken >= places && self.sparing != Sparing::None) {
            return wrong(&key("spares"), format!("no sector is left of {region}"));
        }
        if u64::from(zone.reserved) >= physical {
            return wrong(&key("reserved"), format!("no sector is left of {physical}"));
        }
        if let Some(slip) = zone.slips.iter().find(|slip| **slip >= places) {
            return wrong(
                &key("slips"),
                format!("{slip} lies beyond the zone's {places}"),
            );
        }
        let beyond = |(bad, spare): &&(u64, u64)| *bad >= places || *spare >= places;
        if let Some((bad, spare)) = zone.defects.iter().find(beyond) {
            return wrong(
                &key("defects"),
                format!("[{bad}, {spare}] lies beyond the zone's {places}"),
            );
        }
        Ok(())
    }
}
