//! `tonearm attach`, `tonearm detach` and `tonearm devices`: volumes as block devices of this kernel.

use super::serve::{Plan, serve};
use crate::cli::{Attach, Detach, Devices};
use crate::serve::attach::AttachPlan;
use anyhow::{Context, bail};
use std::process::ExitCode;
use tonearm_attach::{Device, devices};
use tonearm_terminal::{report, size};

/// Attaches, and serves the device until it ends.
///
/// # Errors
/// When it cannot attach, or the store fails.
pub fn run(arguments: Attach) -> anyhow::Result<ExitCode> {
    let Attach {
        path,
        volume,
        attach_args,
        hosting,
    } = arguments;
    let attach = AttachPlan::of(&path, vec![volume], &attach_args)?;
    serve(Plan::of(path, &hosting)?.with_devices(attach))
}

/// Ends a device that is not in use, or any with `--force`. Its server ends then.
///
/// # Errors
/// When there is no such device, or it is in use.
pub fn detach(arguments: &Detach) -> anyhow::Result<ExitCode> {
    let Detach {
        path,
        volume,
        force,
    } = arguments;
    let path = &std::path::absolute(path)?;
    let is_meant = |device: &Device| {
        device.path() == *path || (device.identity.is_at(path) && device.identity.volume == *volume)
    };
    let found = devices()?.into_iter().find(is_meant);
    let device = found.with_context(|| {
        format!(
            "no device is {}, or belongs to volume {volume} of it; `tonearm devices` lists all",
            path.display()
        )
    })?;
    let name = device.path();
    if !force && device.is_claimed()? {
        bail!(
            "{} is in use: unmount it first, or end the program that has it (see `lsblk {0}`); with --force its programs get errors",
            name.display()
        );
    }
    device.detach(*force)?;
    report::line(format_args!("detached {}", name.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Lists the devices.
///
/// # Errors
/// When /sys cannot be read.
pub fn list(arguments: &Devices) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    let mut table = report::table(&["device", "volume", "size", "mode", "use", "store"]);
    for device in devices()? {
        // The device may go while it is looked at.
        let claimed = device.is_claimed().unwrap_or(false);
        let (path, identity) = (device.path(), &device.identity);
        rows.push(serde_json::json!({
            "device": path, "volume": identity.volume, "store": identity.path, "uuid": identity.uuid,
            "size_bytes": device.size_bytes, "read_only": device.read_only, "in_use": claimed,
        }));
        table.add_row([
            path.display().to_string(),
            identity.volume.clone(),
            size::text(device.size_bytes),
            if device.read_only {
                "read-only"
            } else {
                "read-write"
            }
            .to_owned(),
            if claimed { "in use" } else { "free" }.to_owned(),
            identity.path.display().to_string(),
        ]);
    }
    if arguments.json {
        report::json(&serde_json::json!({ "devices": rows }))?;
    } else if rows.is_empty() {
        report::note("no volume is attached; `tonearm attach --help` shows how");
    } else {
        report::align_right(&mut table, 2..3);
        report::line(table)?;
    }
    Ok(ExitCode::SUCCESS)
}
