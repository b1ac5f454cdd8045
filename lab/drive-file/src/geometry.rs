//! The place of each sector: zones, heads, skews, slipped and spare sectors.
//!
//! A sector is named by its logical number (LBA, 512 bytes). It lies on a track (cylinder, head), at an
//! angle. Angles are fractions of a revolution in units of 2^-64, so that they wrap as the platter does.
//!
//! The rules of skew, sparing and slipping are those under which the parameters of the drives were
//! extracted (DiskSim 4.0, layout G1).

use crate::spec::{GeometrySpec, HeadOrder, Sparing, ZoneSpec};

/// An angle, in revolutions times 2^64.
pub type Angle = u64;

/// A whole revolution as a divisor.
const REVOLUTION: u128 = 1 << 64;

/// Adjacent sectors on one track with consecutive numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Cylinder of the track.
    pub cylinder: u32,
    /// Head of the track.
    pub head: u32,
    /// Sectors of the track.
    pub track_sectors: u32,
    /// Place of the first one on its track, in sectors.
    pub sector: u32,
    /// Angle at which the first one begins.
    pub angle: Angle,
    /// Angle of one sector.
    pub width: Angle,
    /// Number of sectors, from the first one on.
    pub sectors: u32,
}

struct Zone {
    first_lba: u64,
    sectors: u64,
    first_cylinder: u32,
    cylinders: u32,
    track_sectors: u32,
    width: Angle,
    /// Angle of the zone's first sector.
    offset: Angle,
    track_skew: Angle,
    /// Skew from one cylinder's last track to the next one's first.
    cylinder_skew: Angle,
    /// Sectors before the first that has a number.
    reserved: u64,
    /// Physical sectors of a region with spares of its own, and those of them that have numbers.
    region: (u64, u64),
    /// Number (in the zone, with the reserved ones) from which on a slip applies.
    slips: Vec<u64>,
    /// Physical places of slipped sectors (with whole spare tracks: numbers of tracks).
    slipped: Vec<u64>,
    /// Physical place, and where its content went.
    remapped: Vec<(u64, u64)>,
}

/// The map of a drive.
pub struct Geometry {
    heads: u32,
    cylinders: u32,
    serpentine: bool,
    sparing: Sparing,
    zones: Vec<Zone>,
    first_lbas: Vec<u64>,
    sectors: u64,
}

fn fraction(sectors: f64, track_sectors: u32) -> Angle {
    let turns = sectors / f64::from(track_sectors);
    // 2^63 twice, because 2^64 is no u64. A whole turn becomes 0.
    ((turns.rem_euclid(1.0) * 9_223_372_036_854_775_808.0) as u64).wrapping_mul(2)
}

impl Geometry {
    /// The map that `spec`, which has been checked, describes.
    pub fn new(spec: &GeometrySpec) -> Self {
        let mut first_lba = 0;
        let mut zones = Vec::with_capacity(spec.zones.len());
        for zone in &spec.zones {
            let zone = Zone::new(zone, spec, first_lba);
            first_lba += zone.sectors;
            zones.push(zone);
        }
        Self {
            heads: spec.heads,
            cylinders: spec.cylinders,
            serpentine: spec.order == HeadOrder::Serpentine,
            sparing: spec.sparing,
            first_lbas: zones.iter().map(|zone| zone.first_lba).collect(),
            zones,
            sectors: first_lba.min(spec.sectors.unwrap_or(u64::MAX)),
        }
    }

    /// Sectors that have a number.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Cylinders of the drive.
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    #[inline]
    fn zone_of(&self, lba: u64) -> &Zone {
        // There are few zones. Up to some dozens, a linear search in a packed list is faster than a binary one.
        let index = self.first_lbas.partition_point(|first| *first <= lba) - 1;
        &self.zones[index]
    }

    /// The extent that begins with `lba`.
    ///
    /// # Panics
    /// When the drive has no such sector.
    #[inline]
    pub fn extent(&self, lba: u64) -> Extent {
        debug_assert!(lba < self.sectors, "sector {lba} is beyond the end");
        let zone = self.zone_of(lba);
        let number = lba - zone.first_lba + zone.reserved;
        let (place, run) = zone.place(number, self.sparing);
        let run = run.min(zone.first_lba + zone.sectors - lba);
        self.on_track(zone, place, run)
    }

    /// Cylinder of `lba`, for schedulers that do not know the angle.
    pub fn cylinder_of(&self, lba: u64) -> u32 {
        let zone = self.zone_of(lba);
        let (place, _) = zone.place(lba - zone.first_lba + zone.reserved, self.sparing);
        zone.first_cylinder
            + (place / (u64::from(zone.track_sectors) * u64::from(self.heads))) as u32
    }

