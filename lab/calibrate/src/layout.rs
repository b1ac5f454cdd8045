//! The assumed layout of a drive: zones, skews, spares and slips, in the terms of a drive file.
//!
//! The layout predicts the angle of every sector, by the rules that the simulated drives follow
//! ([`tonearm_drive_file::Geometry`]). Each measurement either agrees or corrects the layout.

use crate::error::Error;
use tonearm_drive_file::{Geometry, GeometrySpec, HeadOrder, Sparing, ZoneSpec};

/// 2^64, the angles of a revolution.
const REVOLUTION: f64 = 18_446_744_073_709_551_616.0;

/// Tracks of the same shape, from a given sector on.
#[derive(Clone, PartialEq, Debug)]
pub struct Zone {
    /// First sector.
    pub first: u64,
    /// Sectors that pass in a revolution.
    pub track_sectors: u32,
    /// Spare sectors of each region; unused if the scheme has no regions.
    pub spares: u32,
    /// Sectors by which the start of a track is later than that of the previous track in its cylinder.
    pub track_skew: f64,
    /// The same from one cylinder to the next.
    pub cylinder_skew: f64,
    /// Angle of the first sector of the zone's first cylinder, in sectors.
    pub offset: f64,
    /// Sectors of the first cylinder that lie before the zone's first one.
    pub reserved: u64,
    /// Places that are skipped, in sectors from the start of the first cylinder; ascending.
    pub slips: Vec<u64>,
}

/// A whole drive.
#[derive(Clone, PartialEq, Debug)]
pub struct Layout {
    /// Tracks of a cylinder.
    pub heads: u32,
    /// Where spare sectors are. `Zone` if they are only at the ends of zones.
    pub sparing: Sparing,
    /// By their first sectors. The last one is assumed to reach the end of the drive.
    pub zones: Vec<Zone>,
    /// Sectors of the drive.
    pub sectors: u64,
    /// Sectors whose content is elsewhere, as far as they were found.
    pub remapped: Vec<u64>,
}

/// A layout, ready to predict.
pub(crate) struct EstimatedLayout {
    pub geometry: Geometry,
    first_cylinders: Vec<u32>,
}

impl Zone {
    fn region(&self, heads: u32, sparing: Sparing) -> Option<u64> {
        let track = u64::from(self.track_sectors);
        let cylinder = track * u64::from(heads);
        match sparing {
            Sparing::Track => Some(track),
            Sparing::Cylinder => Some(cylinder),
            Sparing::Cylinders(range) => Some(cylinder * u64::from(range)),
            Sparing::None | Sparing::Tracks | Sparing::Zone | Sparing::Drive => None,
        }
    }

    /// Sectors with a number in each region, if there are regions.
    pub fn region_numbers(&self, heads: u32, sparing: Sparing) -> Option<u64> {
        let region = self.region(heads, sparing)?;
        Some(region - u64::from(self.spares))
    }

    /// Cylinders of `sectors` numbered sectors, and the number of sectors that are left over.
    fn cylinders(&self, sectors: u64, heads: u32, sparing: Sparing) -> (u64, u64) {
        let cylinder = u64::from(self.track_sectors) * u64::from(heads);
        let wanted = self.reserved + sectors;
        let Some(region) = self.region(heads, sparing) else {
            let wanted = wanted + self.slips.len() as u64;
            let cylinders = wanted.div_ceil(cylinder);
            return (cylinders, cylinders * cylinder - wanted);
        };
        let numbered = |cylinders: u64| {
            let physical = cylinders * cylinder;
            physical - physical.div_ceil(region) * u64::from(self.spares)
        };
        let mut cylinders = wanted.div_ceil(cylinder);
        while numbered(cylinders) < wanted {
            cylinders += 1;
        }
        (cylinders, numbered(cylinders) - wanted)
    }
}

impl Layout {
    /// The sector after the last one of zone `index`.
    pub fn zone_end(&self, index: usize) -> u64 {
        self.zones
            .get(index + 1)
            .map_or(self.sectors, |next| next.first)
    }

    /// The zone of sector `lba`.
    pub fn zone_of(&self, lba: u64) -> usize {
        let count = self.zones.partition_point(|zone| zone.first <= lba);
        count.saturating_sub(1)
    }

    /// The layout in the terms of a drive file.
    ///
    /// # Errors
    /// When the sectors of a zone are not those of whole regions with their spares.
    pub fn spec(&self) -> Result<GeometrySpec, Error> {
        let mut zones = Vec::with_capacity(self.zones.len());
        let mut cylinder = 0;
        for (index, zone) in self.zones.iter().enumerate() {
            let sectors = self.zone_end(index) - zone.first;
            let (cylinders, left) = zone.cylinders(sectors, self.heads, self.sparing);
            let regions = zone.region(self.heads, self.sparing).is_some();
            if regions && left > 0 && index + 1 < self.zones.len() {
                return Err(Error::Layout {
                    lba: zone.first,
                    why: "a zone ends within a region of its spares",
                });
            }
            let cylinders = cylinders as u32;
            zones.push(ZoneSpec {
                first_cylinder: cylinder,
                last_cylinder: cylinder + cylinders - 1,
                track_sectors: zone.track_sectors,
                track_skew: zone.track_skew,
                cylinder_skew: zone.cylinder_skew,
                offset: zone.offset,
                reserved: zone.reserved as u32,
                spares: match regions {
                    true => zone.spares,
                    false => left as u32 + zone.slips.len() as u32,
                },
                slips: zone.slips.clone(),
                defects: Vec::new(),
            });
            cylinder += cylinders;
        }
        Ok(GeometrySpec {
            source: "measured by tonearm-lab calibrate".into(),
            heads: self.heads,
            cylinders: cylinder,
            sectors: Some(self.sectors),
            order: HeadOrder::Forward,
            sparing: self.sparing,
            zones,
        })
    }

