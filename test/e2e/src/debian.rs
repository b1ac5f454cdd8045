//! A Debian system on a volume, as a user makes, serves and boots it: `scripts/debian-volume.sh` makes it and prints the commands for
//! the rest.

use crate::bench::{Bench, binary};
use crate::console::Console;
use crate::server::Server;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

/// How QEMU reaches the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Over the memory of the machine.
    VhostUser,
    /// QEMU's NBD client, which connects again.
    Nbd,
}

/// A store with the system on its volume `main`, and the commands that the script printed.
pub struct Debian {
    /// Dropped before the folder, so that it can print what it said.
    server: Option<Server>,
    bench: Bench,
    serve: Vec<String>,
    boot: String,
}

impl Debian {
    /// Makes the system, with PostgreSQL, and serves it.
    #[track_caller]
    pub fn new(way: Way) -> Self {
        Self::with(way, "postgresql")
    }

    /// Makes the system with a package, and serves it.
    #[track_caller]
    pub fn with(way: Way, package: &str) -> Self {
        /// Tests that run at once would pack the same system twice.
        static PACKING: Mutex<()> = Mutex::new(());
        let packing = PACKING.lock();
        let bench = Bench::new();
        bench.ok(&[
            "create",
            "debian.tn",
            "--size",
            "2GiB",
            "--log-size",
            "64MiB",
        ]);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut script = Command::new(root.join("scripts/debian-volume.sh"));
        if way == Way::Nbd {
            script.arg("--nbd");
        }
        let made = script
            .args(["debian.tn", "main", package])
            .env("TONEARM", binary())
            .env("CACHE", root.join("target/guest"))
            .current_dir(bench.folder())
            .output()
            .expect("the script runs");
        drop(packing);
        let said = String::from_utf8_lossy(&made.stdout).into_owned();
        let errors = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{said}{errors}");
        let command = |part: &str| {
            let found: Vec<&str> = said
                .lines()
                .filter(|line| line.starts_with("    ") && line.contains(part))
                .collect();
            assert_eq!(found.len(), 1, "one command with {part:?} in {said}");
            found[0].trim().to_owned()
        };
        let serve = command(" serve ");
        let serve: Vec<String> = serve.split_whitespace().map(str::to_owned).collect();
        assert_eq!(Path::new(&serve[0]), binary());
        let boot = command("qemu-system-x86_64 ");
        let mut debian = Self {
            server: None,
            bench,
            serve,
            boot,
        };
        debian.start_server();
        debian
    }

    /// Starts the server.
    #[track_caller]
    pub fn start_server(&mut self) {
        let words: Vec<&str> = self.serve[1..].iter().map(String::as_str).collect();
        let server = Server::start_with(&self.bench, &words, "serving ");
        self.server = Some(server.unwrap_or_else(|ran| panic!("no server: {ran:?}")));
    }

    /// Kills the server with SIGKILL.
    pub fn kill_server(&mut self) {
        self.server.take().expect("it runs").kill9();
    }

    /// Boots the system.
    #[track_caller]
    pub fn boot(&self) -> Console {
        Console::boot(&self.bench, &self.boot)
    }

    /// Boots the system with a second drive, /dev/vdb, which has the bytes of a file and cannot be written.
    #[track_caller]
    pub fn boot_with(&self, file: &str) -> Console {
        let drive = format!("-drive file={file},format=raw,if=virtio,readonly=on");
        Console::boot(&self.bench, &format!("{} {drive}", self.boot))
    }

    /// The folder of the test.
    pub fn bench(&self) -> &Bench {
        &self.bench
    }

    /// Ends the server in order, and checks the store and the file system, which was unmounted.
    #[track_caller]
    pub fn check(mut self) {
        self.take_image();
        self.bench.tool("e2fsck", &["-fn", "image"]);
    }

    /// As [`Debian::check`], for a system that has lost its power: the journal of the file system is replayed first.
    #[track_caller]
    pub fn check_after_cut(mut self) {
        self.take_image();
        self.bench
            .tool_run("e2fsck", &["-E", "journal_only", "-p", "image"]);
        self.bench.tool("e2fsck", &["-fn", "image"]);
    }

    #[track_caller]
    fn take_image(&mut self) {
        self.server.take().expect("it runs").end_ok();
        self.bench.ok(&["check", "debian.tn"]);
        self.bench
            .ok(&["volume", "get", "debian.tn", "main", "image"]);
    }
}
