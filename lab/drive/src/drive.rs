//! A drive of either kind, mechanical or flash.

use crate::disk::Disk;
use crate::flash::Flash;
use crate::rotation::Drift;
use tonearm_base::Nanos;
use tonearm_drive_file::DriveSpec;
use tonearm_drive_file::Scheduler;
use tonearm_world::{Done, DriveRequest, Timing};

/// How a drive is switched on.
#[derive(Clone, Debug, Default)]
pub struct DriveOptions {
    /// Seed of the spindle's jitter and of the commands' noise.
    pub seed: u64,
    /// In place of the drive's own.
    pub scheduler: Option<Scheduler>,
    /// In place of the drive's own.
    pub write_cache: Option<bool>,
    /// Revolutions by which the platter is ahead at time 0.
    pub phase: f64,
    /// A slow change of the spindle's speed.
    pub drift: Option<Drift>,
}

enum Kind {
    Disk(Box<Disk>),
    Flash(Box<Flash>),
}

/// A drive in time: takes requests and gives times of completion.
pub struct Drive {
    kind: Kind,
    sectors: u64,
}

impl Drive {
    /// The drive of `spec`, switched on at time 0.
    pub fn new(spec: &DriveSpec, options: &DriveOptions) -> Self {
        let (kind, sectors) = match (&spec.disk, &spec.flash) {
            (Some(disk), _) => {
                let disk = Disk::new(disk, &spec.write_cache, options);
                let sectors = disk.sectors();
                (Kind::Disk(Box::new(disk)), sectors)
            }
            (None, Some(flash)) => {
                let cache = options.write_cache.unwrap_or(spec.write_cache.enabled);
                (
                    Kind::Flash(Box::new(Flash::new(flash, &spec.write_cache, cache))),
                    flash.sectors,
                )
            }
            (None, None) => unreachable!("a checked drive is one or the other"),
        };
        Self { kind, sectors }
    }

    /// Sectors of 512 bytes that it reports.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// The mechanical drive, if it is one.
    pub fn disk(&mut self) -> Option<&mut Disk> {
        match &mut self.kind {
            Kind::Disk(disk) => Some(disk),
            Kind::Flash(_) => None,
        }
    }
}

impl Timing for Drive {
    #[inline]
    fn submit(&mut self, now: Nanos, request: DriveRequest) {
        match &mut self.kind {
            Kind::Disk(disk) => disk.submit(now, request),
            Kind::Flash(flash) => flash.submit(now, request),
        }
    }

    #[inline]
    fn next(&self) -> Option<Nanos> {
        match &self.kind {
            Kind::Disk(disk) => disk.next(),
            Kind::Flash(flash) => flash.next(),
        }
    }

    #[inline]
    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        match &mut self.kind {
            Kind::Disk(disk) => disk.advance(now, done),
            Kind::Flash(flash) => flash.advance(now, done),
        }
    }
}
