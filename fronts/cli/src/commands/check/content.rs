//! What the disk keeps in a store beside volumes: lists of blocks, and files.

use super::Findings;
use serde::Serialize;
use tonearm_base::BufPool;
use tonearm_disk::{Disk, DiskError, MemberDevice, OpenOptions};
use tonearm_fs::FsError;
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
    pub(super) problems: Vec<String>,
}

/// Verifies the lists and the file system of a store that was shut down in order.
pub(super) async fn verify(
    rt: &Rt,
    pool: &BufPool,
    members: Vec<MemberDevice>,
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
    let files = match tonearm_fs::check(&disk).await {
        Ok(report) => report.map(|report| Files {
            inodes: report.inodes,
            directories: report.directories,
            orphans: report.orphans,
            blocks: report.blocks,
            problems: report.problems,
        }),
        Err(error) => Some(unknown_files(&error)),
    };
    match disk.close().await {
        Ok(()) => (Some(lists), files),
        Err(error) => (Some(unknown_lists(&error)), files),
    }
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
            "lists and files are verified once recovery has run",
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
