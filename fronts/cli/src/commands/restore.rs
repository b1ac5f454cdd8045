//! `tonearm restore` and `tonearm history`, and the check of an archive. None of them needs a server.

mod only;

use self::only::Only;
use super::create::placement;
use crate::cli::{History, Identities, LayoutMode, Restore, RestoreTarget};
use crate::serve::socket_file::remove_stale;
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tonearm_archive::{
    ArchiveError, Bucket, Catalog, KeyError, Plan, PlannedObject, Rebuild, Target,
};
use tonearm_base::Lsn;
use tonearm_bucket::RealBucket;
use tonearm_engine::{Engine, HomeParams, OpenOptions};
use tonearm_format::{ArchiveKind, ArchiveReader, SYSTEM_BLOCKS};
use tonearm_store::{Access, CreateOptions, Executor, Members};
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::report;
use tonearm_terminal::size;

/// Threads that fetch objects; each has one object ready and one under way.
const FETCHERS: usize = 4;
/// How often a restore is planned when its objects are merged meanwhile.
const PLANS: usize = 5;
/// Objects after which it is noted how far a restore is.
const NOTE_EVERY: usize = 16;
/// Bytes of a segment, and share of free ones, in a restored store of a layout with segments.
const SEGMENT_BYTES: u32 = 1 << 20;
const SPARE_PERCENT: u64 = 10;

/// How far a restore is, beside the store that is being made.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Note {
    url: String,
    lsn: u64,
    objects_done: usize,
    /// Name of the last of these objects.
    last: String,
    /// Name of the volume or file that is restored alone.
    #[serde(default)]
    only: Option<String>,
}

/// Makes a store, or a plain file.
///
/// # Errors
/// When the archive does not have that state, or something fails on the way.
pub fn run(arguments: &Restore) -> anyhow::Result<ExitCode> {
    let path = &arguments.path;
    if path.exists() {
        bail!(
            "{} exists; move it away, or choose another path",
            path.display()
        );
    }
    let (partial, note_path) = (
        tonearm_store::beside(path, "partial"),
        tonearm_store::beside(path, "partial.json"),
    );
    let before = read_note(&note_path, arguments, &partial)?;
    let mut target = target(&arguments.target)?;
    if let (Some(note), Target::Latest) = (&before, &target) {
        report::note(format_args!(
            "going on with the restore of commit {} that was interrupted; remove {} to begin anew",
            note.lsn,
            partial.display()
        ));
        target = Target::Lsn(Lsn(note.lsn));
    }
    let bucket = open(&arguments.url, &arguments.identities)?;
    let (mut plan, faults) = find(&bucket, &target)?;
    for fault in faults.iter().filter(|_| target == Target::Latest) {
        // There may be later commits behind it.
        report::note(fault);
    }
    let only = match &arguments.only {
        Some(name) => Some(Only::find(&bucket, &mut plan, name)?),
        None => None,
    };
    if arguments.dry_run {
        tell(arguments, &plan, only.as_ref(), "would restore")?;
        return Ok(ExitCode::SUCCESS);
    }
    // A program would wait for the killed server of the lost store.
    let socket = tonearm_store::files_socket(path);
    if only.is_none() && socket.symlink_metadata().is_ok() {
        remove_stale(&socket)?;
    }
    let mut done = 0;
    if let Some(note) = before {
        if note.lsn != plan.lsn.0 {
            bail!(
                "{} is from a restore of another state; remove it and {}, and run this command again",
                partial.display(),
                note_path.display()
            );
        }
        let is_same = note.objects_done.checked_sub(1).is_none_or(|last| {
            let object = plan.objects.get(last);
            object.is_some_and(|object| object.name == note.last)
        });
        // Objects that were merged meanwhile are others: then it begins anew.
        done = if is_same { note.objects_done } else { 0 };
    }
    let write = |plan: &Plan, objects_done: usize| {
        let note = Note {
            url: arguments.url.clone(),
            lsn: plan.lsn.0,
            objects_done,
            last: match objects_done.checked_sub(1) {
                Some(last) => plan.objects[last].name.clone(),
                None => String::new(),
            },
            only: arguments.only.clone(),
        };
        write_note(&note_path, &note)
    };
    if done == 0 {
        // The note comes first: whatever ends this process, the same command knows what the partial file is.
        write(&plan, 0)?;
        if partial.exists() {
            std::fs::remove_file(&partial)?;
        }
        match &only {
            None => create(arguments, &plan, &partial)?,
            Some(only) => only.create(&partial)?,
        }
    }
    for tries_left in (0..PLANS).rev() {
        let reached = Cell::new(done);
        let noted = |objects_done: usize| {
            reached.set(objects_done);
            write(&plan, objects_done)
        };
        let filled = match &only {
            None => fill(&bucket, &plan, &partial, done, noted),
            Some(only) => only.fill(&bucket, &plan, &partial, done, noted),
        };
        match filled.as_ref().err().and_then(|error| error.downcast_ref()) {
            // Objects are merged and deleted while they are read. To apply commits again does no harm.
            Some(ArchiveError::Missing { .. }) if tries_left > 0 => {
                let (mut now, _) = find(&bucket, &Target::Lsn(plan.lsn))?;
                if let Some(only) = &only {
                    only.narrow(&mut now);
                }
                done = now.done_after(&plan, reached.get());
                plan = now;
            }
            _ => {
                filled.with_context(|| incomplete(&partial))?;
                break;
            }
        }
    }
    std::fs::rename(&partial, path)?;
    sync_folder(path)?;
    std::fs::remove_file(&note_path)?;
    tell(arguments, &plan, only.as_ref(), "restored")?;
    Ok(ExitCode::SUCCESS)
}

