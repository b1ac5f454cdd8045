//! Programs of the system: found or missed by name, run under a time limit.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Where the system's programs are, before anything that a user has put in front of them: nbdsh
/// must meet the Python that has its module.
const SYSTEM_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Seconds until a program is ended; several times what any takes on a slow machine.
const LIMIT_S: &str = "120";

/// Which Debian package has which program.
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

/// How a program ended.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// From the output of a process.
    pub fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Both outputs.
    pub fn text(&self) -> String {
        format!("{}{}", self.out, self.err)
    }
}

/// Fails, with the name of the package, when a program is not there.
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

/// A program of the system in `folder`, to be ended with everything below it after a while.
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

/// Says aloud that this machine cannot do something; where `CI=true`, fails.
pub fn skipped(what: &str, why: &str) {
    let line = format!("SKIPPED: {what}: {why}");
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "{line} (not allowed where CI=true)"
    );
    // Straight to the terminal: the test harness keeps back what a passing test prints.
    let _ = std::fs::OpenOptions::new()
        .append(true)
        .open("/dev/stderr")
        .map(|mut err| std::io::Write::write_all(&mut err, format!("\n{line}\n").as_bytes()));
}
