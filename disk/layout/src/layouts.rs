//! Chooses the layout by the superblock, for planning, creating, opening, growing and rebuilding a home. No other code
//! of the program depends on which layout a store has.

use crate::error::{HomeError, PlanError};
use crate::home::Home;
use crate::overwrite::{self, Overwrite};
use crate::segments::{self, Plugging, RebuildReport, Segments};
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::Device;
use tonearm_format::{Layout, Placement, Superblock};
use tonearm_rt::Rt;

/// The layout of a new store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HomeParams {
    /// Each block has one fixed place.
    #[default]
    Overwrite,
    /// Blocks are appended to segments.
    Segments {
        /// Bytes of a segment.
        segment_bytes: u32,
        /// Share of the segments, in percent, that stays free. A larger share makes less work for the cleaner.
        spare_percent: u64,
        /// Which blocks are appended, and in which order.
        placement: Placement,
    },
}

impl HomeParams {
    /// The segments layout with its usual parameters.
    pub const SEGMENTS: Self = Self::Segments {
        segment_bytes: 1 << 20,
        spare_percent: 10,
        placement: Placement::Append,
    };
}

/// How a home is opened.
#[derive(Clone, Copy, Debug)]
pub struct HomeOptions {
    /// Bound on tables or map pages in memory. Those in use take a little more.
    pub map_cache_bytes: usize,
    /// Time between two decisions which blocks are hot (HyLog 4.2). The first ones come sooner.
    pub separation_interval: Nanos,
    /// Writes under way on a device while clients read (Trail 4.3), 1 to 64. With 64 reads do not go first.
    pub writes_while_reading: u64,
    /// When the cleaner moves blocks into holes.
    pub plugging: Plugging,
    /// Nothing is written.
    pub read_only: bool,
}

/// Space for the home on a data member of a new store.
#[derive(Clone, Copy, Debug)]
pub struct DataSpace {
    /// Byte offset at which the home's space begins.
    pub offset: u64,
    /// Bytes of the member; `None` for a file that takes the size it needs.
    pub available_bytes: Option<u64>,
}

/// The home's part of a new superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomePlan {
    /// The layout.
    pub layout: Layout,
    /// Units of space on each data member, in their order.
    pub groups: Vec<u64>,
}

/// Plans the home of a new store of `size_blocks` blocks on its data members.
///
/// # Errors
/// When the parameters are not possible, or the members are too small.
pub fn plan(
    params: &HomeParams,
    block_size: u32,
    size_blocks: u64,
    members: &[DataSpace],
) -> Result<HomePlan, PlanError> {
    let units = match *params {
        HomeParams::Overwrite => overwrite::units(block_size, size_blocks),
        HomeParams::Segments {
            segment_bytes,
            spare_percent,
            placement,
        } => segments::units(
            block_size,
            size_blocks,
            segment_bytes,
            spare_percent,
            placement,
        )?,
    };
    let mut left = units.wanted;
    let mut groups = vec![0; members.len()];
    let mut files = members
        .iter()
        .filter(|member| member.available_bytes.is_none())
        .count() as u64;
    // Members of given size get as many units as fit, and files share the rest.
    for (index, (groups, member)) in groups.iter_mut().zip(members).enumerate() {
        if let Some(available) = member.available_bytes {
            let before = if index == 0 { units.before_first } else { 0 };
            let space = available.saturating_sub(member.offset + before);
            *groups = (space / units.bytes).min(left);
            left -= *groups;
        }
    }
    for (groups, member) in groups.iter_mut().zip(members) {
        if member.available_bytes.is_none() {
            *groups = left.div_ceil(files);
            left -= *groups;
            files -= 1;
        }
    }
    if left > 0 {
        let found = units.wanted - left;
        let blocks = match *params {
            HomeParams::Overwrite => overwrite::blocks_of(block_size, found),
            HomeParams::Segments {
                segment_bytes,
                spare_percent,
                ..
            } => segments::blocks_of(
                block_size,
                segment_bytes,
                spare_percent,
                found,
                units.wanted,
            ),
        };
        return Err(PlanError::TooSmall {
            size_bytes: blocks * u64::from(block_size),
        });
    }
    Ok(HomePlan {
        layout: units.layout,
        groups,
    })
}

