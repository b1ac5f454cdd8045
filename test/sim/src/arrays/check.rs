//! What must hold of a store over an array after a power cut.
//!
//! With all drives there it opens, with a prefix of the commit order that contains everything acknowledged. At some of the
//! cuts:
//! - no block is damaged;
//! - after a close, the parity of all stripes matches, any member that is in use may be away, and everything reads the same. If a replacement is being
//!   rebuilt, the rebuild ends first;
//! - before that, a drive is away. Either the store opens with everything acknowledged, or the opening is refused with an
//!   error that names the drive, and changes nothing;
//! - the offline check finds nothing wrong, if no member is missing.

use super::image::{ArrayImage, drive_of};
use crate::blame::Blame;
use crate::counts::{Counts, Met};
use crate::cut;
use crate::oracle::{Oracle, Stamp};
use crate::workload::read_stamps;
use std::cell::Cell;
use std::rc::Rc;
use tonearm_device::Redundancy;
use tonearm_device::raid::{ArrayStatus, MemberState, RebuildRate, Trouble};
use tonearm_engine::{ArrayAccess, OpenOptions, Scrub};
use tonearm_format::ArrayLevel;

/// One of so many cuts is followed by each of the more costly comparisons.
const CHECK_EVERY: u64 = 8;

/// Verifies what the power cut `cut` has left, and returns the number of commits that it contains. `gone` is a drive that
/// has failed before.
///
/// # Errors
/// When a promise does not hold.
pub fn after_cut(
    left: &ArrayImage,
    oracle: &Oracle,
    cut: u64,
    ordered: bool,
    gone: Option<usize>,
    met: &mut Counts,
) -> Result<u64, String> {
    match cut % CHECK_EVERY {
        1 | 5 => without_a_drive(left, oracle, cut, ordered, gone, met)?,
        3 => offline(left, cut)?,
        _ => {}
    }
    with_all_drives(left, oracle, cut, ordered, met)
}

/// Opens the store with all drives, and finds the prefix of the commits that it contains.
///
/// # Errors
/// When a promise does not hold.
pub fn with_all_drives(
    image: &ArrayImage,
    oracle: &Oracle,
    cut: u64,
    ordered: bool,
    met: &mut Counts,
) -> Result<u64, String> {
    let (closes, scrubs) = (cut.is_multiple_of(4), cut % CHECK_EVERY == 2);
    let options = cut::options(cut, ordered);
    let (status, found, left) = read(image, &[], cut, options, scrubs, closes)?;
    let first = image.shape.store.first_block();
    let number = oracle.judge_from(first, &found)?;
    for member in &status.members {
        let stale = matches!(member.trouble, Some(Trouble::Stale(_)));
        met.met(Met::Stale, u64::from(stale));
        let rebuilding = matches!(member.state, MemberState::Rebuilding { .. });
        met.met(Met::CutInRebuild, u64::from(rebuilding));
    }
    if closes && image.shape.level == ArrayLevel::Raid5 {
        redundant(left, &found, cut, ordered, met)?;
    }
    Ok(number)
}

/// Opens the store without the drives `away`, and reads it. The array, the stamps, and what is left of the drives.
fn read(
    image: &ArrayImage,
    away: &[usize],
    seed: u64,
    options: OpenOptions,
    scrubs: bool,
    closes: bool,
) -> Result<(ArrayStatus, Vec<Stamp>, ArrayImage), String> {
    let away = away.to_vec();
    let (first, blocks) = (image.shape.store.first_block(), image.shape.store.blocks);
    let (found, world) = image.within_time(seed, |_, rt, own| async move {
        let open = own.open(&rt, &away, options).await;
        let open = open.map_err(|error| format!("the opening without {away:?} fails: {error}"))?;
        let status = open.array.status().expect("an array has a status");
        let found = read_stamps(&open.engine, first, blocks).await;
        let found = found.map_err(|stop| format!("without {away:?}: {stop}"))?;
        if scrubs {
            let report = open.engine.scrub(Scrub::Look, |_, _| true).await;
            let report = report.map_err(|error| format!("a scrub after recovery: {error}"))?;
            // Parity where the log has a zeroed range stays in doubt until the stripe is written or the array is closed.
            if !report.damaged.is_empty() {
                return Err(format!("a scrub after recovery finds {report:?}"));
            }
        }
        if closes {
            let closed = open.engine.close().await;
            closed.map_err(|error| format!("a close after recovery: {error}"))?;
        }
        Ok((status, found))
    });
    let (status, found) = found?;
    Ok((status, found, image.with(world.images())))
}

/// A closed store reads the same without a member that it can do without.
fn redundant(
    mut closed: ArrayImage,
    expected: &[Stamp],
    cut: u64,
    ordered: bool,
    met: &mut Counts,
) -> Result<(), String> {
    let (status, clean) = closed.look().map_err(|error| error.to_string())?;
    let count = status.members.len();
    let lacking = status
        .members
        .iter()
        .position(|member| member.state != MemberState::InUse);
    // Parity that cannot be compared without a member stays in doubt.
    if !clean && lacking.is_none() {
        return Err("a closed array is not clean".into());
    }
    let at = match lacking {
        Some(at) => match status.members[at].state {
            MemberState::Missing => at,
            _ => {
                closed = rebuilt(&closed, cut, ordered)?;
                met.met(Met::Rebuilt, 1);
                (at + 1 + cut as usize / 4 % (count - 1)) % count
            }
        },
        None => cut as usize / 4 % count,
    };
    if cut.is_multiple_of(CHECK_EVERY) && clean {
        parity(&closed, cut, ordered)?;
    }
    let drive = drive_of(&status.members[at].name).ok_or("a drive has another name")?;
    let options = cut::options(cut, ordered);
    let (_, found, _) = read(&closed, &[drive], cut, options, false, false)?;
    match found.iter().zip(expected).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(at) => Err(format!(
            "closed, and without drive {drive}: block {} has {:x} in place of {:x}",
            closed.shape.store.first_block() + at as u64,
            found[at],
            expected[at]
        )),
    }
}

