//! Programs of the system. They are looked up by name and run with a time limit.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Folders of the system's programs. Programs that a user has installed elsewhere are not used, because nbdsh needs the
/// Python that has its module.
const SYSTEM_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Time limit of a program in seconds, several times what any needs on a slow machine.
const LIMIT_S: &str = "120";

/// The Debian package of each program.
const PACKAGES: &[(&str, &str)] = &[
    ("nbdinfo", "libnbd-bin"),
    ("nbdcopy", "libnbd-bin"),
    ("nbdfuse", "libnbd-bin"),
    ("nbdsh", "python3-libnbd"),
    ("nbdkit", "nbdkit"),
    ("cc", "gcc"),
    ("nm", "binutils"),
    ("qemu-img", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
    ("fio", "fio"),
    ("sqlite3", "sqlite3"),
    ("python3", "python3"),
    ("openssl", "openssl"),
    ("gzip", "gzip"),
    ("mkfs.ext4", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("xfs_repair", "xfsprogs"),
    ("losetup", "mount"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("fusermount3", "fuse3"),
    ("cp", "coreutils"),
    ("chmod", "coreutils"),
    ("cmp", "diffutils"),
    ("bash", "bash"),
    ("setsid", "util-linux"),
    ("diff", "diffutils"),
    ("sh", "dash"),
    ("kill", "procps"),
    ("systemd-socket-activate", "systemd"),
];

/// Result of a program.
#[derive(Debug)]
pub struct Ran {
    /// Exit code, or none when a signal has ended the program.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// The result from the output of a process.
    pub fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Standard output followed by standard error.
    pub fn text(&self) -> String {
        format!("{}{}", self.out, self.err)
    }
}

/// Fails with the name of the package when a program is missing.
pub fn require(name: &str) {
    let there = SYSTEM_PATH
        .split(':')
        .any(|folder| Path::new(folder).join(name).exists());
    let package = PACKAGES
        .iter()
        .find(|(program, _)| *program == name)
        .map_or("?", |(_, package)| package);
    assert!(
        there,
        "{name} is missing: apt install {package} (this test does not run without it)"
    );
}

/// A command that runs a program of the system in `folder`. timeout(1) kills the program and its children after the
/// time limit.
pub fn tool(folder: &Path, name: &str) -> Command {
    require(name);
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", LIMIT_S, name])
        .env("PATH", SYSTEM_PATH)
        .env("LC_ALL", "C")
        .current_dir(folder)
        .stdin(Stdio::null());
    command
}

/// Prints that this machine cannot run a test. Fails where `CI=true`.
pub fn skipped(what: &str, why: &str) {
    let line = format!("SKIPPED: {what}: {why}");
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "{line} (not allowed where CI=true)"
    );
    // This writes to the terminal itself, because the test harness does not show the output of a passing test.
    let _ = std::fs::OpenOptions::new()
        .append(true)
        .open("/dev/stderr")
        .map(|mut err| std::io::Write::write_all(&mut err, format!("\n{line}\n").as_bytes()));
}
