//! What is simulated.

use crate::raid::Raid;
use thiserror::Error;
use tonearm_base::Nanos;
use tonearm_drive_file::DriveSpec;
use tonearm_layout::separation::Estimate;

/// Where a written page goes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Layout {
    /// Each page is overwritten in its place.
    Overwrite,
    /// Each page is appended.
    Lfs,
    /// Each page is appended. Two segments are written at a time, with the pages that are written often in the first one.
    Wolf,
    /// Hot pages are appended, cold ones overwritten. The separator estimates the share of the hot writes so.
    Hylog(Estimate),
    /// HyLog with a given share of hot pages, by the counts of the separator.
    Forced(f64),
    /// SepBIT (Wang and others, FAST 2022): each page is appended, in six classes by expected lifetime.
    Sepbit,
}

impl Layout {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Overwrite => "Overwrite",
            Self::Lfs => "LFS",
            Self::Wolf => "WOLF",
            Self::Hylog(Estimate::SameWrites) => "HyLog",
            Self::Hylog(Estimate::LaterWrites) => "HyLog, later writes",
            Self::Forced(_) => "HyLog, forced share",
            Self::Sepbit => "SepBIT",
        }
    }

    /// True if pages may be cold.
    pub(crate) fn separates(self) -> bool {
        matches!(self, Self::Hylog(_) | Self::Forced(_))
    }
}

/// How the cleaner makes free segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cleaning {
    /// The cheapest of cost-age and plugging, in the hot and in the cold partition (HyLog 4.3).
    #[default]
    Adaptive,
    /// Cleans the segments with the largest value of (1 - u) * age / (1 + u).
    CostAge,
    /// Cleans the segments with the fewest live pages.
    Greedy,
    /// Writes the live pages of the emptiest segments into holes of the fullest ones.
    Plugging,
}

/// How segments lie on the disks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Redundancy {
    /// A segment is a chunk on each disk.
    #[default]
    Raid0,
    /// A segment is a chunk on each disk but one, which has the parity of the others.
    Raid5,
}

/// A simulated system.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The drive of which all disks are.
    pub drive: DriveSpec,
    /// Number of disks.
    pub disks: u32,
    /// How segments lie on them.
    pub redundancy: Redundancy,
    /// Where written pages go.
    pub layout: Layout,
    /// How free segments are made.
    pub cleaning: Cleaning,
    /// Users, each of which waits for the end of its request.
    pub users: u32,
    /// Pages. All have content.
    pub pages: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Bytes of a segment on one disk.
    pub chunk_bytes: u32,
    /// Share of the used space that the pages take. The rest of the disks is not touched.
    pub utilisation: f64,
    /// Time from one decision of the separator to the next.
    pub interval: Nanos,
    /// HyLog writes two segments of hot pages at a time, with the pages that are written often in the first one, as WOLF does
    /// (HyLog 4.1 leaves it out).
    pub sorts_hot: bool,
    /// The separator also counts the copies of the cleaner as writes. HyLog 4.2 counts "whenever a page is written to the
    /// disk", which may mean both.
    pub counts_copies: bool,
    /// Users take no request while a pass of the cleaner is under way. HyLog does not say so, but its disks are idle for
    /// 30 % of the time (6.2).
    pub cleaner_blocks: bool,
    /// A cold page that lies in the hot partition is overwritten there, until the cleaner moves it: the product's rule. HyLog 4.1
    /// writes it to the cold partition.
    pub cools_in_place: bool,
    /// The separator takes into account that the cleaner's free segments are of no use to it.
    pub counts_reserve: bool,
    /// Memory of the separator's counters in bytes. Adjacent pages share one when there are more pages.
    pub counter_bytes: usize,
    /// Seed of the phases of the platters.
    pub seed: u64,
}

