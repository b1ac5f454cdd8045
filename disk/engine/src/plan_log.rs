//! Planning the log of a new store: how many tracks of which length on which members.

use crate::error::EngineError;
use crate::log_drives;
use crate::params::{CreateParams, HeadParams, MemberSpace};
use tonearm_format::{
    HEADER_AREA_BYTES, HeadKind, LOG_TRACKS_MIN, SECTOR, SHEET_BYTES_MAX, TRACK_OVERHEAD_SECTORS,
    TrackSheet, trailer_offset,
};
use tonearm_head::TrackMap;

/// Smallest and largest log that is chosen by itself.
const LOG_DEFAULT: (u64, u64) = (64 << 20, 1 << 30);
const TRACK_MAX: u64 = 1 << 20;
const TRACK_MIN: u64 = 64 << 10;
/// Bytes of the sectors in which a [`TrackMap`] counts.
const DRIVE_SECTOR: u64 = 512;

/// The log of a new store.
pub(crate) struct LogPlan {
    /// Bytes of the longest track.
    pub track_bytes: u32,
    /// Tracks of all members together.
    pub tracks: u64,
    /// Where the log ends, on members that carry nothing else and whose heads are followed.
    pub ends: Vec<(usize, u64)>,
    /// Their sheets.
    pub sheets: Vec<(usize, TrackSheet)>,
}

/// Plans the log.
///
/// # Errors
/// When it does not fit, or the heads cannot be followed, with what would work.
pub(crate) fn plan_log(
    params: &CreateParams,
    members: &[MemberSpace],
) -> Result<LogPlan, EngineError> {
    let members: Vec<(usize, &MemberSpace)> = members
        .iter()
        .enumerate()
        .filter(|(_, member)| member.roles.log)
        .collect();
    let Some(head) = &params.head else {
        if members.len() > 1 {
            return fail(
                "several log drives need --head: without it nothing is gained by them".into(),
            );
        }
        let (track_bytes, tracks) = even_tracks(params, members[0].1, 1, SECTOR as u64)?;
        return Ok(LogPlan {
            track_bytes,
            tracks,
            ends: Vec::new(),
            sheets: Vec::new(),
        });
    };
    if members.iter().any(|(_, member)| member.roles.data) {
        return fail("a head can be followed only on a drive that carries the log alone: give one with --log".into());
    }
    if head.drives.len() != members.len() {
        return fail(format!(
            "there are {} log drives, and {} are described",
            members.len(),
            head.drives.len()
        ));
    }
    for drive in &head.drives {
        match head.kind {
            HeadKind::Formula if drive.tracks.is_none() || drive.deltas.is_none() => {
                return fail("the formula needs the drive's tracks: calibrate it first (tonearm-lab calibrate), and name the file with --log-drive".into());
            }
            HeadKind::Mimic if drive.table.is_none() => {
                return fail("the mimic needs the drive's profile: take it first (tonearm-lab calibrate --profile)".into());
            }
            _ => {}
        }
    }
    let mut plan = if head.drives.iter().all(|drive| drive.tracks.is_some()) {
        plan_physical(params, head, &members)?
    } else if head.drives.iter().all(|drive| drive.tracks.is_none()) {
        plan_even(params, head, &members)?
    } else {
        return fail("the tracks of all log drives must be known, or those of none".into());
    };
    for ((index, sheet), drive) in plan.sheets.iter_mut().zip(&head.drives) {
        sheet.store = params.store;
        sheet.member_index = *index as u16;
        sheet.period_ps = drive.period_ps;
        if let Some(deltas) = &drive.deltas {
            log_drives::note_deltas(sheet, deltas);
        }
        sheet.switch_ns = drive.switch_ns;
        sheet.table.clone_from(&drive.table);
        let bytes = sheet.bytes();
        if bytes > SHEET_BYTES_MAX {
            return fail(format!(
                "the description of a log drive takes {bytes} bytes, {SHEET_BYTES_MAX} are the most: choose a smaller --log-size or a coarser profile"
            ));
        }
    }
    Ok(plan)
}

/// Stripes on each drive.
fn plan_even(
    params: &CreateParams,
    head: &HeadParams,
    members: &[(usize, &MemberSpace)],
) -> Result<LogPlan, EngineError> {
    let count = members.len() as u64;
    let mut plan: Option<(u32, u64)> = None;
    for (_, member) in members {
        let (bytes, tracks) = even_tracks(params, member, count, u64::from(head.sector_bytes))?;
        let bytes = plan.map_or(bytes, |(known, _)| known.min(bytes));
        let tracks = plan.map_or(tracks, |(_, known)| known.min(tracks));
        plan = Some((bytes, tracks));
    }
    let (track_bytes, tracks) = plan.unwrap_or_default();
    let end = HEADER_AREA_BYTES + tracks * u64::from(track_bytes);
    Ok(LogPlan {
        track_bytes,
        tracks: tracks * count,
        ends: members.iter().map(|(index, _)| (*index, end)).collect(),
        sheets: members
            .iter()
            .map(|(index, _)| (*index, TrackSheet::default()))
            .collect(),
    })
}

