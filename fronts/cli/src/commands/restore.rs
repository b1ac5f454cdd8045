//! `tonearm restore`, which needs no server. `tonearm history` and the check of an archive read it in the same way.

mod fetch;
mod history;
mod note;
mod only;
mod patient;
mod verify;

pub use self::history::history;
use self::history::{note_some, report_strays};
use self::note::{Note, Partial};
use self::only::Only;
use self::patient::Reader;
pub use self::verify::verify;
use super::create::{placement, warning};
use crate::cli::{Identities, LayoutMode, Restore, RestoreTarget};
use crate::serve::socket_file::remove_stale;
use anyhow::{Context, bail};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tonearm_archive::{ArchiveError, Bucket, Catalog, Plan, Rebuild, Target};
use tonearm_base::Lsn;
use tonearm_bucket::RealBucket;
use tonearm_engine::{Engine, HomeParams, OpenOptions};
use tonearm_format::SYSTEM_BLOCKS;
use tonearm_store::{Access, CreateOptions, Executor, Members};
use tonearm_terminal::report;
use tonearm_terminal::size;
use tonearm_uring::Medium;

/// How often a restore is planned when its objects are merged meanwhile.
const PLANS: usize = 5;
/// Bytes of a segment, and share of free ones, in a restored store of a layout with segments.
const SEGMENT_BYTES: u32 = 1 << 20;
const SPARE_PERCENT: u64 = 10;

/// Makes a store, or a plain file.
///
/// # Errors
/// When the archive does not have that state, or something fails on the way.
pub fn run(arguments: &Restore) -> anyhow::Result<ExitCode> {
    let path = &arguments.path;
    if path.symlink_metadata().is_ok() {
        bail!(
            "{} exists; move it away, or choose another path",
            path.display()
        );
    }
    tonearm_uring::refuse_devices(path)?;
    let partial = Partial::of(path);
    let before = partial.read(arguments)?;
    let mut target = target(&arguments.target)?;
    if let (Some(note), Target::Latest) = (&before, &target) {
        report::note(format_args!(
            "going on with the restore of commit {} that was interrupted; remove {} to begin anew",
            note.lsn,
            partial.made.display()
        ));
        target = Target::Lsn(Lsn(note.lsn));
    }
    let bucket = open(&arguments.url, &arguments.identities)?;
    let mut damaged = BTreeSet::new();
    let (plan, only) = find(&bucket, &target, true, &mut damaged, |plan| {
        let name = arguments.only.as_ref();
        name.map(|name| Only::find(&bucket, plan, name, path))
            .transpose()
    })?;
    if arguments.dry_run {
        report_restored(arguments, &plan, only.as_ref(), "would restore")?;
        return Ok(ExitCode::SUCCESS);
    }
    // A program would wait for the killed server of the lost store.
    let socket = tonearm_store::files_socket(path);
    if only.is_none() && socket.symlink_metadata().is_ok() {
        remove_stale(&socket)?;
    }
    let mut done = 0;
    if let Some(note) = before {
        if !note.is_of_store(&plan) {
            bail!(partial.of_another_store());
        }
        if note.lsn != plan.lsn.0 {
            bail!(partial.of_another_state());
        }
        done = note.done(&plan);
    }
    let mut making = Making {
        arguments,
        bucket: &bucket,
        partial: &partial,
        only: only.as_ref(),
        damaged,
    };
    if done == 0 {
        making.begin(&plan)?;
    }
    let plan = making.run(plan, done)?;
    partial.finish(path)?;
    if only.is_none()
        && let Some(warning) = warning(path, Medium::of_made(path))
    {
        report::note(warning);
    }
    report_restored(arguments, &plan, only.as_ref(), "restored")?;
    Ok(ExitCode::SUCCESS)
}

/// A restore under way.
struct Making<'a> {
    arguments: &'a Restore,
    bucket: &'a Reader,
    partial: &'a Partial,
    only: Option<&'a Only>,
    /// Bases that turned out to be damaged.
    damaged: BTreeSet<u64>,
}