fn open(url: &str, identities: &Identities) -> anyhow::Result<RealBucket> {
    Ok(RealBucket::open(url, false)?.with_identities(&identities.files)?)
}

fn incomplete(partial: &Path) -> String {
    format!(
        "the restore is not complete; run the same command again to go on ({} has what is restored so far)",
        partial.display()
    )
}

/// Plans, again when objects are merged and deleted at the same time. Returns also what is wrong with the chain.
fn find(bucket: &RealBucket, target: &Target) -> Result<(Plan, Vec<String>), ArchiveError> {
    bucket.runtime().block_on(async {
        let mut tries_left = PLANS;
        loop {
            tries_left -= 1;
            let catalog = Catalog::load(bucket).await?;
            match Plan::make(bucket, &catalog, target).await {
                Err(ArchiveError::Missing { .. }) if tries_left > 0 => {}
                planned => return Ok((planned?, faults_of(&catalog))),
            }
        }
    })
}

/// Makes the rename durable.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    std::fs::File::open(tonearm_store::folder_of(path))?.sync_all()
}

fn read_note(path: &Path, arguments: &Restore, partial: &Path) -> anyhow::Result<Option<Note>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if partial.exists() {
                bail!(
                    "{} is there, and nothing tells what it is from; remove it and run this command again",
                    partial.display()
                );
            }
            return Ok(None);
        }
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    if !partial.exists() {
        // Nothing is left of that restore.
        return Ok(None);
    }
    let note: Option<Note> = serde_json::from_str(&text).ok();
    match note {
        Some(note) if note.url == arguments.url && note.only == arguments.only => Ok(Some(note)),
        _ => bail!(
            "{} is from another restore; remove it and {}, and run this command again",
            path.display(),
            partial.display()
        ),
    }
}

fn write_note(path: &Path, note: &Note) -> anyhow::Result<()> {
    let new = tonearm_store::beside(path, "new");
    let written = std::fs::write(&new, serde_json::to_string(note)?);
    let renamed = written.and_then(|()| std::fs::rename(&new, path));
    renamed.with_context(|| format!("{}: how far the restore is cannot be noted", path.display()))
}