    /// The predictions of the layout.
    ///
    /// # Errors
    /// As for [`Layout::spec`].
    pub(crate) fn belief(&self) -> Result<EstimatedLayout, Error> {
        let spec = self.spec()?;
        Ok(EstimatedLayout {
            geometry: Geometry::new(&spec),
            first_cylinders: spec.zones.iter().map(|zone| zone.first_cylinder).collect(),
        })
    }

    /// True when the regions of zone `index` have enough spares for its slips.
    pub fn slips_fit(&self, index: usize) -> bool {
        let zone = &self.zones[index];
        let Some(region) = zone.region(self.heads, self.sparing) else {
            return true;
        };
        let mut counts = std::collections::BTreeMap::new();
        for slip in &zone.slips {
            *counts.entry(slip / region).or_insert(0) += 1;
        }
        counts.values().all(|count| *count <= zone.spares)
    }

    /// Spares at the end of each group of cylinders look like slips up to the end of every n-th cylinder. If the first
    /// three groups of the first zone show that, it becomes the scheme.
    pub fn find_ranges(&mut self) -> bool {
        let [zone] = &mut self.zones[..] else {
            return false;
        };
        if self.sparing != Sparing::Zone || zone.reserved > 0 {
            return false;
        }
        let cylinder = u64::from(zone.track_sectors) * u64::from(self.heads);
        let runs = runs(&zone.slips);
        let at_end = |(start, len): &(u64, u64)| *len >= 2 && (start + len) % cylinder == 0;
        let ends: Vec<u64> = runs
            .iter()
            .filter(|run| at_end(run))
            .map(|(start, len)| start + len)
            .collect();
        let Some(&range) = ends.first() else {
            return false;
        };
        let three = ends.len() >= 3 && ends[1] == 2 * range && ends[2] == 3 * range;
        let lost = |index: u64| {
            let within = zone.slips.iter().filter(|slip| **slip / range == index);
            within.count()
        };
        if !three || lost(0) != lost(1) || lost(1) != lost(2) || range <= cylinder {
            return false;
        }
        zone.spares = lost(0) as u32;
        zone.slips = runs
            .iter()
            .filter(|run| !at_end(run))
            .flat_map(|(start, len)| *start..start + len)
            .collect();
        self.sparing = Sparing::Cylinders((range / cylinder) as u32);
        true
    }

    /// Writes slips that are whole tracks, if there are no others, as numbers of tracks.
    pub fn in_tracks(mut spec: GeometrySpec) -> GeometrySpec {
        let whole = |zone: &ZoneSpec| {
            let track = u64::from(zone.track_sectors);
            let tracks = |(start, len): &(u64, u64)| start % track == 0 && len % track == 0;
            u64::from(zone.spares).is_multiple_of(track) && runs(&zone.slips).iter().all(tracks)
        };
        if spec.sparing != Sparing::Zone
            || spec.zones.iter().all(|zone| zone.slips.is_empty())
            || !spec.zones.iter().all(whole)
        {
            return spec;
        }
        spec.sparing = Sparing::Tracks;
        for zone in &mut spec.zones {
            let track = u64::from(zone.track_sectors);
            zone.spares /= zone.track_sectors;
            let firsts = zone.slips.iter().filter(|slip| **slip % track == 0);
            zone.slips = firsts.map(|slip| slip / track).collect();
        }
        spec
    }
}

/// Ascending numbers as runs (first, count).
fn runs(numbers: &[u64]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == *number => *count += 1,
            _ => runs.push((*number, 1)),
        }
    }
    runs
}

impl EstimatedLayout {
    /// The angle of the platter when sector `lba` has passed, in revolutions.
    pub fn angle(&self, lba: u64) -> f64 {
        let extent = self.geometry.extent(lba);
        extent.angle.wrapping_add(extent.width) as f64 / REVOLUTION
    }

    /// The turn from the end of one sector to the end of another, in [0, 1).
    pub fn turn(&self, from: u64, to: u64) -> f64 {
        let angle = |lba| {
            let extent = self.geometry.extent(lba);
            extent.angle.wrapping_add(extent.width)
        };
        angle(to).wrapping_sub(angle(from)) as f64 / REVOLUTION
    }

    /// Sectors of a revolution where `lba` lies.
    pub fn track_sectors(&self, lba: u64) -> f64 {
        f64::from(self.geometry.extent(lba).track_sectors)
    }

    /// Place of `lba` in zone `zone`: physical sectors from the start of its first cylinder.
    pub fn place(&self, lba: u64, zone: usize, heads: u32) -> u64 {
        let extent = self.geometry.extent(lba);
        let cylinder = u64::from(extent.cylinder - self.first_cylinders[zone]);
        let track = cylinder * u64::from(heads) + u64::from(extent.head);
        track * u64::from(extent.track_sectors) + u64::from(extent.sector)
    }

    /// The first sector of the track of `lba`, at least `least`.
    pub fn track_start(&self, lba: u64, least: u64) -> u64 {
        let extent = self.geometry.extent(lba);
        let on_track = |other: u64| {
            let other = self.geometry.extent(other);
            (other.cylinder, other.head) == (extent.cylinder, extent.head)
        };
        let (mut bad, mut good) = (lba.saturating_sub(u64::from(extent.sector) + 1), lba);
        if bad < least || on_track(bad) {
            return bad.max(least);
        }
        while good - bad > 1 {
            let middle = good.midpoint(bad);
            if on_track(middle) {
                good = middle;
            } else {
                bad = middle;
            }
        }
        good.max(least)
    }
}
