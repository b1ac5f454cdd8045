//! What the disk keeps in a store beside volumes: lists of blocks, and files.

use super::Findings;
use serde::Serialize;
use std::collections::BTreeSet;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::Overlay;
use tonearm_disk::{Disk, DiskError, MemberDevice, OpenOptions};
use tonearm_fs::{FsError, OwnedBlocks, path_text};
use tonearm_rt::Rt;
use tonearm_terminal::report;

#[derive(Serialize, Default)]
pub(super) struct Lists {
    lists: u64,
    blocks: u64,
    pub(super) problems: Vec<String>,
}

#[derive(Serialize, Default)]
pub(super) struct Files {
    inodes: u64,
    directories: u64,
    /// Files without a name, which the next opening for writing deletes.
    orphans: u64,
    blocks: u64,
    /// Content that damaged blocks have taken.
    damaged: Vec<DamagedFile>,
    pub(super) problems: Vec<String>,
}

/// A damaged part of a file.
#[derive(Serialize)]
struct DamagedFile {
    inode: u64,
    /// One of its paths; `None` for a file without a name.
    path: Option<String>,
    /// Where the part begins in the file, in bytes.
    offset: u64,
    bytes: u64,
}

impl DamagedFile {
    fn of(run: &OwnedBlocks, block_size: u32) -> Self {
        Self {
            inode: run.ino,
            path: run.path.as_deref().map(path_text),
            offset: run.first * u64::from(block_size),
            bytes: run.count * u64::from(block_size),
        }
    }
}

/// What a recovery in memory may write to a member: the blocks of a log, and the tables of all of them.
const RECOVERY_BYTES: u64 = 1 << 30;

/// As [`verify`], of a store that was not shut down in order. It is recovered in memory, and the members stay as they are. Nothing
/// is verified when the log holds too much for that.
pub(super) async fn verify_recovered(
    rt: &Rt,
    pool: &BufPool,
    members: Vec<MemberDevice>,
    damaged: &BTreeSet<u64>,
) -> (Option<Lists>, Option<Files>) {
    let over = |member: &MemberDevice| {
        let overlay = Overlay::new(member.device.clone(), RECOVERY_BYTES);
        Rc::new(overlay)
    };
    let overlays: Vec<Rc<Overlay>> = members.iter().map(over).collect();
    let members = members.into_iter().zip(&overlays);
    let members: Vec<MemberDevice> = members
        .map(|(member, overlay)| MemberDevice {
            device: overlay.clone(),
            path: member.path,
        })
        .collect();
    let options = OpenOptions::default();
    let recovered = match Disk::open(rt, pool, members.clone(), options, |_| {}).await {
        Ok(disk) => disk.close().await,
        Err(error) => Err(error),
    };
    match recovered {
        Ok(()) => verify(rt, pool, members, damaged).await,
        Err(_) if overlays.iter().any(|overlay| overlay.is_full()) => (None, None),
        Err(error) => (Some(unknown_lists(&error)), None),
    }
}

/// Verifies the lists and the file system of a store that was shut down in order. The files that have the home blocks
/// `damaged` are named.
pub(super) async fn verify(
    rt: &Rt,
    pool: &BufPool,
    members: Vec<MemberDevice>,
    damaged: &BTreeSet<u64>,
) -> (Option<Lists>, Option<Files>) {
    let options = OpenOptions {
        read_only: true,
        ..OpenOptions::default()
    };
    let disk = match Disk::open(rt, pool, members, options, |_| {}).await {
        Ok(disk) => disk,
        Err(error) => return (Some(unknown_lists(&error)), None),
    };
    let lists = match disk.check_lists().await {
        Ok(report) => Lists {
            lists: report.lists,
            blocks: report.blocks,
            problems: report.problems,
        },
        Err(error) => unknown_lists(&error),
    };
    let files = match verify_files(&disk, damaged).await {
        Ok(files) => files,
        Err(error) => Some(unknown_files(&error)),
    };
    match disk.close().await {
        Ok(()) => (Some(lists), files),
        Err(error) => (Some(unknown_lists(&error)), files),
    }
}

async fn verify_files(disk: &Disk, damaged: &BTreeSet<u64>) -> Result<Option<Files>, FsError> {
    let Some(report) = tonearm_fs::check(disk).await? else {
        return Ok(None);
    };
    let mut files = Files {
        inodes: report.inodes,
        directories: report.directories,
        orphans: report.orphans,
        blocks: report.blocks,
        damaged: Vec::new(),
        problems: report.problems,
    };
    let blocks: BTreeSet<_> = damaged
        .iter()
        .filter_map(|home| disk.list_block_at(*home))
        .collect();
    if !blocks.is_empty() {
        let part = |run| DamagedFile::of(run, disk.block_size());
        match tonearm_fs::owners(disk, &blocks).await {
            Ok(runs) => files.damaged = runs.iter().map(part).collect(),
            Err(error) => files.problems.push(format!(
                "the files with damaged blocks cannot be named: {error}"
            )),
        }
    }
    Ok(Some(files))
}

/// The content of pages that cannot be read is unknown.
fn unknown_lists(error: &DiskError) -> Lists {
    Lists {
        problems: vec![format!("the lists cannot be verified: {error}")],
        ..Lists::default()
    }
}

fn unknown_files(error: &FsError) -> Files {
    Files {
        problems: vec![format!("the files cannot be verified: {error}")],
        ..Files::default()
    }
}

pub(super) fn show(findings: &Findings) -> anyhow::Result<()> {
    let Some(lists) = &findings.lists else {
        return Ok(report::line(
            "lists and files are not verified: that needs a recovery first (--repair, or an opening for writing)",
        )?);
    };
    for problem in &lists.problems {
        report::line(format_args!("damage: {problem}"))?;
    }
    if lists.lists > 0 {
        report::line(format_args!(
            "verified {} lists of {} blocks",
            report::count(lists.lists),
            report::count(lists.blocks)
        ))?;
    }
    let Some(files) = &findings.files else {
        return Ok(());
    };
    for problem in &files.problems {
        report::line(format_args!("damage: {problem}"))?;
    }
    for part in &files.damaged {
        let (inode, at, end) = (part.inode, part.offset, part.offset + part.bytes);
        let name = match &part.path {
            Some(path) => format!("file {path} (inode {inode})"),
            None => format!("the file without a name of inode {inode}"),
        };
        report::line(format_args!(
            "damage: {name}: bytes {at} up to {end} are damaged"
        ))?;
    }
    report::line(format_args!(
        "verified {} files and directories of {} blocks",
        report::count(files.inodes),
        report::count(files.blocks)
    ))?;
    if files.orphans > 0 {
        report::line(format_args!(
            "{} files without a name are deleted when the store is opened for writing",
            report::count(files.orphans)
        ))?;
    }
    Ok(())
}
