//! ext4 with its journal, on a loop device with direct I/O over a file whose blocks are written.

use anyhow::Context;
use rustix::mount::{UnmountFlags, unmount};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tonearm_bench::process;

/// ext4 that is mounted until the value is dropped.
pub struct Ext4 {
    place: PathBuf,
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let said = process::run(Command::new(program).args(arguments))?;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

impl Ext4 {
    /// Writes a file of `mib` MiB, and makes and mounts ext4 on it.
    ///
    /// # Errors
    /// When there is no space or no loop device, or a program fails.
    pub fn new(dir: &Path, mib: u64) -> anyhow::Result<Self> {
        let image = dir.join("ext4.img");
        // Allocated blocks that were never written would make the file system below change its metadata at their first
        // write.
        let mut file = File::create(&image)?;
        let zeroes = vec![0; 1 << 20];
        for _ in 0..mib {
            file.write_all(&zeroes).context("writing ext4's file")?;
        }
        file.sync_all()?;
        drop(file);
        let place = dir.join("ext4");
        std::fs::create_dir(&place)?;
        let image = image.to_str().context("a path in UTF-8")?;
        let device = run("losetup", &["--find", "--show", "--direct-io=on", image])?;
        let made = run(
            "mkfs.ext4",
            &[
                "-q",
                "-F",
                // Otherwise the kernel writes them during the first samples.
                "-E",
                "lazy_itable_init=0,lazy_journal_init=0",
                &device,
            ],
        )
        .and_then(|_| {
            let place = place.to_str().context("a path in UTF-8")?;
            run("mount", &["-t", "ext4", "-o", "noatime", &device, place])
        });
        // The kernel detaches the device when its last user closes it: now, or with the mount.
        run("losetup", &["-d", &device])?;
        made?;
        Ok(Self { place })
    }

    /// The root of the file system.
    pub fn root(&self) -> &Path {
        &self.place
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        if unmount(&self.place, UnmountFlags::empty()).is_err() {
            let _ = unmount(&self.place, UnmountFlags::DETACH);
        }
    }
}
