//! `tonearm scrub`.

use super::DAMAGED;
use crate::cli::Scrub;
use crate::control::{Answer, Client, DamagedGroup, Request};
use crate::progress::{Progress, Unit};
use crate::report;
use anyhow::bail;
use std::process::ExitCode;

/// Has the server verify all blocks.
///
/// # Errors
/// When there is no server, or a device fails.
pub fn run(arguments: Scrub) -> anyhow::Result<ExitCode> {
    let mut client = Client::need(&arguments.path, arguments.control.as_deref())?;
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
        if sound {
            report::line("no damage found")?;
        }
    }
    Ok(if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DAMAGED)
    })
}

/// Lists damage, group by group.
///
/// # Errors
/// When nobody reads it.
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
