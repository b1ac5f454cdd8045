//! The servers: starting them, waiting until they serve, and stopping them.

use crate::client::Client;
use crate::sample::{Bench, TARGET_BYTES};
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tonearm_bench::process::{self, ending_with_us};

/// The server program and its options.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// This project.
    Tonearm,
    /// `nbdkit file`.
    Nbdkit,
    /// `qemu-nbd` of a raw file, `--cache=none --aio=io_uring`.
    QemuUring,
    /// `qemu-nbd` of a raw file, `--cache=none --aio=native`.
    QemuNative,
    /// `nbdkit memory`.
    NbdkitMemory,
}

impl Kind {
    /// The servers of the workloads.
    pub const ALL: [Self; 4] = [
        Self::Tonearm,
        Self::Nbdkit,
        Self::QemuUring,
        Self::QemuNative,
    ];

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tonearm => "tonearm",
            Self::Nbdkit => "nbdkit file",
            Self::QemuUring => "qemu-nbd io_uring",
            Self::QemuNative => "qemu-nbd native",
            Self::NbdkitMemory => "nbdkit memory",
        }
    }

    /// Name of the export.
    pub fn export(self) -> &'static str {
        if self == Self::Tonearm { "main" } else { "" }
    }
}

/// A server that accepts connections. When it is dropped it is killed, which simulates a crash.
pub struct Server {
    kind: Kind,
    process: process::Server,
    socket: PathBuf,
    /// Time from the start to the message that it serves.
    pub started_in: Duration,
}

const START_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(120);

/// Fails with the name of a missing program and how to install it.
pub fn check_tools() -> anyhow::Result<()> {
    for (tool, package) in [
        ("fio", "fio"),
        ("nbdkit", "nbdkit"),
        ("qemu-nbd", "qemu-utils"),
    ] {
        let found = Command::new(tool)
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        if found.is_err() {
            bail!("{tool} is missing: apt-get install {package} (or `make deps`)");
        }
    }
    Ok(())
}

impl Server {
    /// Starts a server on `target`, with `more` as its last arguments.
    ///
    /// # Errors
    /// When the server does not serve within two minutes.
    pub fn start(bench: &Bench, kind: Kind, target: &Path, more: &[&str]) -> anyhow::Result<Self> {
        let socket = bench.dir.join("bench.sock");
        // The socket of the previous server may still exist.
        let _ = std::fs::remove_file(&socket);
        let mut command = match kind {
            Kind::Tonearm => {
                let mut command = Command::new(&bench.tonearm);
                command
                    .arg("serve")
                    .arg(target)
                    .arg("--socket")
                    .arg(&socket);
                command
            }
            Kind::Nbdkit => {
                let mut command = ending_with_us(Path::new("nbdkit"));
                command
                    .args(["-f", "-U"])
                    .arg(&socket)
                    .arg("file")
                    .arg(target);
                command
            }
            Kind::NbdkitMemory => {
                let mut command = ending_with_us(Path::new("nbdkit"));
                command.args(["-f", "-U"]).arg(&socket);
                command.args(["memory", &TARGET_BYTES.to_string()]);
                command
            }
            Kind::QemuUring | Kind::QemuNative => {
                let aio = if kind == Kind::QemuUring {
                    "io_uring"
                } else {
                    "native"
                };
                let mut command = ending_with_us(Path::new("qemu-nbd"));
                command.args(["-t", "-e", "64", "-f", "raw", "--cache=none"]);
                command
                    .arg(format!("--aio={aio}"))
                    .arg("-k")
                    .arg(&socket)
                    .arg(target);
                command
            }
        };
        let line = (kind == Kind::Tonearm).then_some("serving ");
        let log = bench.dir.join("server.log");
        let began = Instant::now();
        let mut process = process::Server::start(command.args(more), log, line)?;
        while line.is_none() && Client::connect(&socket, kind.export()).is_err() {
            if let Some(status) = process.child.try_wait()? {
                bail!("{} ended with {status}: {}", kind.name(), process.log()?);
            }
            if began.elapsed() > START_TIMEOUT {
                bail!("{} does not serve", kind.name());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self {
            kind,
            process,
            socket,
            started_in: began.elapsed(),
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// Connects to the export.
    ///
    /// # Errors
    /// When the server refuses the connection.
    pub fn connect(&self) -> anyhow::Result<Client> {
        Client::connect(&self.socket, self.kind.export())
    }

    /// URI of the export for fio.
    pub fn uri(&self) -> String {
        format!(
            "nbd+unix:///{}?socket={}",
            self.kind.export(),
            self.socket.display()
        )
    }

    /// Stops the server in order.
    ///
    /// # Errors
    /// When the server does not end.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let child = &mut self.process.child;
        kill_process(Pid::from_child(child), Signal::TERM).context("cannot signal the server")?;
        let began = Instant::now();
        while child.try_wait()?.is_none() {
            if began.elapsed() > STOP_TIMEOUT {
                bail!("{} does not end", self.kind.name());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}
