//! Refuses impossible geometries. In a geometry that passes, every sector has a place of its own.

use super::{Wrong, sourced, within, wrong};
use crate::spec::{GeometrySpec, Sparing, ZoneSpec};

/// A zone in the units of its scheme, sectors or whole tracks.
struct Places {
    all: u64,
    /// Units of a region with spares of its own, and the number of spare units in it.
    region: u64,
    spares: u64,
}

impl Places {
    fn new(drive: &GeometrySpec, zone: &ZoneSpec) -> Self {
        let track = u64::from(zone.track_sectors);
        let tracks =
            u64::from(zone.last_cylinder - zone.first_cylinder + 1) * u64::from(drive.heads);
        let cylinder = track * u64::from(drive.heads);
        let all = match drive.sparing {
            Sparing::Tracks => tracks,
            _ => tracks * track,
        };
        let region = match drive.sparing {
            Sparing::Track => track,
            Sparing::Cylinder => cylinder,
            Sparing::Cylinders(range) => cylinder * u64::from(range),
            Sparing::None | Sparing::Tracks | Sparing::Zone | Sparing::Drive => all,
        };
        let spares = match drive.sparing {
            Sparing::None | Sparing::Drive => zone.slips.len() as u64,
            _ => u64::from(zone.spares),
        };
        Self {
            all,
            region: region.min(all),
            spares,
        }
    }

    /// Units of the last region, which may be smaller.
    fn last(&self) -> u64 {
        match self.all % self.region {
            0 => self.region,
            rest => rest,
        }
    }

    fn numbered(&self) -> u64 {
        self.all - self.spares * self.all.div_ceil(self.region)
    }
}

impl GeometrySpec {
    pub(super) fn check(&self) -> Result<(), Wrong> {
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
        let (mut next, mut sectors) = (0, 0);
        for (index, zone) in self.zones.iter().enumerate() {
            let key = |name: &str| format!("disk.geometry.zones[{index}].{name}");
            if zone.first_cylinder < next {
                let reason = format!(
                    "{} overlaps the zone before, which ends at {}",
                    zone.first_cylinder,
                    next - 1
                );
                return wrong(&key("first_cylinder"), reason);
            }
            if zone.last_cylinder < zone.first_cylinder || zone.last_cylinder >= self.cylinders {
                let reason = format!(
                    "{} is not between the first cylinder, {}, and the drive's last, {}",
                    zone.last_cylinder,
                    zone.first_cylinder,
                    self.cylinders - 1
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
            let checked = self.check_zone(zone, sectors);
            sectors += checked.or_else(|(name, reason)| wrong(&key(&name), reason))?;
        }
        match self.sectors {
            Some(reported) if reported == 0 || reported > sectors => wrong(
                "disk.geometry.sectors",
                format!("{reported} is not between 1 and the {sectors} that the zones hold"),
            ),
            _ => Ok(()),
        }
    }

    /// How many sectors of `zone` have a number, the first of which is `first_lba`.
    fn check_zone(&self, zone: &ZoneSpec, first_lba: u64) -> Result<u64, Wrong> {
        let places = Places::new(self, zone);
        let none = matches!(self.sparing, Sparing::None | Sparing::Drive);
        if none && zone.spares > 0 {
            return wrong("spares", "the scheme has no spares in a zone");
        }
        if places.spares >= places.last() {
            return wrong("spares", format!("nothing is left of {}", places.last()));
        }
        check_slips(zone, &places)?;
        let unit = match self.sparing {
            Sparing::Tracks => u64::from(zone.track_sectors),
            _ => 1,
        };
        let numbered = places.numbered() * unit;
        let reserved = u64::from(zone.reserved);
        if reserved >= numbered {
            return wrong("reserved", format!("no sector is left of {numbered}"));
        }
        // Places beyond the sectors that the drive reports serve as spares.
        let reported = self.sectors.unwrap_or(u64::MAX);
        let lowest = (reported.saturating_sub(first_lba).saturating_add(reserved)).div_ceil(unit);
        check_defects(zone, &places, lowest)?;
        Ok(numbered - reserved)
    }
}

/// Every slip takes one of the spares of its region.
fn check_slips(zone: &ZoneSpec, places: &Places) -> Result<(), Wrong> {
    let mut slips = zone.slips.clone();
    slips.sort_unstable();
    let (mut region, mut count, mut last) = (0, 0, None);
    for slip in slips {
        if slip >= places.all {
            let reason = format!("{slip} lies beyond the zone's {}", places.all);
            return wrong("slips", reason);
        }
        if last.replace(slip) == Some(slip) {
            return wrong("slips", format!("{slip} is there twice"));
        }
        if slip / places.region != region {
            (region, count) = (slip / places.region, 0);
        }
        count += 1;
        if count > places.spares {
            let reason = format!("{slip} is one more than there are spares for");
            return wrong("slips", reason);
        }
    }
    Ok(())
}

/// Checks that every defect has a spare of its own: a place without a number, or with one from `lowest` on.
fn check_defects(zone: &ZoneSpec, places: &Places, lowest: u64) -> Result<(), Wrong> {
    let moved = || zone.defects.iter().filter(|(bad, spare)| bad != spare);
    for (index, (bad, spare)) in moved().enumerate() {
        let name = format!("[{bad}, {spare}]");
        if *bad >= places.all || *spare >= places.all {
            let reason = format!("{name} lies beyond the zone's {}", places.all);
            return wrong("defects", reason);
        }
        let twice = |(b, s): &(u64, u64)| b == bad || s == spare;
        if moved().take(index).any(twice) {
            return wrong("defects", format!("one place of {name} is there twice"));
        }
        if zone.slips.contains(bad) || zone.slips.contains(spare) {
            return wrong("defects", format!("one place of {name} is slipped too"));
        }
        let region = spare / places.region;
        let start = region * places.region;
        let slips = zone.slips.iter();
        let before = slips.filter(|slip| (start..*spare).contains(*slip)).count() as u64;
        let end = places.all.min(start + places.region);
        let within = spare - start - before;
        let numbered = end - start - places.spares;
        if within < numbered && region * (places.region - places.spares) + within < lowest {
            let reason = format!("{name}: {spare} is no spare but holds a sector with a number");
            return wrong("defects", reason);
        }
    }
    Ok(())
}
