//! `tonearm scrub`.

use super::DAMAGED;
use crate::cli::Scrub;
use crate::control::{Answer, Client, DamagedGroup, Request};
use anyhow::bail;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::report;

/// Makes the server verify all blocks.
///
/// # Errors
/// When there is no server, or a device fails.
pub fn run(arguments: Scrub) -> anyhow::Result<ExitCode> {
    let (path, control) = (&arguments.path, arguments.control.as_deref());
    let mut client = Client::need(path, control)?;
    if arguments.cancel {
        client.ask(Request::ScrubCancel, |_, _| {})?;
        report::line("the scrub ends")?;
        return Ok(ExitCode::SUCCESS);
    }
    let signal = cancel_on_signals(Client::need(path, control)?)?;
    let mut bar = Progress::new("scrubbing", Unit::Count);
    let answer = client.ask(Request::Scrub, |done, total| bar.at(done, total))?;
    drop(bar);
    let Answer::Scrub(result) = answer else {
        bail!("the server gave another answer than was asked for");
    };
    let sound = result.damaged.is_empty();
    if arguments.json {
        report::json(&result)?;
    } else {
        let (blocks, groups) = (report::count(result.blocks), report::count(result.groups));
        report::line(format_args!("verified {blocks} blocks in {groups} groups"))?;
        show_damage(&result.damaged)?;
        if result.cancelled {
            let total = report::count(result.groups_total);
            report::line(format_args!("cancelled after {groups} of {total} groups"))?;
        } else if sound {
            report::line("no damage found")?;
        }
    }
    Ok(match (sound, result.cancelled) {
        (false, _) => ExitCode::from(DAMAGED),
        (true, false) => ExitCode::SUCCESS,
        (true, true) => match signal.load(Ordering::Relaxed) {
            0 => ExitCode::FAILURE,
            signal => ExitCode::from(128 + signal as u8),
        },
    })
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