fn target(wanted: &RestoreTarget) -> anyhow::Result<Target> {
    if let Some(lsn) = wanted.to_lsn {
        return Ok(Target::Lsn(Lsn(lsn)));
    }
    if let Some(name) = &wanted.to_mark {
        return Ok(Target::Mark(name.clone()));
    }
    let Some(text) = &wanted.to_time else {
        return Ok(Target::Latest);
    };
    let at = match humantime::parse_duration(text) {
        Ok(ago) => SystemTime::now() - ago,
        Err(_) => humantime::parse_rfc3339_weak(text).with_context(|| {
            format!("'{text}' is no time; write 2026-11-25T10:00:00Z, or 10m for ten minutes ago")
        })?,
    };
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Ok(Target::Time(since.as_millis() as u64))
}

fn size_bytes(plan: &Plan) -> u64 {
    (plan.shape.size_blocks.saturating_sub(SYSTEM_BLOCKS)) * u64::from(plan.shape.block_size)
}

fn create(arguments: &Restore, plan: &Plan, partial: &Path) -> anyhow::Result<()> {
    let home = match placement(arguments.layout) {
        None => HomeParams::Overwrite,
        Some(placement) => HomeParams::Segments {
            segment_bytes: SEGMENT_BYTES,
            spare_percent: SPARE_PERCENT,
            placement,
        },
    };
    let options = CreateOptions {
        size_bytes: size_bytes(plan),
        log_bytes: arguments.log_size,
        block_size: plan.shape.block_size,
    };
    Ok(tonearm_store::create_behind(
        partial, &options, home, plan.lsn,
    )?)
}

/// Applies the objects of the plan behind the first `done`.
fn fill(
    bucket: &RealBucket,
    plan: &Plan,
    partial: &Path,
    done: usize,
    noted: impl Fn(usize) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let executor = Executor::new()?;
    let filled = fill_in(&executor, bucket, plan, partial, done, noted);
    // The store is let go, whatever has happened: the next plan opens it again.
    executor.rt.shut_down();
    filled
}

fn fill_in(
    executor: &Executor,
    bucket: &RealBucket,
    plan: &Plan,
    partial: &Path,
    mut done: usize,
    noted: impl Fn(usize) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let members =
        tonearm_store::open_members(executor, partial, &Members::default(), Access::Write)?;
    let (rt, pool) = (executor.rt.clone(), executor.pool.clone());
    let opening = async move {
        let options = OpenOptions::default();
        Engine::open(&rt, &pool, members.devices, options, |_| {}).await
    };
    let engine = executor.rt.block_on(opening)?;
    let mut rebuild = Rebuild::new(engine.home(), &executor.pool, plan.lsn);
    let url_of_archive = bucket.url();
    let mut bar = Progress::new("restoring", Unit::Count);
    let total = plan.objects.len() as u64;
    for fetched in fetch(bucket, &plan.objects[done..]) {
        let (name, payload) = fetched?;
        done += 1;
        let is_note = done.is_multiple_of(NOTE_EVERY);
        let url = url_of_archive.clone();
        rebuild = executor.rt.block_on(async move {
            rebuild.apply(&payload, &url, &name).await?;
            if is_note {
                rebuild.flush().await?;
            }
            Ok::<_, ArchiveError>(rebuild)
        })?;
        if is_note {
            noted(done)?;
        }
        bar.at(done as u64, total);
    }
    executor.rt.block_on(async move {
        rebuild.flush().await?;
        engine.close().await?;
        Ok::<_, ArchiveError>(())
    })?;
    Ok(())
}

type Fetched = anyhow::Result<(String, Vec<u8>)>;

