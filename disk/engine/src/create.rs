//! Making a store: what goes where, and the first superblocks.

use crate::error::EngineError;
use crate::plan_log::{HeadParams, LogPlan, plan_log};
use crate::{log_drives, superblocks};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::Device;
use tonearm_format::{
    BLOCK_SIZE_MAX, BLOCK_SIZE_MIN, HEADER_AREA_BYTES, HeadKind, Layout, LogState, MEMBERS_MAX,
    MemberEntry, PATH_MAX, Roles, SECTOR, SEGMENT_BLOCKS_MIN, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN,
    SYSTEM_BLOCKS, SegmentLayout, State, Superblock, TrackSheet, Uuid, segments_for,
    segments_reserved, slot_entries,
};
use tonearm_rt::{Boxed, Rt};

/// Bytes zeroed by one operation on a device that is not blank.
const ZERO_STEP: u64 = 1 << 30;

/// What is wanted.
#[derive(Clone, Debug)]
pub struct CreateParams {
    /// Bytes for volumes.
    pub size_bytes: u64,
    /// Bytes of the log; chosen from the size when not given.
    pub log_bytes: Option<u64>,
    /// Bytes of a log track; chosen from the log's size when not given.
    pub track_bytes: Option<u32>,
    /// Bytes of a home block.
    pub block_size: u32,
    /// How the heads of the log's drives are followed; `None` for flash and files.
    pub head: Option<HeadParams>,
    /// Where blocks live at home.
    pub home: HomeParams,
    /// Identity of the store.
    pub store: Uuid,
    /// Now, in seconds since 1970.
    pub created_unix_s: u64,
}

/// The layout of the home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HomeParams {
    /// Each block has one fixed place.
    #[default]
    Overwrite,
    /// Blocks are appended to segments.
    Segments {
        /// Bytes of a segment.
        segment_bytes: u32,
        /// Share of the segments, in percent, that stays free: the more, the less the cleaner has to do.
        spare_percent: u64,
    },
}

impl HomeParams {
    /// The segments layout with its usual parameters.
    pub const SEGMENTS: Self = Self::Segments {
        segment_bytes: 1 << 20,
        spare_percent: 10,
    };
}

/// A member before its place is planned.
#[derive(Clone, Debug)]
pub struct MemberSpace {
    /// What it is to carry.
    pub roles: Roles,
    /// Bytes that it has; `None` for a file that takes the size it needs.
    pub available_bytes: Option<u64>,
    /// Its identity.
    pub uuid: Uuid,
    /// How later openings find it; empty for the primary member.
    pub path: String,
}

/// What goes where.
#[derive(Clone, Debug)]
pub struct CreatePlan {
    /// The superblock of the new store.
    pub superblock: Superblock,
    /// Bytes that each member needs.
    pub member_bytes: Vec<u64>,
    /// The sheets of the log's drives, if their heads are followed, with the index of their member.
    pub sheets: Vec<(usize, TrackSheet)>,
}

/// A member that is ready to be written.
pub struct NewMember {
    /// The device.
    pub device: Rc<dyn Device>,
    /// True when it is known to read as zeroes.
    pub blank: bool,
    /// True when the log's part of it has been written with zeroes: its space is there.
    pub log_written: bool,
}

