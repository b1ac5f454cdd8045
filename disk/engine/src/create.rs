//! Making a store: what goes where, and the first superblocks.

use crate::error::EngineError;
use crate::params::{CreateParams, MemberSpace};
use crate::plan_log::{LogPlan, plan_log};
use crate::{log_drives, superblocks};
use async_recursion::async_recursion as boxed;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::{BufPool, Lsn};
use tonearm_device::Device;
use tonearm_format::{
    BLOCK_SIZE_MAX, BLOCK_SIZE_MIN, HEADER_AREA_BYTES, HeadKind, LogState, MEMBERS_MAX,
    MemberEntry, PATH_MAX, SECTOR, SYSTEM_BLOCKS, State, Superblock, TrackSheet, trailer_offset,
};
use tonearm_layout::layouts::{self, DataSpace};
use tonearm_rt::{IoError, Rt};

/// Bytes zeroed by one operation on a device that is not blank.
const ZERO_STEP: u64 = 1 << 30;

/// The plan of a new store.
#[derive(Clone, Debug)]
pub struct CreatePlan {
    /// The superblock of the new store.
    pub superblock: Superblock,
    /// Bytes that each member needs.
    pub member_bytes: Vec<u64>,
    /// The sheets of the log's drives, if their heads are followed, with the index of their member.
    pub sheets: Vec<(usize, TrackSheet)>,
}

impl CreatePlan {
    /// The first commit of the new store will be the one after `lsn`, because the store gets the state of that commit of
    /// another store. Until [`Engine::complete`](crate::Engine::complete) says that it has it, it is no store for anybody else.
    pub fn begin_after(&mut self, lsn: Lsn) {
        self.superblock.log.log_end_lsn = lsn.0;
        self.superblock.incomplete = true;
    }
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

impl NewMember {
    /// A device that reads as zeroes, of which nothing was written.
    pub fn blank(device: Rc<dyn Device>) -> Self {
        Self {
            device,
            blank: true,
            log_written: false,
        }
    }
}

/// Plans a store on `members`, of which the first is the primary one.
///
/// # Errors
/// When sizes or roles do not work. The error says which would.
pub fn plan_create(
    params: &CreateParams,
    members: &[MemberSpace],
) -> Result<CreatePlan, EngineError> {
    let block = u64::from(params.block_size);
    let log_member = check(params, members)?;
    let LogPlan {
        track_bytes,
        tracks: log_tracks,
        ends,
        sheets,
    } = plan_log(params, members)?;
    let log_bytes = u64::from(track_bytes) * log_tracks;
    let size_blocks = SYSTEM_BLOCKS + params.size_bytes.div_ceil(block);
    let mut entries = entries(members, log_bytes, ends);
    let spaces: Vec<DataSpace> = entries
        .iter()
        .zip(members)
        .filter(|(entry, _)| entry.roles.data)
        .map(|(entry, member)| DataSpace {
            offset: entry.data_offset,
            available_bytes: member.available_bytes.map(trailer_offset),
        })
        .collect();
    let home = layouts::plan(&params.home, params.block_size, size_blocks, &spaces)?;
    let data_entries = entries.iter_mut().filter(|entry| entry.roles.data);
    for (entry, groups) in data_entries.zip(home.groups) {
        entry.groups = groups;
    }
    let head = params.head.as_ref();
    let superblock = Superblock {
        store: params.store,
        generation: 1,
        epoch: 0,
        state: State::Clean,
        block_size: params.block_size,
        member_index: 0,
        log_member: log_member as u16,
        log_sector_bytes: head.map_or(SECTOR as u16, |head| head.sector_bytes),
        head: head.map_or(HeadKind::Sequential, |head| head.kind),
        physical_tracks: sheets.iter().any(|(_, sheet)| !sheet.runs.is_empty()),
        incomplete: false,
        track_bytes,
        log_offset: HEADER_AREA_BYTES,
        log_tracks,
        log: LogState {
            log_start_seq: 1,
            ..LogState::default()
        },
        size_blocks,
        created_unix_s: params.created_unix_s,
        trailer_offset: 0,
        layout: home.layout,
        array: None,
        members: entries,
    };
    let member_bytes = (0..members.len()).map(|index| superblock.member_bytes(index));
    Ok(CreatePlan {
        member_bytes: member_bytes.collect(),
        superblock,
        sheets,
    })
}

/// Checks what does not depend on the plan. Returns the index of the first member with the log.
fn check(params: &CreateParams, members: &[MemberSpace]) -> Result<usize, EngineError> {
    let fail = |why: String| Err(EngineError::Create(why));
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
    Ok(log_member)
}

/// Where the members have what, before the groups are known.
fn entries(members: &[MemberSpace], log_bytes: u64, ends: Vec<(usize, u64)>) -> Vec<MemberEntry> {
    let entry = |member: &MemberSpace| MemberEntry {
        uuid: member.uuid,
        roles: member.roles,
        data_offset: match (member.roles.data, member.roles.log) {
            (true, true) => HEADER_AREA_BYTES + log_bytes,
            (true, false) => HEADER_AREA_BYTES,
            (false, _) => 0,
        },
        groups: 0,
        path: member.path.clone(),
    };
    let mut entries: Vec<MemberEntry> = members.iter().map(entry).collect();
    for (index, end) in ends {
        entries[index].data_offset = end;
    }
    entries
}

/// Makes `range` of `device` read as zeroes. `progress` gets the bytes of each step.
///
/// # Errors
/// What the device said.
pub(crate) async fn clear(
    device: &Rc<dyn Device>,
    range: Range<u64>,
    mut progress: impl FnMut(u64),
) -> Result<(), IoError> {
    let mut at = range.start;
    while at < range.end {
        let step = ZERO_STEP.min(range.end - at);
        device.punch(at, step).await?;
        at += step;
        progress(step);
    }
    Ok(())
}

/// Clears the first `bytes` of `device`, and its trailer area: what an earlier store has left there must not be found.
///
/// # Errors
/// What the device said.
pub(crate) async fn clear_member(
    device: &Rc<dyn Device>,
    bytes: u64,
    mut progress: impl FnMut(u64),
) -> Result<(), IoError> {
    clear(device, 0..bytes, &mut progress).await?;
    let trailer = trailer_offset(device.size_bytes());
    clear(device, trailer..trailer + HEADER_AREA_BYTES, |_| {}).await
}

/// Writes an empty store: zeroes where zeroes must be, then the superblocks. `progress` gets bytes done
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
    write_empty(rt, pool, plan, members, &mut progress).await
}

#[boxed(?Send)]
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
        let failed = |error| EngineError::Clear {
            member: member.device.name().to_string(),
            error,
        };
        if !member.blank {
            let cleared = clear_member(&member.device, *bytes, |step| {
                done += step;
                progress(done, total);
            });
            cleared.await.map_err(failed)?;
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
    layouts::create(rt, pool, superblock, &devices).await?;
    superblocks::store(pool, &devices, superblock, true).await?;
    for array in devices.iter().filter_map(|device| device.redundancy()) {
        array.close().await?;
    }
    Ok(())
}