/// The payloads of the objects, in order. Several are fetched at the same time.
fn fetch(bucket: &RealBucket, objects: &[PlannedObject]) -> impl Iterator<Item = Fetched> + use<> {
    let fetchers = FETCHERS.min(objects.len().max(1));
    let queues: Vec<Receiver<Fetched>> = (0..fetchers)
        .map(|first| {
            let (sender, receiver) = sync_channel(1);
            let own: Vec<PlannedObject> = objects
                .iter()
                .skip(first)
                .step_by(fetchers)
                .cloned()
                .collect();
            let bucket = bucket.clone();
            std::thread::spawn(move || {
                for object in own {
                    let fetched = bucket.runtime().block_on(object.fetch(&bucket));
                    let fetched = fetched.map(|payload| (object.name, payload));
                    // The restore may have ended with an error.
                    if sender.send(fetched.map_err(Into::into)).is_err() {
                        return;
                    }
                }
            });
            receiver
        })
        .collect();
    let count = objects.len();
    (0..count).map(move |index| {
        let received = queues[index % fetchers].recv();
        received.unwrap_or_else(|_| Err(anyhow::anyhow!("a thread that fetches has ended")))
    })
}

fn tell(arguments: &Restore, plan: &Plan, only: Option<&Only>, done: &str) -> anyhow::Result<()> {
    let path: PathBuf = arguments.path.clone();
    if let Some(only) = only {
        return only.tell(arguments, plan, done);
    }
    if arguments.json {
        return report::json(&serde_json::json!({
            "archive": arguments.url,
            "store": path.display().to_string(),
            "restored": !arguments.dry_run,
            "lsn": plan.lsn.0,
            "size_bytes": size_bytes(plan),
            "objects": plan.objects.len(),
        }));
    }
    let layout = match arguments.layout {
        LayoutMode::Overwrite => "",
        _ => " with another layout",
    };
    report::line(format_args!(
        "{done} commit {} in {}{layout}: {}, from {} objects",
        plan.lsn,
        path.display(),
        size::text(size_bytes(plan)),
        report::count(plan.objects.len() as u64)
    ))?;
    if !arguments.dry_run {
        let store = report::shell_word(&path);
        report::line(format_args!("next: tonearm serve {store}"))?;
    }
    Ok(())
}

/// Shows what an archive has.
///
/// # Errors
/// When there is none, or a header is damaged.
pub fn history(arguments: &History) -> anyhow::Result<ExitCode> {
    let bucket = open(&arguments.url, &arguments.identities)?;
    let catalog = bucket.runtime().block_on(Catalog::load(&bucket))?;
    if arguments.names {
        return only::names(arguments, &bucket, &catalog);
    }
    if target(&arguments.target)? != Target::Latest {
        bail!("a commit is chosen for its volumes and files; add --names to show them");
    }
    let restorable = catalog.restorable();
    let bytes: u64 = catalog.links.values().map(|link| link.stored_bytes).sum();
    let merged = || {
        let ranges = catalog.ranges();
        ranges.filter(|range| range.kind == ArchiveKind::Merged)
    };
    let faults = faults_of(&catalog);
    let encrypted = catalog.ranges().filter(|range| range.encrypted).count();
    if arguments.json {
        let parts: Vec<_> = restorable
            .iter()
            .map(|part| {
                serde_json::json!({
                    "first_lsn": part.first.0, "last_lsn": part.last.0, "last_unix_ms": part.unix_ms,
                    "base": part.base,
                })
            })
            .collect();
        let merged: Vec<_> = merged()
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
            "archive": catalog.url, "objects": catalog.links.len(), "chain_bytes": bytes,
            "encrypted_ranges": encrypted,
            "restorable": parts, "merged": merged, "marks": marks, "faults": faults,
        }))?;
    } else {
        let mut table = report::table(&["from commit", "to commit", "durable at", "base"]);
        for part in &restorable {
            table.add_row([
                part.first.to_string(),
                part.last.to_string(),
                report::date(part.unix_ms / 1000),
                format!("{:016x}", part.base),
            ]);
        }
        match restorable.is_empty() {
            true => report::line("nothing can be restored: no base is complete")?,
            false => report::line(table)?,
        }
        for (name, mark) in &catalog.marks {
            report::line(format_args!(
                "mark {name}: commit {}, {}",
                mark.last,
                report::date(mark.unix_ms / 1000)
            ))?;
        }
        if let (Some(last), count) = (merged().next_back(), merged().count()) {
            report::line(format_args!(
                "up to commit {}, old ones are merged: {} states are left of them",
                last.last,
                report::count(count as u64)
            ))?;
        }
        report::line(format_args!(
            "{} objects of commits and bases, {} (and the blocks of bases){}",
            report::count(catalog.links.len() as u64),
            size::text(bytes),
            match encrypted {
                0 => String::new(),
                some => format!("; {} of them are encrypted", report::count(some as u64)),
            }
        ))?;
    }
    Ok(tell_faults(&faults, arguments.json))
}