    /// The extent of the physical sector `place` of `zone`, of at most `run` sectors.
    #[inline]
    fn on_track(&self, zone: &Zone, place: u64, run: u64) -> Extent {
        let spt = u64::from(zone.track_sectors);
        let track = place / spt;
        let sector = place - track * spt;
        let cylinder_in_zone = track / u64::from(self.heads);
        // Skews follow the order in which the tracks of a cylinder are filled.
        let surface = track - cylinder_in_zone * u64::from(self.heads);
        let head = if self.serpentine && cylinder_in_zone % 2 == 1 {
            u64::from(self.heads) - 1 - surface
        } else {
            surface
        };
        let switches = surface + (u64::from(self.heads) - 1) * cylinder_in_zone;
        // In some schemes a slip moves all later tracks.
        let pushed = match self.sparing {
            Sparing::Cylinder | Sparing::Track => {
                let tracks = match self.sparing {
                    Sparing::Track => track,
                    _ => cylinder_in_zone * u64::from(self.heads),
                };
                zone.slipped.partition_point(|slip| *slip < tracks * spt) as u64
            }
            _ => 0,
        };
        let angle = zone
            .offset
            .wrapping_add(switches.wrapping_mul(zone.track_skew))
            .wrapping_add(cylinder_in_zone.wrapping_mul(zone.cylinder_skew))
            .wrapping_add((sector + pushed).wrapping_mul(zone.width));
        Extent {
            cylinder: zone.first_cylinder + cylinder_in_zone as u32,
            head: head as u32,
            track_sectors: zone.track_sectors,
            sector: sector as u32,
            angle,
            width: zone.width,
            sectors: run.min(spt - sector) as u32,
        }
    }

    /// First and last cylinder and sectors of a track, zone by zone.
    pub fn zones(&self) -> impl Iterator<Item = (u32, u32, u32)> {
        let last = |zone: &Zone| zone.first_cylinder + zone.cylinders - 1;
        let row = move |zone: &Zone| (zone.first_cylinder, last(zone), zone.track_sectors);
        self.zones.iter().map(row)
    }
}

impl Zone {
    fn new(spec: &ZoneSpec, drive: &GeometrySpec, first_lba: u64) -> Self {
        let cylinders = spec.last_cylinder - spec.first_cylinder + 1;
        let track = u64::from(spec.track_sectors);
        let cylinder = track * u64::from(drive.heads);
        let physical = cylinder * u64::from(cylinders);
        let region = match drive.sparing {
            Sparing::Track => track,
            Sparing::Cylinder => cylinder,
            Sparing::Cylinders(range) => cylinder * u64::from(range),
            Sparing::None | Sparing::Tracks | Sparing::Zone | Sparing::Drive => physical,
        };
        let spares = u64::from(spec.spares);
        let lost = match drive.sparing {
            Sparing::Tracks => spares * track,
            Sparing::Zone => spares,
            Sparing::None | Sparing::Drive => spec.slips.len() as u64,
            Sparing::Track | Sparing::Cylinder | Sparing::Cylinders(_) => {
                spares * physical.div_ceil(region)
            }
        };
        let used = match drive.sparing {
            Sparing::Track | Sparing::Cylinder | Sparing::Cylinders(_) => region - spares,
            _ => region,
        };
        let mut slipped = spec.slips.clone();
        slipped.sort_unstable();
        // The k-th slip of its region applies from the number on that would have its place.
        let (mut slips, mut current, mut k) = (Vec::new(), u64::MAX, 0);
        for slip in &slipped {
            let (at, index) = match drive.sparing {
                Sparing::Tracks => (slip * track, 0),
                _ => (slip % region, slip / region),
            };
            k = if index == current { k + 1 } else { 0 };
            current = index;
            let before = match drive.sparing {
                Sparing::Tracks => k * track,
                _ => k,
            };
            let number = at - before.min(at);
            // A slip among the spares at the end of its region moves nothing.
            if number < used {
                slips.push(index * used + number);
            }
        }
        let mut remapped = spec.defects.clone();
        remapped.retain(|(bad, spare)| bad != spare);
        remapped.sort_unstable();
        Self {
            first_lba,
            sectors: physical - u64::from(spec.reserved) - lost,
            first_cylinder: spec.first_cylinder,
            cylinders,
            track_sectors: spec.track_sectors,
            width: (REVOLUTION / u128::from(spec.track_sectors)) as u64,
            offset: fraction(spec.offset, spec.track_sectors),
            track_skew: fraction(spec.track_skew, spec.track_sectors),
            cylinder_skew: fraction(spec.cylinder_skew, spec.track_sectors),
            reserved: u64::from(spec.reserved),
            region: (region, used),
            slips,
            slipped,
            remapped,
        }
    }

    /// Physical sector of the zone's `number`-th sector, and the count of numbers from there on whose places are
    /// adjacent.
    #[inline]
    fn place(&self, number: u64, sparing: Sparing) -> (u64, u64) {
        let (physical, used) = self.region;
        let (region, within) = if physical == used {
            (0, number)
        } else {
            (number / used, number % used)
        };
        let counted = self.slips.partition_point(|from| *from <= number);
        let earlier = if region == 0 {
            0
        } else {
            self.slips.partition_point(|from| *from < region * used)
        };
        let slips = (counted - earlier) as u64;
        let step = match sparing {
            Sparing::Tracks => u64::from(self.track_sectors),
            _ => 1,
        };
        let mut place = region * physical + within + slips * step;
        let mut run = if physical == used {
            u64::MAX
        } else {
            used - within
        };
        if let Some(next) = self.slips.get(counted) {
            run = run.min(next - number);
        }
        if !self.remapped.is_empty() {
            let key = match sparing {
                Sparing::Tracks => place / step,
                _ => place,
            };
            let at = self.remapped.partition_point(|(bad, _)| *bad < key);
            if let Some((bad, spare)) = self.remapped.get(at) {
                if *bad == key {
                    place = match sparing {
                        Sparing::Tracks => spare * step + place % step,
                        _ => *spare,
                    };
                    run = if sparing == Sparing::Tracks { run } else { 1 };
                } else if sparing != Sparing::Tracks {
                    run = run.min(bad - key);
                }
            }
        }
        (place, run)
    }
}