impl Making<'_> {
    fn write(&self, plan: &Plan, objects_done: usize) -> anyhow::Result<()> {
        self.partial
            .write(&Note::new(self.arguments, plan, objects_done))
    }

    /// Makes the partial file anew.
    fn begin(&self, plan: &Plan) -> anyhow::Result<()> {
        // The note comes first: whatever ends this process, the same command knows what the partial file is.
        self.write(plan, 0)?;
        self.partial.clear()?;
        match self.only {
            None => create(self.arguments, plan, &self.partial.made),
            Some(only) => only.create(&self.partial.made),
        }
    }

    /// Applies the objects of `plan` after the first `done`. Returns the plan that came to its end.
    fn run(&mut self, mut plan: Plan, mut done: usize) -> anyhow::Result<Plan> {
        let mut tries_left = PLANS;
        loop {
            let reached = Cell::new(done);
            let noted = |objects_done: usize| {
                reached.set(objects_done);
                self.write(&plan, objects_done)
            };
            let (bucket, made) = (self.bucket, &self.partial.made);
            let filled = match self.only {
                None => fill(bucket, &plan, made, done, noted),
                Some(only) => only.fill(bucket, &plan, made, done, noted),
            };
            let Err(error) = filled else {
                return Ok(plan);
            };
            let now = self.plan_again(&plan, error, &mut tries_left)?;
            done = now.done_after(&plan, reached.get());
            plan = now;
            match done {
                // Another base does not say which blocks have no content.
                0 => self.begin(&plan)?,
                _ => self.write(&plan, done)?,
            }
        }
    }

    /// Another plan for the state of `plan`, which has ended with `error`.
    ///
    /// # Errors
    /// `error`, when nothing else gives that state.
    fn plan_again(
        &mut self,
        plan: &Plan,
        error: anyhow::Error,
        tries_left: &mut usize,
    ) -> anyhow::Result<Plan> {
        let base = damaged_base(plan, &error).filter(|base| self.damaged.insert(*base));
        *tries_left -= usize::from(base.is_none());
        if base.is_none() && !(is_missing(&error) && *tries_left > 0) {
            return Err(error).with_context(|| incomplete(&self.partial.made));
        }
        // Objects are merged and deleted while they are read. To apply commits again does no harm.
        let (target, only) = (Target::Lsn(plan.lsn), self.only);
        let found = find(self.bucket, &target, false, &mut self.damaged, |now| {
            if let Some(only) = only {
                only.narrow(now);
            }
            Ok(())
        });
        match (found, base) {
            // No other base gives this state.
            (Err(none), Some(_)) if is_not_restorable(&none) => {
                Err(error).with_context(|| incomplete(&self.partial.made))
            }
            (found, base) => {
                let (now, ()) = found?;
                if let Some(base) = base {
                    note_damaged(base, &error);
                }
                Ok(now)
            }
        }
    }
}

fn open(url: &str, identities: &Identities) -> anyhow::Result<Reader> {
    let bucket = RealBucket::open(url)?.with_identities(&identities.files)?;
    Ok(Reader::new(bucket))
}

fn incomplete(partial: &Path) -> String {
    format!(
        "the restore is not complete; run the same command again to go on ({} has what is restored so far)",
        partial.display()
    )
}

