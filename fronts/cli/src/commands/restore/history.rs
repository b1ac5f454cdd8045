//! `tonearm history`.

use super::{only, open, target};
use crate::cli::History;
use crate::commands::exit_code::DAMAGED;
use anyhow::bail;
use std::process::ExitCode;
use tonearm_archive::{Catalog, Target};
use tonearm_format::{ArchiveHeader, ArchiveKind};
use tonearm_fs::path_text;
use tonearm_terminal::{report, size};

/// Most sentences of one kind that are noted beside what was asked for.
const NOTES_MAX: usize = 10;

/// Shows what an archive has.
///
/// # Errors
/// When there is none, or the bucket fails.
pub fn history(arguments: &History) -> anyhow::Result<ExitCode> {
    let bucket = open(&arguments.url, &arguments.identities)?;
    if arguments.names {
        return only::names(arguments, &bucket);
    }
    let catalog = bucket.block_on(Catalog::load(&bucket))?;
    if target(&arguments.target)? != Target::Latest {
        bail!("a commit is chosen for its volumes and files; add --names to show them");
    }
    let faults = catalog.faults();
    if arguments.json {
        show_json(&catalog, &faults)?;
    } else {
        show(&catalog)?;
        report_strays(&catalog);
    }
    Ok(report_faults(&faults, arguments.json))
}

/// The commits of which old ones are merged.
fn merged(catalog: &Catalog) -> impl DoubleEndedIterator<Item = &ArchiveHeader> {
    let ranges = catalog.ranges();
    ranges.filter(|range| range.kind == ArchiveKind::Merged)
}

fn encrypted(catalog: &Catalog) -> usize {
    catalog.ranges().filter(|range| range.encrypted).count()
}

fn chain_bytes(catalog: &Catalog) -> u64 {
    catalog.links.values().map(|link| link.stored_bytes).sum()
}

fn show_json(catalog: &Catalog, faults: &[String]) -> anyhow::Result<()> {
    let parts: Vec<_> = catalog
        .restorable()
        .iter()
        .map(|part| {
            serde_json::json!({
                "first_lsn": part.first.0, "last_lsn": part.last.0, "last_unix_ms": part.unix_ms,
                "base": part.base,
            })
        })
        .collect();
    let merged: Vec<_> = merged(catalog)
        .map(|range| {
            serde_json::json!({
                "first_lsn": range.first, "last_lsn": range.last, "last_unix_ms": range.unix_ms,
            })
        })
        .collect();
    let marks: Vec<_> = catalog
        .marks
        .iter()
        .map(|(name, mark)| serde_json::json!({ "name": name, "lsn": mark.last, "unix_ms": mark.unix_ms }))
        .collect();
    report::json(&serde_json::json!({
        "archive": catalog.url, "objects": catalog.links.len(), "chain_bytes": chain_bytes(catalog),
        "encrypted_ranges": encrypted(catalog),
        "restorable": parts, "merged": merged, "marks": marks, "faults": faults, "strays": catalog.strays,
    }))
}

fn show(catalog: &Catalog) -> anyhow::Result<()> {
    let restorable = catalog.restorable();
    let mut table = report::table(&["from commit", "to commit", "durable at", "base"]);
    for part in &restorable {
        table.add_row([
            part.first.to_string(),
            part.last.to_string(),
            report::date(part.unix_ms / 1000),
            format!("{:016x}", part.base),
        ]);
    }
    if restorable.is_empty() {
        report::line("nothing can be restored: no base is complete")?;
    } else {
        report::line(table)?;
    }
    for (name, mark) in &catalog.marks {
        report::line(format_args!(
            "mark {name}: commit {}, {}",
            mark.last,
            report::date(mark.unix_ms / 1000)
        ))?;
    }
    if let (Some(last), count) = (merged(catalog).next_back(), merged(catalog).count()) {
        report::line(format_args!(
            "up to commit {}, old ones are merged: {} states are left of them",
            last.last,
            report::count(count as u64)
        ))?;
    }
    report::line(format_args!(
        "{} objects of commits and bases, {} (and the blocks of bases){}",
        report::count(catalog.links.len() as u64),
        size::text(chain_bytes(catalog)),
        match encrypted(catalog) {
            0 => String::new(),
            some => format!("; {} of them are encrypted", report::count(some as u64)),
        }
    ))?;
    Ok(())
}

/// Notes names that are none of an object. They harm nothing.
pub(super) fn report_strays(catalog: &Catalog) {
    note_some(catalog.strays.iter().map(|name| {
        let name = path_text(name.as_bytes());
        format!("{name} is no object of an archive, and is left out")
    }));
}

/// Notes the first few of some sentences, and how many more there are.
pub(super) fn note_some(texts: impl ExactSizeIterator<Item = String>) {
    let more = texts.len().saturating_sub(NOTES_MAX);
    texts.take(NOTES_MAX).for_each(report::note);
    if more > 0 {
        report::note(format_args!(
            "and {} more of this kind",
            report::count(more as u64)
        ));
    }
}

/// Notes each fault, unless JSON has them. Returns the exit code.
pub(super) fn report_faults(faults: &[String], in_json: bool) -> ExitCode {
    for fault in faults.iter().filter(|_| !in_json) {
        report::note(fault);
    }
    if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DAMAGED)
    }
}