/// Plans a store on `members`, of which the first is the primary one.
///
/// # Errors
/// When sizes or roles do not work, with what would.
pub fn plan_create(
    params: &CreateParams,
    members: &[MemberSpace],
) -> Result<CreatePlan, EngineError> {
    let fail = |why: String| Err(EngineError::Create(why));
    let block = u64::from(params.block_size);
    if !params.block_size.is_power_of_two()
        || !(BLOCK_SIZE_MIN..=BLOCK_SIZE_MAX).contains(&params.block_size)
    {
        return fail(format!(
            "the block size must be a power of two from {BLOCK_SIZE_MIN} to {BLOCK_SIZE_MAX}"
        ));
    }
    if params.size_bytes < 1 << 20 {
        return fail("the size must be at least 1 MiB".into());
    }
    if params.size_bytes > 1 << 56 {
        return fail("the size must be at most 64 PiB".into());
    }
    if members.is_empty() || members.len() > MEMBERS_MAX {
        return fail(format!("a store has 1 to {MEMBERS_MAX} members"));
    }
    let Some(log_member) = members.iter().position(|member| member.roles.log) else {
        return fail("one member must carry the log".into());
    };
    for member in members {
        if member.path.len() > PATH_MAX {
            return fail(format!(
                "{}: a member's path has at most {PATH_MAX} bytes",
                member.path
            ));
        }
    }
    let LogPlan {
        track_bytes,
        tracks: log_tracks,
        ends,
        sheets,
    } = plan_log(params, members)?;
    let log_bytes = u64::from(track_bytes) * log_tracks;
    let size_blocks = SYSTEM_BLOCKS + params.size_bytes.div_ceil(block);
    // A unit of space at home: a group, or a segment.
    let (layout, group_blocks, group_bytes, mut groups_left, before_first) = match params.home {
        HomeParams::Overwrite => {
            let group_blocks = slot_entries(params.block_size) as u64;
            let groups = size_blocks.div_ceil(group_blocks);
            let bytes = (group_blocks + 2) * block;
            (Layout::Overwrite, group_blocks, bytes, groups, 0)
        }
        HomeParams::Segments {
            segment_bytes,
            spare_percent,
        } => {
            let layout = segments_of(params.block_size, segment_bytes, spare_percent, size_blocks)?;
            let used = layout.payload_blocks() * (100 - spare_percent) / 100;
            let kind = Layout::Segments { segment_bytes };
            let bytes = u64::from(segment_bytes);
            (
                kind,
                used,
                bytes,
                layout.segments,
                layout.checkpoint_bytes(),
            )
        }
    };
    let groups_wanted = groups_left;
    let first_data = members.iter().position(|member| member.roles.data);
    let mut open_members = members
        .iter()
        .filter(|member| member.roles.data && member.available_bytes.is_none())
        .count() as u64;
    let mut entries: Vec<MemberEntry> = members
        .iter()
        .map(|member| MemberEntry {
            uuid: member.uuid,
            roles: member.roles,
            data_offset: if member.roles.data {
                HEADER_AREA_BYTES + if member.roles.log { log_bytes } else { 0 }
            } else {
                0
            },
            groups: 0,
            path: member.path.clone(),
        })
        .collect();
    for (index, end) in ends {
        entries[index].data_offset = end;
    }
    // Members of given size take what fits, files share the rest.
    for (index, (entry, member)) in entries.iter_mut().zip(members).enumerate() {
        if let (true, Some(available)) = (member.roles.data, member.available_bytes) {
            let before = if first_data == Some(index) {
                before_first
            } else {
                0
            };
            let room = available.saturating_sub(entry.data_offset + before);
            entry.groups = (room / group_bytes).min(groups_left);
            groups_left -= entry.groups;
        }
    }
    for (entry, member) in entries.iter_mut().zip(members) {
        if member.roles.data && member.available_bytes.is_none() {
            entry.groups = groups_left.div_ceil(open_members);
            groups_left -= entry.groups;
            open_members -= 1;
        }
    }
    if groups_left > 0 {
        let fits = (groups_wanted - groups_left).saturating_sub(match layout {
            Layout::Overwrite => 0,
            // Reserved segments, and those of the map.
            Layout::Segments { segment_bytes } => {
                let layout = SegmentLayout {
                    block_size: params.block_size,
                    segment_bytes,
                    segments: 0,
                };
                segments_reserved(&layout) + groups_wanted / 128 + 1
            }
        }) * group_blocks;
        let fits = fits.saturating_sub(SYSTEM_BLOCKS) * block;
        return fail(format!(
            "the data members are too small: at most --size {fits} fits on them"
        ));
    }
    let superblock = Superblock {
        version: Superblock::VERSION,
        store: params.store,
        generation: 1,
        epoch: 0,
        state: State::Clean,
        block_size: params.block_size,
        member_index: 0,
        log_member: log_member as u16,
        log_sector_bytes: params
            .head
            .as_ref()
            .map_or(SECTOR as u16, |head| head.sector_bytes),
        head: params
            .head
            .as_ref()
            .map_or(HeadKind::Sequential, |head| head.kind),
        physical_tracks: sheets.iter().any(|(_, sheet)| !sheet.runs.is_empty()),
        track_bytes,
        log_offset: HEADER_AREA_BYTES,
        log_tracks,
        log: LogState {
            log_start_seq: 1,
            ..LogState::default()
        },
        size_blocks,
        created_unix_s: params.created_unix_s,
        layout,
        members: entries,
    };
    let member_bytes = (0..members.len()).map(|index| bytes_of(&superblock, index));
    Ok(CreatePlan {
        member_bytes: member_bytes.collect(),
        superblock,
        sheets,
    })
}