/// The physical tracks of each drive after the header area, as many as the log is to have.
fn plan_physical(
    params: &CreateParams,
    head: &HeadParams,
    members: &[(usize, &MemberSpace)],
) -> Result<LogPlan, EngineError> {
    let sector = u64::from(head.sector_bytes);
    let least = u64::from(params.block_size) + u64::from(TRACK_OVERHEAD_SECTORS) * sector;
    let mut maps = Vec::new();
    for ((_, member), drive) in members.iter().zip(&head.drives) {
        let wanted = wanted_bytes(params, member) / members.len() as u64;
        let end = member.available_bytes.map_or(u64::MAX, trailer_offset) / DRIVE_SECTOR;
        let all = drive
            .tracks
            .iter()
            .flat_map(|map| (0..map.tracks()).map(|index| map.track(index)));
        let mut bytes = 0;
        let chosen = all
            .filter(|track| {
                track.first * DRIVE_SECTOR >= HEADER_AREA_BYTES
                    && track.end() <= end
                    // A sector of the drive is lost where the log's are larger.
                    && (u64::from(track.sectors) * DRIVE_SECTOR).saturating_sub(2 * (sector - DRIVE_SECTOR)) >= least
            })
            .take_while(|track| {
                bytes += u64::from(track.sectors) * DRIVE_SECTOR;
                bytes <= wanted
            });
        let map = TrackMap::from_tracks(chosen).map_err(|_| {
            EngineError::Create(format!(
                "no track of the log drive has room for a block of {} bytes after the first MiB",
                params.block_size
            ))
        })?;
        maps.push(map);
    }
    let each = maps.iter().map(TrackMap::tracks).min().unwrap_or_default();
    let tracks = each * maps.len() as u64;
    if tracks < LOG_TRACKS_MIN {
        return fail(format!(
            "the log is too small: it needs at least {LOG_TRACKS_MIN} tracks, {tracks} fit"
        ));
    }
    let longest = maps
        .iter()
        .map(|map| tonearm_trail::track_lengths(map, sector as usize).1)
        .max();
    let ends = members.iter().zip(&maps).map(|((index, _), map)| {
        let end = map.track(map.tracks() - 1).end() * DRIVE_SECTOR;
        (*index, end.next_multiple_of(SECTOR as u64))
    });
    let sheets = members.iter().zip(&maps).map(|((index, _), map)| {
        let sheet = TrackSheet {
            runs: map.runs().iter().map(tonearm_trail::sheet_run).collect(),
            ..TrackSheet::default()
        };
        (*index, sheet)
    });
    Ok(LogPlan {
        track_bytes: (longest.unwrap_or_default() * sector) as u32,
        tracks,
        ends: ends.collect(),
        sheets: sheets.collect(),
    })
}

/// Bytes that the log is to have on `member` if it is the only one.
fn wanted_bytes(params: &CreateParams, member: &MemberSpace) -> u64 {
    let own_device = member.available_bytes.filter(|_| !member.roles.data);
    let wanted = params
        .log_bytes
        .or(own_device.map(|bytes| trailer_offset(bytes).saturating_sub(HEADER_AREA_BYTES)));
    wanted.unwrap_or((params.size_bytes / 2).clamp(LOG_DEFAULT.0, LOG_DEFAULT.1))
}

/// Track size in bytes and number of tracks on one of `members` log drives.
fn even_tracks(
    params: &CreateParams,
    member: &MemberSpace,
    members: u64,
    sector: u64,
) -> Result<(u32, u64), EngineError> {
    let wanted = wanted_bytes(params, member) / members;
    let least = (4 * u64::from(params.block_size))
        .next_power_of_two()
        .max(TRACK_MIN);
    let track = (wanted / 64)
        .next_power_of_two()
        .clamp(least, TRACK_MAX.max(least));
    let track = params.track_bytes.map_or(track, u64::from);
    let tracks = wanted / track;
    let overhead = u64::from(TRACK_OVERHEAD_SECTORS) * sector;
    if tracks * members < LOG_TRACKS_MIN || track < overhead + u64::from(params.block_size) {
        let least = LOG_TRACKS_MIN * track;
        return fail(format!(
            "the log is too small: it needs at least --log-size {least}"
        ));
    }
    if let Some(available) = member.available_bytes
        && HEADER_AREA_BYTES + tracks * track > trailer_offset(available)
    {
        return fail(format!(
            "the log of {wanted} bytes does not fit on its member of {available} bytes; choose a smaller --log-size"
        ));
    }
    Ok((track as u32, tracks))
}

fn fail<T>(why: String) -> Result<T, EngineError> {
    Err(EngineError::Create(why))
}