/// Makes the home of a new store, whose data members read as zeroes.
///
/// # Errors
/// When a device fails.
pub async fn create(
    rt: &Rt,
    pool: &BufPool,
    superblock: &Superblock,
    devices: &[Rc<dyn Device>],
) -> Result<(), HomeError> {
    match superblock.layout {
        // Space that reads as zeroes is a home of holes.
        Layout::Overwrite => Ok(()),
        Layout::Segments {
            segment_bytes,
            placement,
        } => {
            let members = segments::members(superblock, devices);
            let options = segments::options(superblock, segment_bytes, placement);
            Segments::create(rt, pool, members, &options).await
        }
    }
}

/// Opens the home of `superblock` on all members of the store, in its order, and recovers it if need be.
///
/// # Errors
/// When the home cannot be recovered, or a device fails.
pub async fn open(
    rt: &Rt,
    pool: &BufPool,
    superblock: &Superblock,
    devices: &[Rc<dyn Device>],
    how: HomeOptions,
) -> Result<Rc<dyn Home>, HomeError> {
    Ok(match superblock.layout {
        Layout::Overwrite => {
            let members = overwrite::members(superblock, devices);
            let size_blocks = superblock.size_blocks;
            Rc::new(Overwrite::new(
                rt,
                pool,
                members,
                size_blocks,
                how.map_cache_bytes,
                how.writes_while_reading,
            ))
        }
        Layout::Segments {
            segment_bytes,
            placement,
        } => {
            let members = segments::members(superblock, devices);
            let options = segments::SegmentsOptions {
                map_cache_bytes: how.map_cache_bytes,
                separation_interval: how.separation_interval,
                writes_while_reading: how.writes_while_reading,
                plugging: how.plugging,
                read_only: how.read_only,
                ..segments::options(superblock, segment_bytes, placement)
            };
            Rc::new(Segments::open(rt, pool, members, &options).await?)
        }
    })
}

/// The superblock of the store with at least `blocks` more home blocks, the index of the member that grows, and
/// the size in bytes that this member then needs. The caller first enlarges the member and then writes the superblock,
/// so a crash in between leaves a store of the old size on a longer member.
///
/// # Errors
/// When the layout cannot grow, or the store would be too large for its format.
pub fn grown(superblock: &Superblock, blocks: u64) -> Result<(Superblock, usize, u64), PlanError> {
    match superblock.layout {
        Layout::Overwrite => overwrite::grown(superblock, blocks),
        Layout::Segments { .. } => Err(PlanError::CannotGrow),
    }
}

/// The layout with another placement. All placements have the same format, so any of them takes over what another has
/// written.
///
/// # Errors
/// When the layout has no segments.
pub fn placed(layout: Layout, placement: Placement) -> Result<Layout, PlanError> {
    match layout {
        Layout::Overwrite => Err(PlanError::NoPlacement),
        Layout::Segments { segment_bytes, .. } => Ok(Layout::Segments {
            segment_bytes,
            placement,
        }),
    }
}

/// Rebuilds the map of the home from what the members say about their blocks. The store must not be in use. Its log
/// stays unchanged. `progress` gets the number of parts done, and of all.
///
/// # Errors
/// When the layout has no map, or a device fails.
pub async fn rebuild_map(
    rt: &Rt,
    pool: &BufPool,
    superblock: &Superblock,
    devices: &[Rc<dyn Device>],
    map_cache_bytes: usize,
    progress: impl FnMut(u64, u64),
) -> Result<RebuildReport, HomeError> {
    match superblock.layout {
        Layout::Overwrite => Err(HomeError::NoMap),
        Layout::Segments {
            segment_bytes,
            placement,
        } => {
            let members = segments::members(superblock, devices);
            let options = segments::SegmentsOptions {
                map_cache_bytes,
                ..segments::options(superblock, segment_bytes, placement)
            };
            Segments::rebuild(rt, pool, members, &options, progress).await
        }
    }
}