/// A scrub of a closed store finds nothing wrong.
fn parity(closed: &ArrayImage, seed: u64, ordered: bool) -> Result<(), String> {
    let options = cut::options(seed, ordered);
    let (report, _) = closed.within_time(seed, |_, rt, own| async move {
        let open = own.open(&rt, &[], options).await;
        let open = open.map_err(|error| error.to_string())?;
        let report = open.engine.scrub(Scrub::Look, |_, _| true).await;
        report.map_err(|error| format!("a scrub of a closed array: {error}"))
    });
    let report = report?;
    match report.is_sound() {
        true => Ok(()),
        false => Err(format!("a scrub of a closed array finds {report:?}")),
    }
}

/// The store after the rebuild has ended.
fn rebuilt(image: &ArrayImage, seed: u64, ordered: bool) -> Result<ArrayImage, String> {
    let options = cut::options(seed, ordered);
    let (done, world) = image.within_time(seed, |_, rt, own| async move {
        let open = own
            .open(&rt, &[], options)
            .await
            .map_err(|error| error.to_string())?;
        let rebuild = open
            .engine
            .rebuild_array(RebuildRate::default(), Box::new(|_, _| {}));
        rebuild
            .await
            .map_err(|error| format!("a rebuild after recovery: {error}"))?;
        open.engine.close().await.map_err(|error| error.to_string())
    });
    done.map(|()| image.with(world.images()))
}

/// Opens the store for writing without one drive.
fn without_a_drive(
    left: &ArrayImage,
    oracle: &Oracle,
    cut: u64,
    ordered: bool,
    gone: Option<usize>,
    met: &mut Counts,
) -> Result<(), String> {
    let (status, clean) = left.look().map_err(|error| error.to_string())?;
    let drives: Vec<Option<usize>> = status.members.iter().map(|m| drive_of(&m.name)).collect();
    let of_gone = drives
        .iter()
        .position(|drive| drive.is_some() && *drive == gone);
    let at = of_gone.unwrap_or(cut as usize / 8 % drives.len());
    let drive = drives[at].ok_or("a drive has another name")?;
    let opens = opens_without(&status, clean, at);
    let changes = Rc::new(Cell::new(0));
    let seen = changes.clone();
    let options = cut::options(cut, ordered);
    let (first, blocks) = (left.shape.store.first_block(), left.shape.store.blocks);
    let (found, _) = left.within_time(cut, |world, rt, own| {
        world.on_io(move |_, _| seen.set(seen.get() + 1));
        async move {
            match own.open(&rt, &[drive], options).await {
                Ok(open) => Ok(Ok(read_stamps(&open.engine, first, blocks).await)),
                Err(error) => Ok(Err(error.to_string())),
            }
        }
    });
    match (found?, opens) {
        (Ok(found), true) => {
            let found = found.map_err(|stop| format!("without drive {drive}: {stop}"))?;
            let judged = oracle.judge_from(first, &found);
            judged.map_err(|what| format!("without drive {drive}: {what}"))?;
            met.met(Met::Degraded, 1);
            Ok(())
        }
        (Err(error), false) if changes.get() > 0 => Err(format!(
            "the opening without drive {drive} is refused ({error}) after {} changes",
            changes.get()
        )),
        (Err(error), false) if !error.contains(&format!("disk.{drive}")) => Err(format!(
            "the opening without drive {drive} is refused, and the error does not name it: {error}"
        )),
        (Err(_), false) => {
            met.met(Met::Refused, 1);
            Ok(())
        }
        (Ok(_), false) => Err(format!(
            "the store opens without drive {drive}, which it cannot do without: {status:?}"
        )),
        (Err(error), true) => Err(format!(
            "the opening without drive {drive} is refused: {error}; {:?}, clean: {clean}",
            status.members
        )),
    }
}

/// True when an array in this state opens for writing without the drive of member `at`.
fn opens_without(status: &ArrayStatus, clean: bool, at: usize) -> bool {
    if status.level == ArrayLevel::Raid0 {
        return false;
    }
    let lacking = status
        .members
        .iter()
        .position(|member| member.state != MemberState::InUse);
    match lacking {
        None => clean,
        Some(other) if other != at => false,
        Some(_) => match status.members[at].state {
            // After a crash, what is restored may be needed to correct the parity.
            MemberState::Rebuilding { rebuilt_rows } => clean || rebuilt_rows == 0,
            _ => true,
        },
    }
}

/// Runs the offline check.
fn offline(left: &ArrayImage, cut: u64) -> Result<(), String> {
    let (examined, _) = left.within_time(cut, |_, rt, own| async move {
        let array = own.array(&rt, &[], ArrayAccess::Read).await;
        let array = array.map_err(|error| format!("an opening for reading: {error}"))?;
        if array.status().is_some_and(|status| status.is_degraded()) {
            // The stripes that the cut has torn are completed by an opening for writing.
            return Ok(true);
        }
        let members = vec![own.device(&rt, 0), array.member()];
        cut::examine(&rt, members, Blame::default()).await
    });
    examined.map(drop)
}