/// A setup that cannot be simulated.
#[derive(Error, Clone, PartialEq, Debug)]
pub enum SetupError {
    /// Too few disks.
    #[error("{redundancy:?} needs at least {least} disks, not {disks}")]
    Disks {
        /// How the segments lie.
        redundancy: Redundancy,
        /// Disks that it needs.
        least: u32,
        /// Disks of the setup.
        disks: u32,
    },
    /// Sizes that do not fit together.
    #[error("pages of {page} bytes do not fill chunks of {chunk} bytes, or are no multiple of 512")]
    Sizes {
        /// Bytes of a page.
        page: u32,
        /// Bytes of a chunk.
        chunk: u32,
    },
    /// Nobody, or no pages.
    #[error("a simulation needs a user and a page")]
    Nothing,
    /// More segments than the disks have.
    #[error("the data need {segments} segments, and the disks have {most}")]
    Full {
        /// Segments of the setup.
        segments: u64,
        /// Segments that there are.
        most: u64,
    },
    /// Too many pages for this simulator.
    #[error("{slots} pages of space are more than the simulator's {most}")]
    Large {
        /// Pages of the used space.
        slots: u64,
        /// Largest possible number.
        most: u64,
    },
    /// The cleaner cannot work.
    #[error(
        "at a utilisation of {utilisation}, {spare} segments are left, and the cleaner needs {least}"
    )]
    Spare {
        /// Utilisation of the setup.
        utilisation: f64,
        /// Segments without data.
        spare: u64,
        /// Segments that the cleaner needs.
        least: u64,
    },
}

/// Slots that can be numbered.
const SLOTS_MAX: u64 = u32::MAX as u64 - 16;
/// Least number of segments without data.
const SPARE_MIN: u64 = 8;

impl Setup {
    /// Paper 2's default: RAID-0, 20 users, decisions every 20 minutes, 4-KB pages, chunks of 512 KB.
    pub fn new(drive: &DriveSpec, layout: Layout, pages: u64) -> Self {
        Self {
            drive: drive.clone(),
            disks: 4,
            redundancy: Redundancy::Raid0,
            layout,
            cleaning: Cleaning::Adaptive,
            users: 20,
            pages,
            page_bytes: 4096,
            chunk_bytes: 512 << 10,
            utilisation: 0.9,
            interval: Nanos(20 * 60 * 1_000_000_000),
            sorts_hot: false,
            counts_copies: false,
            cleaner_blocks: false,
            cools_in_place: false,
            counts_reserve: false,
            counter_bytes: usize::MAX,
            seed: 1,
        }
    }

    /// True when users' pages are sorted before they are appended.
    pub(crate) fn sorts(&self) -> bool {
        self.layout == Layout::Wolf || self.sorts_hot && self.layout.separates()
    }

    /// Pages of a segment.
    pub fn segment_pages(&self) -> u32 {
        self.raid(0).segment_pages()
    }

    /// Segments of the used space.
    pub fn segments(&self) -> u64 {
        let slots = self.pages as f64 / self.utilisation;
        let segments = (slots / f64::from(self.segment_pages())).round() as u64;
        segments.max(self.full_segments())
    }

    /// Segments that the pages fill when they are packed.
    fn full_segments(&self) -> u64 {
        self.pages.div_ceil(u64::from(self.segment_pages()))
    }

    pub(crate) fn raid(&self, segments: u32) -> Raid {
        Raid::new(
            self.redundancy,
            self.disks,
            self.chunk_bytes / self.page_bytes,
            segments,
        )
    }

    /// The number of segments, if all is right. Each disk has `disk_bytes`.
    pub(crate) fn check(&self, disk_bytes: u64) -> Result<u32, SetupError> {
        let least = match self.redundancy {
            Redundancy::Raid0 => 1,
            Redundancy::Raid5 => 3,
        };
        if self.disks < least {
            return Err(SetupError::Disks {
                redundancy: self.redundancy,
                least,
                disks: self.disks,
            });
        }
        let (page, chunk) = (self.page_bytes, self.chunk_bytes);
        if page == 0 || chunk == 0 || page % 512 != 0 || chunk % page != 0 {
            return Err(SetupError::Sizes { page, chunk });
        }
        if self.users == 0 || self.pages == 0 {
            return Err(SetupError::Nothing);
        }
        let segments = self.segments();
        let slots = segments.saturating_mul(u64::from(self.segment_pages()));
        if slots > SLOTS_MAX {
            return Err(SetupError::Large {
                slots,
                most: SLOTS_MAX,
            });
        }
        let most = disk_bytes / u64::from(chunk);
        if segments > most {
            return Err(SetupError::Full { segments, most });
        }
        let spare = segments - self.full_segments();
        if self.layout != Layout::Overwrite && spare < SPARE_MIN {
            return Err(SetupError::Spare {
                utilisation: self.utilisation,
                spare,
                least: SPARE_MIN,
            });
        }
        Ok(segments as u32)
    }
}
