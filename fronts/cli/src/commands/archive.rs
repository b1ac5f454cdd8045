//! `tonearm archive` and `tonearm mark`.

use super::restore;
use crate::cli::{Archive, ArchiveAction, Mark, VolumeStore};
use crate::control::{self, Answer, Client, Request};
use anyhow::bail;
use std::process::ExitCode;
use tonearm_bucket::Variables;
use tonearm_engine::ArchiveInfo;
use tonearm_terminal::report;
use tonearm_terminal::size;

/// Carries out the action.
///
/// # Errors
/// When it cannot be done.
pub fn run(arguments: Archive) -> anyhow::Result<ExitCode> {
    match arguments.action {
        ArchiveAction::Start {
            store,
            url,
            options,
        } => {
            let info = ask(&store, Request::ArchiveStart(options.start(&url)))?;
            show(&store, &info)?;
        }
        ArchiveAction::Stop { store } => {
            ask(&store, Request::ArchiveStop)?;
            if !store.store.json {
                report::line("the archive has everything that is durable, and has ended")?;
            }
        }
        ArchiveAction::Reload { store } => {
            let variables = Variables::of_process();
            let variables = variables
                .iter()
                .map(|(name, value)| (name.into(), value.into()));
            let variables = variables.collect();
            let info = ask(&store, Request::ArchiveReload { variables })?;
            show(&store, &info)?;
        }
        ArchiveAction::Status { store } => {
            let info = ask(&store, Request::ArchiveStatus)?;
            show(&store, &info)?;
        }
        ArchiveAction::Wait { store } => {
            let lsn = last_commit(&store)?;
            let request = Request::Wait {
                mark: control::Mark::Archived,
                lsn,
                timeout_ms: None,
            };
            let mut client = Client::need(&store.store.path, store.control.as_deref())?;
            match client.ask(request, |_, _| {})? {
                Answer::Waited { .. } => {}
                _ => bail!("the server gave another answer than was asked for"),
            }
            show(&store, &ask(&store, Request::ArchiveStatus)?)?;
        }
        ArchiveAction::Verify {
            url,
            identities,
            json,
        } => return restore::verify(&url, &identities, json),
    }
    Ok(ExitCode::SUCCESS)
}

/// Gives the last commit a name.
///
/// # Errors
/// When the store is not archived, or the name is in use or cannot be one.
pub fn mark(arguments: &Mark) -> anyhow::Result<ExitCode> {
    let name = &arguments.name;
    let place = &arguments.store;
    let mut client = Client::need(&place.store.path, place.control.as_deref())?;
    match client.ask(Request::Mark { name: name.clone() }, |_, _| {})? {
        Answer::Marked { lsn } if place.store.json => {
            report::json(&serde_json::json!({ "mark": name, "lsn": lsn }))?;
        }
        Answer::Marked { lsn } => report::line(format_args!("{name} is commit {lsn}"))?,
        _ => bail!("the server gave another answer than was asked for"),
    }
    Ok(ExitCode::SUCCESS)
}

fn last_commit(place: &VolumeStore) -> anyhow::Result<u64> {
    let mut client = Client::need(&place.store.path, place.control.as_deref())?;
    match client.ask(Request::Stats, |_, _| {})? {
        Answer::Stats(stats) => Ok(stats.store.appended_lsn),
        _ => bail!("the server gave another answer than was asked for"),
    }
}

fn ask(place: &VolumeStore, request: Request) -> anyhow::Result<ArchiveInfo> {
    let mut client = Client::need(&place.store.path, place.control.as_deref())?;
    match client.ask(request, |_, _| {})? {
        Answer::Archive(info) => Ok(info),
        _ => bail!("the server gave another answer than was asked for"),
    }
}

fn show(place: &VolumeStore, info: &ArchiveInfo) -> anyhow::Result<()> {
    if place.store.json {
        return report::json(info);
    }
    let state = match &info.why {
        Some(why) => format!("{}: {why}", info.state),
        None => info.state.to_string(),
    };
    let base = match (info.restorable, info.base_percent) {
        (true, None) => "complete".to_string(),
        (true, Some(percent)) => format!("complete; another one is made, {percent} % read"),
        (false, Some(percent)) => {
            format!("not complete, {percent} % read: nothing can be restored yet")
        }
        (false, None) => "none: nothing can be restored yet".to_string(),
    };
    let mut rows = vec![
        ("archive", info.url.clone()),
        ("state", state),
        ("archived", format!("commit {}", info.archived_lsn)),
        ("behind", format!("{} durable commits", info.lag_commits)),
        ("base", base),
        (
            "put",
            format!(
                "{} objects, {} ({} of changes and blocks)",
                report::count(info.objects),
                size::text(info.stored_bytes),
                size::text(info.raw_bytes)
            ),
        ),
    ];
    if let Some(why) = &info.unmerged {
        rows.push(("merging", format!("not possible: {why}")));
    } else if info.merged > 0 {
        rows.push((
            "merging",
            format!("{} ranges so far", report::count(info.merged)),
        ));
    }
    let notes = [
        ("new base", &info.notes.unbased),
        ("deleting", &info.notes.undeleted),
        ("odd", &info.notes.odd),
    ];
    for (name, note) in notes {
        rows.extend(note.iter().map(|note| (name, note.clone())));
    }
    if let Some(clock) = &info.clock {
        rows.push(("clock", clock.clone()));
    }
    if info.gaps > 0 {
        rows.push((
            "gaps",
            format!(
                "{}: commits are missing, because the log has overtaken the archive or a unit was very large; a larger log lasts longer",
                info.gaps
            ),
        ));
    }
    Ok(report::line(report::pairs(rows))?)
}
