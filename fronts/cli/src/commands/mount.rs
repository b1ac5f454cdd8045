//! `tonearm mount`: a server with a mount and without volumes.

use super::serve::{Plan, serve};
use crate::cli::Mount;
use crate::serve::mount::MountPlan;
use std::process::ExitCode;
use std::time::Duration;

/// How long changes may take to become durable without an fsync, unless `--max-delay` says otherwise.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Mounts, and serves the mount until it ends.
///
/// # Errors
/// When it cannot mount, or the store fails.
pub fn run(arguments: Mount) -> anyhow::Result<ExitCode> {
    let Mount {
        path,
        dir,
        mount_args,
        hosting,
    } = arguments;
    let mount = MountPlan::of(&path, &dir, &mount_args.options)?;
    serve(Plan::of(path, &hosting)?.with_mount(mount, MAX_DELAY))
}
