//! Programs of the system. They are looked up by name and run with a time limit.

use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
pub use tonearm_command_rig::Ran;

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
    ("blockdev", "util-linux"),
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
    ("stress-ng", "stress-ng"),
    ("dbench", "dbench"),
    ("tar", "tar"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("strip", "binutils"),
    ("unshare", "util-linux"),
    ("virt-qemu-run", "libvirt-daemon-driver-qemu"),
];

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

/// A program that runs in the background of a test. It is killed with all its children when the value is dropped.
pub struct Background(Child);

impl Background {
    /// Starts a command of [`tool`]. timeout(1) runs the program in a process group of its own.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().expect("timeout runs"))
    }

    /// The process of timeout(1).
    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// True while the program runs.
    pub fn runs(&mut self) -> bool {
        self.0.try_wait().expect("a child").is_none()
    }

    /// Waits for the end of the program, which must succeed. Its standard error is piped.
    #[track_caller]
    pub fn ended_well(mut self) {
        let mut text = String::new();
        let mut err: ChildStderr = self.0.stderr.take().expect("piped");
        std::io::Read::read_to_string(&mut err, &mut text).expect("text");
        let status = self.0.wait().expect("an end");
        assert!(status.success(), "{status}: {text}");
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
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

/// A program that is no Debian package and that `make deps` builds (`scripts/deps.sh`), in PATH or in the folder for such programs.
#[track_caller]
pub fn built_tool(name: &str) -> PathBuf {
    let of = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = || of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache")));
    let tools = of("TONEARM_TOOLS").or_else(|| Some(cache()?.join("tonearm-tools-1")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path);
    let built = tools.into_iter().map(|tools| tools.join("bin"));
    let mut programs = folders.chain(built).map(|folder| folder.join(name));
    programs.find(|program| program.is_file()).unwrap_or_else(|| {
        panic!("{name} is missing: run `make deps`, which builds it (this test does not run without it)")
    })
}
