//! `tonearm-lab calibrate`: a drive's file, and a profile, from the drive itself.
//!
//! Invariants:
//! 1. A device in use is not opened. Nothing is written without --allow-destroy, and nothing outside of the region.
//! 2. However the measurement ends, the results so far are in the state file.

mod guard;
mod output;
mod subject;

use crate::cli::{Calibrate, ProfileGrid};
use anyhow::{Context, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use subject::Subject;
use tonearm_base::Nanos;
use tonearm_calibrate::{
    Error, Findings, Hooks, Journal, Kind, Options, ProfilePlan, calibrate, drive_file, replace,
    short_grid, take_profile,
};
use tonearm_drive_file::DriveSpec;
use tonearm_head::{Profile, Span};
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::report;

/// Calibrates.
///
/// # Errors
/// When the device may not be used, fails, or gives contradictory results; when interrupted.
pub fn run(arguments: Calibrate) -> anyhow::Result<ExitCode> {
    let may_write = arguments.allow_destroy.is_some() || arguments.drive.is_some();
    if arguments.profile.is_some() && !may_write {
        bail!(
            "--profile writes to the device: give --allow-destroy, too, if all on it may be lost"
        );
    }
    let stop = interruptible()?;
    let subject = Subject::open(&arguments)?;
    let region = region_of(&arguments, subject.size_bytes)?;
    let options = Options { region, may_write };
    let state = arguments.state.clone().or_else(|| subject.state());
    let about = format!(
        "{} {} {}..{} {}",
        subject.name,
        subject.size_bytes,
        options.region.start,
        options.region.end,
        if options.may_write { "writes" } else { "reads" }
    );
    let journal = journal(&arguments, &about, state.as_deref())?;
    let (rt, device) = (subject.rt.clone(), subject.device.clone());
    let hooks = hooks(&stop, "calibrating");
    let wanted = options.clone();
    let (found, mut journal) = subject
        .rt
        .block_on(async move { calibrate(&rt, device, wanted, journal, hooks).await });
    let saved = journal.save();
    let found = match found {
        Err(Error::Interrupted) => {
            saved?;
            bail!("{}", resumption(state.as_deref()));
        }
        found => found?,
    };
    saved?;
    let text = drive_file(&subject.title(), &found)?;
    let file = arguments.out.as_deref().unwrap_or(Path::new("the result"));
    let spec = DriveSpec::parse(&file.display().to_string(), &text)
        .context("the drive file that was made is wrong; please report this")?;
    if let Some(out) = &arguments.out {
        replace(out, text.as_bytes()).with_context(|| format!("{}", out.display()))?;
    }
    if let Some(path) = &arguments.profile {
        let taken = profile(&arguments, &subject, &found, &spec, path, &stop);
        if matches!(&taken, Err(error) if is_interruption(error)) {
            bail!("{}", resumption(state.as_deref()));
        }
        taken?;
    }
    output::print(&arguments, &subject, &found, &spec, &text)?;
    if let Some(state) = &state {
        // The results are written, so the state is no longer needed, and a file that is left does no harm.
        let _ = std::fs::remove_file(state);
    }
    Ok(ExitCode::SUCCESS)
}

fn is_interruption(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Interrupted))
}

fn region_of(arguments: &Calibrate, size_bytes: u64) -> anyhow::Result<std::ops::Range<u64>> {
    let region = arguments.region.clone().unwrap_or(0..size_bytes);
    if region.end > size_bytes {
        bail!(
            "--region ends at byte {}, but the device has {size_bytes} bytes",
            region.end
        );
    }
    Ok(region.start / 512..region.end / 512)
}

/// The journal of this calibration, an old one if it is resumed.
fn journal(arguments: &Calibrate, about: &str, state: Option<&Path>) -> anyhow::Result<Journal> {
    match (state, arguments.resume) {
        (Some(state), true) => Ok(Journal::load(about, state)?),
        (Some(state), false) if state.exists() => bail!(
            "{} is the state of a calibration that has not ended; go on with it by --resume, or \
             remove the file to begin again",
            state.display()
        ),
        (None, true) => bail!("name the state that is to be resumed with --state"),
        (state, false) => Ok(Journal::new(about, state.map(Path::to_path_buf))),
    }
}

/// The advice after an interruption: the same command with --resume.
fn resumption(state: Option<&Path>) -> String {
    let Some(state) = state else {
        return "interrupted; nothing was kept (give --state FILE to be able to resume)".into();
    };
    let mut words: Vec<String> = std::env::args_os()
        .map(|word| report::shell_word(Path::new(&word)))
        .collect();
    if !words.iter().any(|word| word == "--resume") {
        words.push("--resume".into());
    }
    format!(
        "interrupted; what was measured is in {}. Go on with: {}",
        state.display(),
        words.join(" ")
    )
}

fn interruptible() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

fn hooks(stop: &Arc<AtomicBool>, what: &'static str) -> Hooks {
    let stop = stop.clone();
    let bar = RefCell::new(Progress::new(what, Unit::Share));
    Hooks {
        stop: Box::new(move || stop.load(Ordering::Relaxed)),
        progress: Box::new(move |progress| {
            let mut bar = bar.borrow_mut();
            bar.at((progress.whole() * 10_000.0) as u64, 10_000);
            bar.step(progress.phase);
        }),
    }
}

/// Measures the profile. After an interruption it continues with the samples so far.
fn profile(
    arguments: &Calibrate,
    subject: &Subject,
    found: &Findings,
    spec: &DriveSpec,
    path: &Path,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let Kind::Disk(disk) = &found.kind else {
        bail!(
            "no profile was taken: the drive has no platter, and all places are alike to it; the \
             drive file is complete without --profile"
        );
    };
    let turn = spec.disk.as_ref().map(tonearm_drive_file::turn);
    let turn = turn.unwrap_or(Nanos(disk.spindle.period as u64));
    // The usual place of a log: the first zone.
    let zone = &disk.layout.zones[0];
    let region = &found.options.region;
    let range = Span {
        start: region.start,
        end: disk.layout.zone_end(0).min(region.end),
    };
    let grid = match arguments.profile_grid {
        ProfileGrid::Short => short_grid(turn, zone.track_sectors),
        ProfileGrid::Paper => tonearm_head_study::paper_grid(turn, zone.track_sectors, 8),
    };
    let partial = partial(path);
    let begun = match std::fs::read(&partial) {
        Ok(bytes) if arguments.resume => Profile::decode(&bytes)
            .ok()
            .filter(|profile| *profile.grid() == grid),
        _ => None,
    };
    let profile = match begun {
        Some(profile) => profile,
        None => Profile::new(grid)?,
    };
    let plan = ProfilePlan {
        profile,
        range,
        fua: disk.memory.fua_honoured == Some(true),
    };
    let (rt, device) = (subject.rt.clone(), subject.device.clone());
    let hooks = hooks(stop, "taking the profile");
    let place: Rc<Path> = partial.clone().into();
    let kept = place.clone();
    let taken = subject.rt.block_on(async move {
        take_profile(&rt, device, plan, hooks, move |profile| {
            replace(&kept, &profile.encode()).map_err(|source| Error::State {
                path: kept.to_path_buf(),
                source,
            })
        })
        .await
    })?;
    replace(path, &taken.encode()).with_context(|| format!("{}", path.display()))?;
    let _ = std::fs::remove_file(&place);
    report::note(format_args!("the profile is in {}", path.display()));
    Ok(())
}

/// The file of an unfinished profile.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}
