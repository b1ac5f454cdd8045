//! `make run` on a machine without NBD clients: the script does its main job, and proposes only programs that exist.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tonearm_tests::{Bench, binary, contains, require, wait_until};

/// The programs that scripts/deps.sh requires, and those that every system has.
const PROGRAMS: [&str; 19] = [
    "bash",
    "cat",
    "cmp",
    "cp",
    "cut",
    "dirname",
    "e2fsck",
    "env",
    "grep",
    "mkdir",
    "mkfs.ext4",
    "mv",
    "realpath",
    "rm",
    "sed",
    "setsid",
    "sleep",
    "stat",
    "truncate",
];

/// A copy of the files that the script needs, and a folder that contains only [`PROGRAMS`].
fn bare() -> Bench {
    let bench = Bench::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for folder in ["bin", "scripts", "target/release", "disk"] {
        std::fs::create_dir_all(bench.path(folder)).expect("a folder");
    }
    let copy = |from: &str, to: &str| {
        let (from, to) = (root.join(from), bench.path(to));
        bench.tool(
            "cp",
            &[
                "-r",
                from.to_str().expect("text"),
                to.to_str().expect("text"),
            ],
        );
    };
    copy("scripts/run.sh", "scripts/run.sh");
    copy("disk/store", "disk/store");
    copy("docs", "docs");
    copy("Cargo.toml", "Cargo.toml");
    symlink(binary(), bench.path("target/release/tonearm")).expect("a link");
    for program in PROGRAMS {
        let folders = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];
        let mut paths = folders.iter().map(|folder| Path::new(folder).join(program));
        match paths.find(|path| path.exists()) {
            Some(path) => symlink(path, bench.path("bin").join(program)).expect("a link"),
            None => require(program),
        }
    }
    bench
}

/// A run of the script. It is killed with its server when it is dropped.
struct Script<'a> {
    bench: &'a Bench,
    child: Child,
}

impl<'a> Script<'a> {
    fn start(bench: &'a Bench) -> Self {
        let file = |name: &str| File::create(bench.path(name)).expect("a file");
        // A test runner in the background ignores SIGINT. A shell cannot trap a signal that was ignored when it
        // started.
        let child = Command::new("env")
            .arg("--default-signal=INT")
            .arg(bench.path("scripts/run.sh"))
            .env_clear()
            .env("PATH", bench.path("bin"))
            .env("SIZE", "128MiB")
            .env("STORE_SIZE", "512MiB")
            .stdin(Stdio::null())
            .stdout(file("script.out"))
            .stderr(file("script.err"))
            .spawn()
            .expect("the script runs");
        Self { bench, child }
    }

    fn said(&self) -> String {
        let text = |name: &str| String::from_utf8_lossy(&self.bench.read(name)).into_owned();
        text("script.out") + &text("script.err")
    }

    /// Waits for the end and returns the exit code.
    fn end(&mut self) -> Option<i32> {
        let mut status = None;
        wait_until("the end of the script", Duration::from_secs(120), || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }

    /// Waits until the script serves and has printed what to try. Returns its output.
    fn ready(&mut self) -> String {
        wait_until("the last line", Duration::from_secs(120), || {
            let ended = self.child.try_wait().expect("a child");
            assert!(ended.is_none(), "it ended: {}", self.said());
            self.said().contains("Ctrl-C closes it in order.")
        });
        self.said()
    }

    fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("sent");
    }
}

impl Drop for Script<'_> {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // SIGINT makes the script end its server.
            self.interrupt();
            let _ = self.child.wait();
        }
    }
}

#[test]
fn make_run_copies_and_verifies_without_nbd_clients() {
    let bench = bare();
    let mut script = Script::start(&bench);
    let said = script.ready();
    let mut from = 0;
    for step in [
        "created run/store.tn",
        "run/image.ext4 -> main; 64 MiB",
        "killed the server with -9, serving again",
        "main -> ",
        "the same bytes came back, and the file system is sound",
        "Try, in another terminal:",
        "target/release/tonearm stats run/store.tn --watch",
        "And more, after: apt-get install",
    ] {
        let at = said[from..].find(step);
        from += at.unwrap_or_else(|| panic!("{step:?} is not there, or too early: {said}"));
    }
    let (proposed, more) = said.split_once("And more").expect("checked");
    for absent in ["nbdcopy", "nbdinfo", "qemu", "fio", "sqlite3"] {
        assert!(!proposed.contains(absent), "{absent} is not here: {said}");
    }
    contains(more, "libnbd-bin");
    script.interrupt();
    assert_eq!(script.end(), Some(0), "{}", script.said());
    let info = bench.json(&["info", "run/store.tn", "--json"]);
    assert_eq!(info["state"], "clean");

    // A second run verifies the existing store and serves it.
    let mut script = Script::start(&bench);
    let said = script.ready();
    contains(&said, "run/store.tn was there already");
    contains(&said, "no damage");
    script.interrupt();
    assert_eq!(script.end(), Some(0), "{}", script.said());
}

#[test]
fn make_run_fails_when_the_copy_was_not_verified() {
    let bench = bare();
    std::fs::remove_file(bench.path("bin/cmp")).expect("a link");
    symlink("/bin/false", bench.path("bin/cmp")).expect("a link");
    let mut script = Script::start(&bench);
    assert_eq!(script.end(), Some(1), "{}", script.said());
    contains(&script.said(), "other bytes came back than went in");
    assert!(!script.said().contains("Try, in another terminal"));
    assert!(
        !bench.path("run/store.tn").exists(),
        "a store that was not verified does not keep its name"
    );

    // The script is interrupted while it verifies the copy. A signal that arrives between two programs of the script may
    // be lost in bash 5.2.
    std::fs::remove_file(bench.path("bin/cmp")).expect("a link");
    bench.write("bin/cmp", b"#!/bin/sh\n: >comparing\nexec sleep 2\n");
    bench.tool("chmod", &["+x", "bin/cmp"]);
    let mut script = Script::start(&bench);
    wait_until("the comparison", Duration::from_secs(120), || {
        bench.path("comparing").exists()
    });
    script.interrupt();
    assert_eq!(script.end(), Some(130), "{}", script.said());
    assert!(
        !bench.path("run/store.tn").exists(),
        "a store that was not verified does not keep its name"
    );
}