/// What is wrong with the chain.
fn faults_of(catalog: &Catalog) -> Vec<String> {
    let told = |number: &&u64| catalog.unlinked.contains(number);
    let missing = catalog.missing.iter().filter(|number| !told(number));
    let missing = missing.map(|number| format!("object {number:016x} of the chain is missing"));
    let unlinked = catalog.unlinked.iter();
    let unlinked = unlinked.map(|number| {
        format!("object {number:016x} of the chain does not follow the one before it")
    });
    missing.chain(unlinked).collect()
}

/// Notes each fault, unless JSON has them. Returns the exit code.
fn tell_faults(faults: &[String], in_json: bool) -> ExitCode {
    for fault in faults.iter().filter(|_| !in_json) {
        report::note(fault);
    }
    match faults.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(super::DAMAGED),
    }
}

/// Reads all of an archive. Without an identity, the contents of what is encrypted are not checked.
///
/// # Errors
/// When there is none, or the bucket fails.
pub fn verify(url: &str, identities: &Identities, json: bool) -> anyhow::Result<ExitCode> {
    let bucket = open(url, identities)?;
    let catalog = bucket.runtime().block_on(Catalog::load(&bucket))?;
    let mut faults = faults_of(&catalog);
    let (mut objects, mut bytes, mut entries, mut closed) = (0u64, 0u64, 0u64, 0u64);
    let all = bucket.runtime().block_on(catalog.objects(&bucket))?;
    let shape = bucket.runtime().block_on(async {
        let last = catalog.links.keys().last().copied().unwrap_or(0);
        catalog.shape(&bucket, last).await
    })?;
    let mut bar = Progress::new("verifying", Unit::Count);
    for (at, (object, fetched)) in all.iter().zip(fetch(&bucket, &all)).enumerate() {
        bar.at(at as u64 + 1, all.len() as u64);
        let payload = match fetched {
            Ok((_, payload)) => payload,
            Err(error) => {
                let cause = error.downcast_ref::<ArchiveError>();
                match cause {
                    Some(ArchiveError::Key {
                        error: KeyError::NoIdentity,
                        ..
                    }) => closed += 1,
                    Some(
                        ArchiveError::Bucket { .. }
                        | ArchiveError::Key {
                            error: KeyError::OtherIdentity,
                            ..
                        },
                    ) => return Err(error),
                    _ => faults.push(error.to_string()),
                }
                continue;
            }
        };
        objects += 1;
        bytes += payload.len() as u64;
        let mut reader = ArchiveReader::new(&payload, shape.block_size as usize);
        while let Some(entry) = reader.next().filter(|_| object.has_entries) {
            match entry {
                Ok(_) => entries += 1,
                Err(error) => {
                    faults.push(format!("object {}: {error}", object.name));
                    break;
                }
            }
        }
    }
    if json {
        report::json(&serde_json::json!({
            "archive": url, "objects": objects, "bytes": bytes, "entries": entries, "encrypted": closed,
            "faults": faults,
        }))?;
    } else {
        report::line(format_args!(
            "{} objects, {} of changes and blocks: {}",
            report::count(objects),
            size::text(bytes),
            match faults.len() {
                0 => "all right".to_string(),
                count => format!("{count} damaged"),
            }
        ))?;
        if closed > 0 {
            report::line(format_args!(
                "{} encrypted objects: headers, order and checksums were checked, their contents were not; give --identity \
                 FILE to check them",
                report::count(closed)
            ))?;
        }
    }
    Ok(tell_faults(&faults, json))
}
