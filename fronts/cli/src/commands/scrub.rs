//! `tonearm scrub`: by the server of the store, or in process when it is not served.

use super::DAMAGED;
use crate::cli::{self, AckMode, VolumeStore, WriteCacheMode};
use crate::control::{Answer, Client, DamagedGroup, Request, ScrubResult};
use crate::opening;
use anyhow::bail;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use tonearm_disk::{ByteRate, Scrub};
use tonearm_store::Executor;
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::report;

/// Memory of a store that is opened for a scrub.
const MEMORY_BYTES: u64 = 64 << 20;

/// Verifies all blocks, and repairs what the array can compute.
///
/// # Errors
/// When the store cannot be opened, or a device fails.
pub fn run(arguments: cli::Scrub) -> anyhow::Result<ExitCode> {
    let (place, no_repair) = (&arguments.store, arguments.no_repair);
    let rate = arguments.rate.unwrap_or(0);
    let (path, control) = (&place.store.path, place.control.as_deref());
    if arguments.cancel {
        let mut client = Client::need(path, control)?;
        client.ask(Request::ScrubCancel, |_, _| {})?;
        report::line("the scrub ends")?;
        return Ok(ExitCode::SUCCESS);
    }
    let (result, signal) = match Client::find(path, control)? {
        Some(client) => by_server(client, place, no_repair, rate)?,
        None => in_process(place, no_repair, rate)?,
    };
    if place.store.json {
        report::json(&result)?;
    } else {
        show(&result)?;
    }
    Ok(match (result.is_sound(), result.cancelled) {
        (false, _) => ExitCode::from(DAMAGED),
        (true, false) => ExitCode::SUCCESS,
        (true, true) => match signal {
            0 => ExitCode::FAILURE,
            signal => ExitCode::from(128 + signal as u8),
        },
    })
}

fn show(result: &ScrubResult) -> anyhow::Result<()> {
    let (blocks, groups) = (report::count(result.blocks), report::count(result.groups));
    report::line(format_args!("verified {blocks} blocks in {groups} groups"))?;
    if result.repaired > 0 {
        report::line(format_args!(
            "repaired: {} places, from the other members of the array",
            report::count(result.repaired)
        ))?;
    }
    if result.parity_repaired > 0 {
        report::line(format_args!(
            "repaired: the parity of {} stripes",
            report::count(result.parity_repaired)
        ))?;
    }
    show_damage(&result.damaged)?;
    if result.parity_damaged > 0 {
        report::line(format_args!(
            "damage: the parity of {} stripes does not match their data",
            report::count(result.parity_damaged)
        ))?;
    }
    if result.cancelled {
        let total = report::count(result.groups_total);
        report::line(format_args!("cancelled after {groups} of {total} groups"))?;
    } else if result.is_sound() {
        let found = match result.repaired + result.parity_repaired {
            0 => "no damage found",
            _ => "no damage is left",
        };
        let degraded = if result.is_degraded() {
            ", but the array is DEGRADED"
        } else {
            ""
        };
        report::line(format_args!("{found}{degraded}"))?;
    }
    Ok(())
}

/// The result, and the signal that has ended the scrub, 0 for none.
fn by_server(
    mut client: Client,
    place: &VolumeStore,
    no_repair: bool,
    bytes_per_second: u64,
) -> anyhow::Result<(ScrubResult, i32)> {
    let second = Client::need(&place.store.path, place.control.as_deref())?;
    let signal = cancel_on_signals(second)?;
    let mut bar = Progress::new("scrubbing", Unit::Count);
    let request = Request::Scrub {
        no_repair,
        bytes_per_second,
    };
    let answer = client.ask(request, |done, total| bar.at(done, total))?;
    drop(bar);
    match answer {
        Answer::Scrub(result) => {
            // In process the opening says it.
            let store = place.store.path.display().to_string();
            for warning in result
                .array
                .iter()
                .flat_map(|array| array.warnings(&store, true))
            {
                report::note(warning);
            }
            Ok((result, signal.load(Ordering::Relaxed)))
        }
        _ => bail!("the server gave another answer than was asked for"),
    }
}

/// As [`by_server`], of a store that is not served. It is opened, so that recovery comes first, and closed in order.
fn in_process(
    place: &VolumeStore,
    no_repair: bool,
    bytes_per_second: u64,
) -> anyhow::Result<(ScrubResult, i32)> {
    let path = &place.store.path;
    if no_repair {
        bail!(
            "{} is not being served; `tonearm check` verifies it and changes nothing",
            path.display()
        );
    }
    let executor = Executor::new()?;
    let options = opening::open_options(MEMORY_BYTES, AckMode::Flush, WriteCacheMode::Volatile);
    let disk = opening::open_disk(&executor, path, &place.store.members, options)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let mut bar = Progress::new("scrubbing", Unit::Count);
    let goes_on = move |done, total| {
        bar.at(done, total);
        !stop.load(Ordering::Relaxed)
    };
    let result = executor.rt.block_on(async move {
        let rate = ByteRate::new(bytes_per_second);
        let scrubbed = disk.scrub_at(&rate, Scrub::Repair, goes_on).await;
        let result = scrubbed.map(|report| ScrubResult::of(&report, &disk));
        let closed = disk.close().await;
        let result = result?;
        closed?;
        anyhow::Ok(result)
    })?;
    let signal = if result.cancelled { SIGINT } else { 0 };
    Ok((result, signal))
}

/// From now on the first signal makes `client` cancel the scrub, so that its result comes. The second one ends the
/// program. Returns the signal that has come, 0 for none.
fn cancel_on_signals(mut client: Client) -> anyhow::Result<Arc<AtomicI32>> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let come = Arc::new(AtomicI32::new(0));
    let told = come.clone();
    let wait = move || {
        let mut signals = signals.forever();
        if let Some(signal) = signals.next() {
            told.store(signal, Ordering::Relaxed);
            // The server may be of a version that cannot cancel, so this does not wait for its answer.
            if client.ask(Request::ScrubCancel, |_, _| {}).is_err() {
                std::process::exit(128 + signal);
            }
        }
        if let Some(signal) = signals.next() {
            std::process::exit(128 + signal);
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(wait)?;
    Ok(come)
}

/// Lists damage, group by group.
///
/// # Errors
/// When standard output is closed.
pub fn show_damage(groups: &[DamagedGroup]) -> anyhow::Result<()> {
    for group in groups {
        if group.table_lost {
            report::line(format_args!(
                "damage: group {} at byte {} of {}: both copies of its checksum table are lost, \
                 none of its blocks can be verified",
                group.group, group.offset, group.member
            ))?;
        }
        for damage in &group.damages {
            report::line(format_args!("damage: {damage}"))?;
        }
    }
    Ok(())
}
