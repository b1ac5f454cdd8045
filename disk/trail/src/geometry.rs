//! Addresses within the log.
//!
//! Log sectors are numbered track by track as if every track were as long as the longest one, so that a division
//! gives the track of an address. The members with the log hold its tracks in turn.

use std::rc::Rc;
use tonearm_format::{SECTOR, SheetRun, Superblock, TRACK_OVERHEAD_SECTORS, TrackSheet, Uuid};
use tonearm_head::{Span, TrackMap, TrackMapError, TrackRun};

/// Bytes of the sectors in which drives and [`TrackMap`]s count.
pub(crate) const DRIVE_SECTOR: u64 = 512;

/// Where the tracks of a log lie on one member.
#[derive(Clone, Debug)]
pub enum LogTracks {
    /// Adjacent tracks of the same length, from a byte offset on.
    Even {
        /// Byte offset of the first one.
        offset: u64,
    },
    /// The physical tracks of a drive.
    Physical(Rc<TrackMap>),
}

/// Where the log lies and how it is divided.
#[derive(Clone, Debug)]
pub struct LogGeometry {
    /// Store to which the records belong.
    pub store: Uuid,
    /// Bytes of a log sector.
    pub sector: usize,
    /// Bytes of a home block.
    pub block_size: usize,
    /// Number of tracks, of all members together.
    pub tracks: u64,
    /// Sectors of the longest track, which is the distance of tracks in log sectors.
    pub track_sectors: u64,
    /// Sectors of the shortest track.
    pub track_sectors_min: u64,
    /// The members that hold the tracks in turn.
    pub members: Vec<LogTracks>,
}

