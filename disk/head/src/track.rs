//! Physical tracks as a log uses them: their sectors, and the angles at which these pass under the head.

mod runs;

/// One physical track.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Track {
    /// Number of the track within its [`TrackMap`].
    pub index: u64,
    /// Its first sector.
    pub first: u64,
    /// Addressable sectors in a row, without spares and without slips among them.
    pub sectors: u32,
    /// Sectors that pass under the head in one revolution, spares and slips included.
    pub turn_sectors: u32,
    /// Angle of its first sector, in units of 2^-32 of a revolution.
    pub angle: u32,
}

/// Adjacent tracks of the same shape: cylinders of `group` tracks (fewer at the ends of the run).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrackRun {
    /// First sector of the first track.
    pub first: u64,
    /// Number of tracks.
    pub tracks: u32,
    /// Sectors of a track.
    pub sectors: u32,
    /// Sectors of a revolution.
    pub turn_sectors: u32,
    /// Angle of the first sector of the first track, in units of 2^-32 of a revolution.
    pub angle: u32,
    /// Tracks of a cylinder.
    pub group: u32,
    /// Place of the first track within its cylinder, from 0.
    pub at: u32,
    /// Sectors by which the last track of each cylinder is shorter (its spares).
    pub short: u32,
    /// Angle from the first sector of a track to that of the next in the same cylinder, in units of 2^-32.
    pub track_skew: u32,
    /// The same from the last track of a cylinder to the first of the next.
    pub cylinder_skew: u32,
}

/// The error in a description of tracks.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TrackMapError {
    /// A run is invalid by itself.
    #[error("run {run} of the tracks: {why}")]
    Run {
        /// Its number, from 0.
        run: usize,
        /// The error.
        why: &'static str,
    },
    /// There is no run.
    #[error("there are no tracks")]
    Empty,
}

/// The tracks of a log, in ascending order of sectors. Tracks with defects among their sectors are left out. Sectors
/// between two tracks of the map are not used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrackMap {
    runs: Vec<TrackRun>,
    /// Tracks before each run.
    before: Vec<u64>,
    tracks: u64,
}

impl TrackMap {
    /// The map of `runs`.
    ///
    /// # Errors
    /// When a run is empty, contradicts itself, or begins before the end of the one before it.
    pub fn new(runs: Vec<TrackRun>) -> Result<Self, TrackMapError> {
        let mut end = 0;
        for (index, run) in runs.iter().enumerate() {
            let fail = |why| Err(TrackMapError::Run { run: index, why });
            if run.tracks == 0 || run.group == 0 || run.at >= run.group {
                return fail("it has no tracks, or begins outside of its cylinder");
            }
            if run.sectors == 0 || run.short >= run.sectors || run.sectors > run.turn_sectors {
                return fail("its tracks have no sectors, or more than a revolution");
            }
            if run.first < end {
                return fail("it begins before the end of the run before it");
            }
            let Some(after) = run
                .first
                .checked_add(run.length())
                .filter(|end| end >> 48 == 0)
            else {
                return fail("it ends beyond any drive");
            };
            end = after;
        }
        if runs.is_empty() {
            return Err(TrackMapError::Empty);
        }
        let mut before = Vec::with_capacity(runs.len());
        let mut tracks = 0;
        for run in &runs {
            before.push(tracks);
            tracks += u64::from(run.tracks);
        }
        Ok(Self {
            runs,
            before,
            tracks,
        })
    }

    /// The runs.
    pub fn runs(&self) -> &[TrackRun] {
        &self.runs
    }

    /// Number of tracks.
    pub fn tracks(&self) -> u64 {
        self.tracks
    }

    /// The track with number `index`.
    ///
    /// # Panics
    /// When there is none.
    pub fn track(&self, index: u64) -> Track {
        let at = self.run_of(index);
        self.runs[at].track(index - self.before[at], index)
    }

    /// The track on which `sector` lies, if it is on one of the map.
    pub fn find(&self, sector: u64) -> Option<Track> {
        let at = self.runs.partition_point(|run| run.first <= sector);
        let at = at.checked_sub(1)?;
        let run = &self.runs[at];
        let within = run.index_of(sector - run.first)?;
        Some(run.track(within, self.before[at] + within))
    }

    /// Skew from one cylinder to the next at the track with number `index`, in units of 2^-32 of a revolution.
    ///
    /// # Panics
    /// When there is no such track.
    pub fn cylinder_skew(&self, index: u64) -> u32 {
        self.runs[self.run_of(index)].cylinder_skew
    }

    /// True when the tracks with these numbers are known to be in one cylinder.
    ///
    /// # Panics
    /// When there are no such tracks.
    pub fn same_cylinder(&self, one: u64, other: u64) -> bool {
        let at = self.run_of(one);
        let cylinder = |index: u64| self.runs[at].cylinders_before(index - self.before[at]);
        at == self.run_of(other) && cylinder(one) == cylinder(other)
    }

    /// Number of the run of the track with number `index`.
    fn run_of(&self, index: u64) -> usize {
        assert!(index < self.tracks, "a track beyond the map");
        self.before.partition_point(|before| *before <= index) - 1
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.runs.len() * (size_of::<TrackRun>() + size_of::<u64>())
    }
}

impl TrackRun {
    /// Sectors of all its tracks.
    pub fn length(&self) -> u64 {
        self.sectors_before(u64::from(self.tracks))
    }

    /// Cylinder changes before its track `within`.
    fn cylinders_before(&self, within: u64) -> u64 {
        (within + u64::from(self.at)) / u64::from(self.group)
    }

    fn sectors_before(&self, within: u64) -> u64 {
        within * u64::from(self.sectors) - self.cylinders_before(within) * u64::from(self.short)
    }

    fn track(&self, within: u64, index: u64) -> Track {
        let changes = self.cylinders_before(within);
        let last = (within + u64::from(self.at) + 1).is_multiple_of(u64::from(self.group));
        // Angles wrap at a revolution.
        let angle = u64::from(self.angle)
            .wrapping_add((within - changes).wrapping_mul(u64::from(self.track_skew)))
            .wrapping_add(changes.wrapping_mul(u64::from(self.cylinder_skew)));
        Track {
            index,
            first: self.first + self.sectors_before(within),
            sectors: self.sectors - if last { self.short } else { 0 },
            turn_sectors: self.turn_sectors,
            angle: angle as u32,
        }
    }

    /// The track on which the sector `offset` sectors after the first one lies.
    fn index_of(&self, offset: u64) -> Option<u64> {
        if offset >= self.length() {
            return None;
        }
        let (mut low, mut high) = (0, u64::from(self.tracks));
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.sectors_before(middle) <= offset {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(low)
    }
}

impl Track {
    /// The sector after its last one.
    pub fn end(&self) -> u64 {
        self.first + u64::from(self.sectors)
    }

    /// Angle at which `sector`, on this track, begins, in units of 2^-32 of a revolution.
    pub fn angle_of(&self, sector: u64) -> u32 {
        let within = ((sector - self.first) << 32) / u64::from(self.turn_sectors);
        self.angle.wrapping_add(within as u32)
    }
}

#[cfg(test)]
#[path = "track/track_test.rs"]
mod track_test;
