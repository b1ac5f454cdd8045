//! Conformance of the mounted file system: suites of others (pjdfstest, fsx, stress-ng, dbench, tar), and limits.
//!
//! `make test` runs a share. `make fs-conformance` sets `TONEARM_FS_CONFORMANCE=long`, runs everything, and prints counts.
//! After each test the store is checked: nothing may be found.

mod concurrent;
mod full;
mod limits;
mod suites;

use std::path::Path;
use std::process::{Command, Stdio};
use tonearm_tests::mount::fuse_possible;
use tonearm_tests::{Bench, Ran, TreeMount, skipped};

/// True for `make fs-conformance`.
fn is_long() -> bool {
    std::env::var("TONEARM_FS_CONFORMANCE").as_deref() == Ok("long")
}

/// The first value in `make test`, the second one in `make fs-conformance`.
fn share<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}

/// A bench with a store for files alone; `None` when this machine cannot mount.
fn bench(size: &str, log: &str) -> Option<Bench> {
    if let Err(why) = fuse_possible() {
        skipped("conformance of the mounted file system", &why);
        return None;
    }
    let sizes = ["--size", size, "--log-size", log, "--no-volume"];
    Some(Bench::created(&sizes))
}

/// Mounts for all users, with devices and set-user-id programs.
#[track_caller]
fn mounted(bench: &Bench) -> TreeMount {
    TreeMount::with_options(bench, "allow_other,suid,dev")
}

/// Unmounts, and checks that nothing is wrong.
#[track_caller]
fn unmount_and_check(bench: &Bench, mount: TreeMount) {
    mount.unmount();
    check(bench);
}

#[track_caller]
fn check(bench: &Bench) {
    bench.ok(&["check", "s.tn"]);
}

/// A program with a time limit in seconds.
fn limited(program: &Path, limit_s: u64) -> Command {
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", &limit_s.to_string()])
        .arg(program)
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    command
}

fn ran(command: &mut Command) -> Ran {
    Ran::of(&command.output().expect("timeout runs"))
}
