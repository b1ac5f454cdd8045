//! `tonearm mount`: a server with a mount and without volumes.

use super::serve::{Plan, serve};
use crate::cli::Mount;
use crate::control::{Client, Request};
use crate::serve::mount::MountPlan;
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tonearm_terminal::report;

/// How long changes may take to become durable without an fsync, unless `--max-delay` says otherwise.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// How often the end of an earlier server is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// So often an earlier server may answer. One that was unmounted just now soon stops to.
const ANSWERS_MAX: u32 = 10;
/// Longest wait for the end of an earlier server.
const WAIT_MAX: Duration = Duration::from_secs(60);

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
    wait_for_earlier_server(&path, hosting.control.as_deref());
    serve(Plan::of(path, &hosting)?.with_mount(mount, MAX_DELAY))
}

/// `umount` returns before the server has written everything home. Waits while a server is about to close the store; its
/// control socket then no longer answers. The lock of the store decides afterwards.
fn wait_for_earlier_server(path: &Path, control: Option<&Path>) {
    let began = Instant::now();
    let (mut answers, mut reported) = (0, false);
    while let Ok(Some(mut client)) = Client::find(path, control) {
        if client.ask(Request::Stats, |_, _| {}).is_ok() {
            answers += 1;
        } else if !std::mem::replace(&mut reported, true) {
            report::note("waiting until the earlier server has closed the store");
        }
        if answers == ANSWERS_MAX || began.elapsed() > WAIT_MAX {
            return;
        }
        sleep(LOOK);
    }
}