/// Why the tracks of a store cannot hold a log.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GeometryError {
    /// The runs of the sheet are invalid.
    #[error(transparent)]
    Map(#[from] TrackMapError),
    /// The sheet and the superblock contradict each other.
    #[error("the tracks of the sheet are not those of the superblock: {0}")]
    Mismatch(&'static str),
}

impl LogGeometry {
    /// A log of tracks of equal length on one member.
    pub fn even(
        store: Uuid,
        offset: u64,
        tracks: u64,
        track_sectors: u64,
        block_size: usize,
    ) -> Self {
        Self {
            store,
            sector: SECTOR,
            block_size,
            tracks,
            track_sectors,
            track_sectors_min: track_sectors,
            members: vec![LogTracks::Even { offset }],
        }
    }

    /// The geometry that a superblock describes, with the sheets of its log members if the log has physical tracks.
    ///
    /// # Errors
    /// When a sheet is invalid or contradicts the superblock.
    pub fn of(superblock: &Superblock, sheets: &[TrackSheet]) -> Result<Self, GeometryError> {
        let sector = usize::from(superblock.log_sector_bytes);
        let track_sectors = u64::from(superblock.track_bytes) / sector as u64;
        let mut geometry = Self {
            tracks: superblock.log_tracks,
            sector,
            track_sectors_min: track_sectors,
            ..Self::even(
                superblock.store,
                superblock.log_offset,
                superblock.log_tracks,
                track_sectors,
                superblock.block_size as usize,
            )
        };
        if !superblock.physical_tracks {
            let even = geometry.members[0].clone();
            geometry.members = superblock.log_members().map(|_| even.clone()).collect();
            return Ok(geometry);
        }
        geometry.members.clear();
        for sheet in sheets {
            let map = TrackMap::new(sheet.runs.iter().map(run_of).collect())?;
            geometry.members.push(LogTracks::Physical(Rc::new(map)));
        }
        geometry.check(superblock)?;
        Ok(geometry)
    }

    fn check(&mut self, superblock: &Superblock) -> Result<(), GeometryError> {
        let wrong = |why| Err(GeometryError::Mismatch(why));
        let members: Vec<usize> = superblock.log_members().collect();
        if members.len() != self.members.len() {
            return wrong("each log member has one");
        }
        let (mut shortest, mut longest) = (u64::MAX, 0);
        for (tracks, index) in self.members.iter().zip(members) {
            let LogTracks::Physical(map) = tracks else {
                continue;
            };
            if map.tracks() < self.tracks.div_ceil(self.members.len() as u64) {
                return wrong("there are fewer");
            }
            let range = superblock.log_range(index);
            let (first, last) = (map.track(0), map.track(map.tracks() - 1));
            if first.first * DRIVE_SECTOR < range.start || last.end() * DRIVE_SECTOR > range.end {
                return wrong("they lie outside of the log");
            }
            let (short, long) = track_lengths(map, self.sector);
            (shortest, longest) = (shortest.min(short), longest.max(long));
        }
        if longest > self.track_sectors {
            return wrong("one is longer than the longest");
        }
        if shortest < self.block_sectors() + u64::from(TRACK_OVERHEAD_SECTORS) {
            return wrong("one is too short for a block");
        }
        self.track_sectors_min = shortest;
        Ok(())
    }

    /// True when the tracks are those of the drives.
    pub fn is_physical(&self) -> bool {
        matches!(self.members.first(), Some(LogTracks::Physical(_)))
    }

    /// Index of the log member that holds the track with index `track`.
    pub fn member_of(&self, track: u64) -> usize {
        (track % self.members.len() as u64) as usize
    }

    /// Byte offset of log sector `sector` on its member.
    pub fn byte_of(&self, sector: u64) -> u64 {
        let (track, within) = (self.track_of(sector), sector % self.track_sectors);
        self.track_start(track) + within * self.sector as u64
    }

    /// Byte offset of the track with index `track` on its member.
    pub fn track_start(&self, track: u64) -> u64 {
        let within = track / self.members.len() as u64;
        match &self.members[self.member_of(track)] {
            LogTracks::Even { offset } => offset + within * self.track_sectors * self.sector as u64,
            LogTracks::Physical(map) => {
                let start = map.track(within).first * DRIVE_SECTOR;
                start.next_multiple_of(self.sector as u64)
            }
        }
    }

    /// Sectors of the track with index `track`.
    pub fn track_length(&self, track: u64) -> u64 {
        match &self.members[self.member_of(track)] {
            LogTracks::Even { .. } => self.track_sectors,
            LogTracks::Physical(map) => {
                let track = map.track(track / self.members.len() as u64);
                whole_sectors(track.first, track.end(), self.sector)
            }
        }
    }

    /// Bytes of the track with index `track`.
    pub fn track_bytes(&self, track: u64) -> usize {
        self.track_length(track) as usize * self.sector
    }

    /// Bytes of all tracks.
    pub fn bytes(&self) -> u64 {
        let physical = self.members.iter().map(|member| match member {
            LogTracks::Even { .. } => 0,
            LogTracks::Physical(map) => {
                let runs = map.runs().iter();
                runs.map(TrackRun::length).sum::<u64>() * DRIVE_SECTOR
            }
        });
        match physical.sum() {
            0 => self.tracks * self.track_sectors * self.sector as u64,
            bytes => bytes,
        }
    }

    /// Track of log sector `sector`.
    pub const fn track_of(&self, sector: u64) -> u64 {
        sector / self.track_sectors
    }

    /// The sectors of a range of log sectors on one track as the drive counts them.
    pub fn drive_span(&self, sector: u64, sectors: u64) -> Span {
        let start = self.byte_of(sector) / DRIVE_SECTOR;
        Span {
            start,
            end: start + sectors * self.sector as u64 / DRIVE_SECTOR,
        }
    }

    /// Payload sectors of one home block.
    pub const fn block_sectors(&self) -> u64 {
        (self.block_size / self.sector) as u64
    }

    /// Sectors of any track that commits can use. One sector is kept for a marker, one may hold the header of a
    /// second record of a split commit, and a rest too small for a block is lost at the end.
    pub const fn track_sectors_usable(&self) -> u64 {
        self.track_sectors_min - 2 - self.block_sectors()
    }

    /// Most sectors that a commit of `blocks` blocks of data and `ranges` ranges takes, without those that
    /// [`LogGeometry::track_sectors_usable`] leaves out.
    pub const fn commit_sectors(&self, blocks: u64, ranges: u64) -> u64 {
        1 + blocks * self.block_sectors() + (blocks + ranges) / self.entries_max()
    }

    /// Bytes of a sector.
    pub const fn sector_bytes(&self) -> u64 {
        self.sector as u64
    }

    /// Most sectors that one commit may take: all tracks but the current one and the two spare ones.
    pub const fn commit_sectors_max(&self) -> u64 {
        (self.tracks - 3) * self.track_sectors_usable()
    }

    /// Sectors that a commit of data of `sectors` sectors leaves free for commits that free space at home: a track,
    /// or all others if they are fewer.
    pub const fn spare_sectors(&self, sectors: u64) -> u64 {
        let left = self.commit_sectors_max() - sectors;
        let track = self.track_sectors_usable();
        if left < track { left } else { track }
    }

    /// Most blocks that one commit may have.
    pub const fn commit_blocks_max(&self) -> u64 {
        let sectors = self.commit_sectors_max().saturating_sub(8);
        let entries = self.entries_max();
        // One sector more for each full record.
        sectors * entries / (entries * self.block_sectors() + 1)
    }

    /// Fewest data entries, or slots of other entries, of a full record. A run of words that is split between two
    /// records takes up to two slots more than in one.
    const fn entries_max(&self) -> u64 {
        let entries = (self.sector - tonearm_format::RECORD_FIXED_BYTES) as u64
            / (tonearm_format::ENTRY_BYTES as u64 + self.block_sectors());
        if entries > 3 { entries - 2 } else { 1 }
    }
}

/// Log sectors between two sectors of a drive.
fn whole_sectors(first: u64, end: u64, sector: usize) -> u64 {
    let ratio = sector as u64 / DRIVE_SECTOR;
    (end / ratio).saturating_sub(first.div_ceil(ratio))
}

/// Shortest and longest track of `map` in log sectors of `sector` bytes. Each may be one sector too small and is
/// never too large.
pub fn track_lengths(map: &TrackMap, sector: usize) -> (u64, u64) {
    let ratio = sector as u64 / DRIVE_SECTOR;
    let runs = map.runs().iter();
    let each = runs.map(|run| {
        let least = u64::from(run.sectors - run.short) / ratio;
        let most = u64::from(run.sectors) / ratio;
        (least.saturating_sub(u64::from(ratio > 1)), most)
    });
    each.fold((u64::MAX, 0), |(short, long), (least, most)| {
        (short.min(least), long.max(most))
    })
}

fn run_of(run: &SheetRun) -> TrackRun {
    TrackRun {
        first: run.first,
        tracks: run.tracks,
        sectors: run.sectors,
        turn_sectors: run.turn_sectors,
        angle: run.angle,
        group: run.group,
        at: run.at,
        short: run.short,
        track_skew: run.track_skew,
        cylinder_skew: run.cylinder_skew,
    }
}

/// The run in the form of a sheet.
pub fn sheet_run(run: &TrackRun) -> SheetRun {
    SheetRun {
        first: run.first,
        tracks: run.tracks,
        sectors: run.sectors,
        turn_sectors: run.turn_sectors,
        angle: run.angle,
        group: run.group,
        at: run.at,
        short: run.short,
        track_skew: run.track_skew,
        cylinder_skew: run.cylinder_skew,
    }
}