/// Plans, and reads with `read` what is to be known of that state: again when objects are merged and deleted at the same time. With
/// `reports_progress`, what is wrong with the archive is noted, whether this state needs it or not. The bases in `damaged` are not used, and
/// one that turns out to be damaged is added.
fn find<T>(
    bucket: &Reader,
    target: &Target,
    reports_progress: bool,
    damaged: &mut BTreeSet<u64>,
    read: impl Fn(&mut Plan) -> anyhow::Result<T>,
) -> anyhow::Result<(Plan, T)> {
    let mut once = |reports_progress: bool| {
        let mut catalog = bucket.block_on(Catalog::load(bucket))?;
        if reports_progress {
            note_some(catalog.faults().into_iter());
            report_strays(&catalog);
        }
        // A damaged base, and what was found there.
        let mut first: Option<(u64, anyhow::Error)> = None;
        loop {
            damaged.iter().for_each(|base| catalog.leave_out(*base));
            let plan = Plan::make(bucket, &catalog, target);
            let plan = bucket.block_on(plan).map_err(anyhow::Error::from);
            let mut plan = match (plan, first.take()) {
                // No other base gives this state.
                (Err(none), Some((_, error))) if is_not_restorable(&none) => return Err(error),
                (plan, before) => {
                    if let (Ok(_), Some((base, error))) = (&plan, before) {
                        note_damaged(base, &error);
                    }
                    plan?
                }
            };
            for (base, why) in &plan.left_out {
                if damaged.insert(*base) {
                    note_left_out(*base, why);
                }
            }
            let error = match read(&mut plan) {
                Ok(read) => return Ok((plan, read)),
                Err(error) => error,
            };
            let base = damaged_base(&plan, &error).filter(|base| damaged.insert(*base));
            match base {
                Some(base) => first = Some((base, error)),
                None => return Err(error),
            }
        }
    };
    let (mut missing, mut tries_left) = (None, PLANS);
    loop {
        tries_left -= 1;
        match once(reports_progress && missing.is_none()) {
            Err(error) if is_missing(&error) && tries_left > 0 => missing = Some(error),
            // Without the base that has the missing object nothing gives the state.
            Err(none) if is_not_restorable(&none) => return Err(missing.unwrap_or(none)),
            found => return found,
        }
    }
}

/// The base of `plan`, when `error` says that one of its objects is damaged.
fn damaged_base(plan: &Plan, error: &anyhow::Error) -> Option<u64> {
    plan.damaged_base(error.downcast_ref()?)
}

fn note_damaged(base: u64, error: &anyhow::Error) {
    let damage = error.downcast_ref().and_then(ArchiveError::damage);
    note_left_out(base, damage.unwrap_or_default());
}

fn note_left_out(base: u64, why: impl Display) {
    report::note(format_args!(
        "base {base:016x} is not used, and an older one is: {why}"
    ));
}

fn is_not_restorable(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(ArchiveError::NotRestorable { .. })
    )
}

fn is_missing(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ArchiveError::Missing { .. }))
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
        home,
        restored: Some(plan.lsn),
        ..CreateOptions::default()
    };
    Ok(tonearm_store::create(partial, &options)?)
}

/// Applies the objects of the plan after the first `done`.
fn fill(
    bucket: &Reader,
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
    bucket: &Reader,
    plan: &Plan,
    partial: &Path,
    done: usize,
    noted: impl Fn(usize) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let members =
        tonearm_store::open_members(executor, partial, &Members::default(), Access::Write)?;
    let (rt, pool) = (executor.rt.clone(), executor.pool.clone());
    let opening = async move {
        let options = OpenOptions {
            incomplete: true,
            ..OpenOptions::default()
        };
        Engine::open(&rt, &pool, members.devices, options, |_| {}).await
    };
    let engine = executor.rt.block_on(opening)?;
    let rebuild = Rebuild::new(engine.home(), &executor.pool, plan.lsn);
    let url_of_archive = bucket.url();
    let apply = |mut rebuild: Rebuild, name: String, payload: Vec<u8>, is_noted: bool| {
        let url = url_of_archive.clone();
        let applied = executor.rt.block_on(async move {
            rebuild.apply(&payload, &url, &name).await?;
            if is_noted {
                rebuild.flush().await?;
            }
            Ok::<_, ArchiveError>(rebuild)
        });
        Ok(applied?)
    };
    let mut rebuild = fetch::apply(bucket, plan, done, rebuild, apply, noted)?;
    executor.rt.block_on(async move {
        rebuild.flush().await?;
        engine.complete().await?;
        engine.close().await?;
        Ok::<_, ArchiveError>(())
    })?;
    Ok(())
}

fn report_restored(
    arguments: &Restore,
    plan: &Plan,
    only: Option<&Only>,
    done: &str,
) -> anyhow::Result<()> {
    let path: PathBuf = arguments.path.clone();
    if let Some(only) = only {
        return only.report_restored(arguments, plan, done);
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