/// The segments that `size_blocks` blocks need.
fn segments_of(
    block_size: u32,
    segment_bytes: u32,
    spare_percent: u64,
    size_blocks: u64,
) -> Result<SegmentLayout, EngineError> {
    let blocks = u64::from(segment_bytes / block_size);
    if !segment_bytes.is_power_of_two()
        || !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes)
        || blocks < SEGMENT_BLOCKS_MIN
    {
        return Err(EngineError::Create(format!(
            "a segment has a power of two of bytes, from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}, and at least \
             {SEGMENT_BLOCKS_MIN} blocks"
        )));
    }
    if !(5..=75).contains(&spare_percent) {
        return Err(EngineError::Create(
            "the spare share of the segments must be from 5 to 75 percent".into(),
        ));
    }
    Ok(SegmentLayout {
        block_size,
        segment_bytes,
        segments: segments_for(block_size, segment_bytes, size_blocks, spare_percent),
    })
}

/// Bytes that member `index` needs.
fn bytes_of(superblock: &Superblock, index: usize) -> u64 {
    let entry = &superblock.members[index];
    if entry.roles.data {
        return superblock.data_end(index);
    }
    superblock.log_range(index).end.max(HEADER_AREA_BYTES)
}

/// Writes an empty store: zeroes where zeroes must be, then the superblocks. `progress` is told bytes done
/// and all bytes.
///
/// # Errors
/// When a member cannot be written.
pub async fn create(
    rt: &Rt,
    pool: &BufPool,
    plan: &CreatePlan,
    members: &[NewMember],
    mut progress: impl FnMut(u64, u64),
) -> Result<(), EngineError> {
    created(rt, pool, plan, members, &mut progress).await
}

fn created<'a>(
    rt: &'a Rt,
    pool: &'a BufPool,
    plan: &'a CreatePlan,
    members: &'a [NewMember],
    progress: &'a mut dyn FnMut(u64, u64),
) -> Boxed<'a, Result<(), EngineError>> {
    Box::pin(write_empty(rt, pool, plan, members, progress))
}

async fn write_empty(
    rt: &Rt,
    pool: &BufPool,
    plan: &CreatePlan,
    members: &[NewMember],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), EngineError> {
    let superblock = &plan.superblock;
    let total: u64 = members
        .iter()
        .zip(&plan.member_bytes)
        .filter(|(m, _)| !m.blank)
        .map(|(_, bytes)| *bytes)
        .sum();
    let mut done = 0;
    for (index, (member, bytes)) in members.iter().zip(&plan.member_bytes).enumerate() {
        let failed = |error| EngineError::Superblock {
            member: member.device.name().to_string(),
            what: "clearing the space behind",
            error,
        };
        let mut at = 0;
        while !member.blank && at < *bytes {
            let step = ZERO_STEP.min(bytes - at);
            member.device.punch(at, step).await.map_err(failed)?;
            at += step;
            done += step;
            progress(done, total);
        }
        let log = superblock.log_range(index);
        if !log.is_empty() && !member.log_written {
            // The log's space is taken now: a full disk must never stop the log.
            let zeroed = member.device.zero(log.start, log.end - log.start).await;
            zeroed.map_err(failed)?;
        }
    }
    let devices: Vec<Rc<dyn Device>> = members.iter().map(|member| member.device.clone()).collect();
    log_drives::store_sheets(pool, &plan.sheets, &devices).await?;
    crate::home::create(rt, pool, superblock, &devices).await?;
    superblocks::store(pool, &devices, superblock, true).await
}
