//! The file systems that are compared, and their servers.

use crate::passthrough;
use crate::sample::Bench;
use anyhow::{Context, bail};
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use std::path::{Path, PathBuf};
use tonearm_bench::process::{Server, ending_with_us};

/// A file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// This project.
    Tonearm,
    /// ext4 on a loop device.
    Ext4,
    /// A passthrough FUSE file system over this ext4.
    Passthrough,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tonearm, Self::Ext4, Self::Passthrough];

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tonearm => "tonearm",
            Self::Ext4 => "ext4",
            Self::Passthrough => "passthrough",
        }
    }
}

/// A file system that is mounted. It is unmounted when the value is dropped, except ext4, which stays.
pub struct Mounted {
    place: PathBuf,
    server: Option<Server>,
}

impl Mounted {
    /// Mounts.
    ///
    /// # Errors
    /// When its server does not start.
    pub fn start(bench: &Bench, kind: Kind) -> anyhow::Result<Self> {
        let place = bench.dir.join("mnt");
        let mut command = match kind {
            Kind::Ext4 => {
                let place = bench.ext4.root().to_path_buf();
                let server = None;
                return Ok(Self { place, server });
            }
            Kind::Tonearm => {
                let mut command = ending_with_us(&bench.tonearm);
                command.arg("mount").arg(bench.store()).arg(&place);
                command
            }
            Kind::Passthrough => {
                let mut command = ending_with_us(&std::env::current_exe()?);
                let source = bench.ext4.root();
                command.arg(passthrough::COMMAND).arg(source).arg(&place);
                command
            }
        };
        fs::create_dir_all(&place)?;
        let log = bench.dir.join("server.log");
        let server = Some(Server::start(&mut command, log, Some("mounted "))?);
        Ok(Self { place, server })
    }

    /// The root of the file system.
    pub fn root(&self) -> &Path {
        &self.place
    }

    /// Process of the server, if it has one.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(|server| server.child.id())
    }

    /// Unmounts, and waits for the end of the server.
    ///
    /// # Errors
    /// When it is in use, or the server fails.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let Some(mut server) = self.server.take() else {
            return Ok(());
        };
        let unmounted = unmount(&self.place, UnmountFlags::empty());
        if unmounted.is_err() {
            let _ = unmount(&self.place, UnmountFlags::DETACH);
        }
        let status = server.child.wait()?;
        unmounted.context("unmounting")?;
        match status.success() {
            true => Ok(()),
            false => bail!("the server ended with {status}"),
        }
    }
}

impl Drop for Mounted {
    /// Unmounts it after an error. The server ends by itself.
    fn drop(&mut self) {
        if self.server.is_some() {
            let _ = unmount(&self.place, UnmountFlags::DETACH);
        }
    }
}
