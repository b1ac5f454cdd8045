//! A volume as a file (nbdfuse), as a loop device, and mounted. Each type undoes its step when it is dropped.

use crate::bench::Bench;
use crate::server::wait_until;
use crate::tool::tool;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Checks that this machine allows mounting.
///
/// # Errors
/// Why mounting is not possible.
pub fn possible() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("needs root for loop devices and mount".into());
    }
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if !Path::new(device).exists() {
            return Err(format!("{device} is missing"));
        }
    }
    Ok(())
}

/// Checks that this machine allows `tonearm mount`.
///
/// # Errors
/// Why it is not possible.
pub fn fuse_possible() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("needs root for mount".into());
    }
    match std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
    {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("/dev/fuse cannot be opened: {error}")),
    }
}

/// A volume that nbdfuse shows as a file.
pub struct Fuse {
    child: Child,
    place: PathBuf,
}

impl Fuse {
    /// Shows the export at `uri` as a file in the folder `name` of the bench.
    pub fn new(bench: &Bench, name: &str, uri: &str) -> Self {
        crate::tool::require("nbdfuse");
        crate::tool::require("fusermount3");
        let place = bench.path(name);
        std::fs::create_dir_all(&place).expect("a folder");
        let mut command = std::process::Command::new("nbdfuse");
        let command = command.arg(&place).arg(uri).stdin(Stdio::null());
        let fuse = Self {
            child: command.spawn().expect("nbdfuse runs"),
            place,
        };
        wait_until("nbdfuse", Duration::from_secs(10), || fuse.file().exists());
        fuse
    }

    /// The file that is the volume.
    pub fn file(&self) -> PathBuf {
        self.place.join("nbd")
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        let folder = Path::new("/");
        let _ = tool(folder, "fusermount3")
            .arg("-u")
            .arg(&self.place)
            .status();
        let ended = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            matches!(self.child.try_wait(), Ok(Some(_)))
        });
        if !ended {
            // A lazy unmount, so that the folder can be removed even when a process still uses it.
            let _ = tool(folder, "fusermount3")
                .arg("-uz")
                .arg(&self.place)
                .status();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A loop device over a file.
pub struct Loop {
    /// Path of the device, `/dev/loopN`.
    pub device: String,
}

impl Loop {
    /// Creates a loop device with this sector size.
    pub fn new(bench: &Bench, file: &Path, sector_bytes: u32) -> Self {
        let file = file.to_string_lossy();
        let sector = sector_bytes.to_string();
        let out = bench.tool(
            "losetup",
            &["--find", "--show", "--sector-size", &sector, &file],
        );
        Self {
            device: out.trim().to_string(),
        }
    }

    /// Lets all later writes fail, also those of a process that has the device open. Reads go on.
    pub fn fail_writes(&self, bench: &Bench) {
        bench.tool("blockdev", &["--setro", &self.device]);
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // The next user of this number would find it so.
        let _ = tool(Path::new("/"), "blockdev")
            .args(["--setrw", &self.device])
            .status();
        let _ = tool(Path::new("/"), "losetup")
            .args(["-d", &self.device])
            .status();
        // The kernel detaches the device only when its last user has closed it. udev may still have it open.
        let backing = format!(
            "/sys/block/{}/loop/backing_file",
            self.device.trim_start_matches("/dev/")
        );
        for _ in 0..500 {
            if !Path::new(&backing).exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        eprintln!("{} is still attached", self.device);
    }
}

/// A mounted file system.
pub struct Mount {
    place: PathBuf,
}

/// A file system of `bytes` in the folder `host` of the bench. The mount must be dropped before its device.
pub fn small_host(bench: &Bench, bytes: u64) -> (Loop, Mount) {
    let image = std::fs::File::create(bench.path("host.img")).expect("a file");
    image.set_len(bytes).expect("long");
    let device = Loop::new(bench, &bench.path("host.img"), 512);
    bench.tool("mkfs.ext4", &["-q", "-F", "-m", "0", &device.device]);
    let mount = Mount::new(bench, &device.device, "host");
    (device, mount)
}

impl Mount {
    /// Mounts `device` on the folder `name` of the bench.
    pub fn new(bench: &Bench, device: &str, name: &str) -> Self {
        let place = bench.path(name);
        std::fs::create_dir_all(&place).expect("a folder");
        bench.tool("mount", &[device, &place.to_string_lossy()]);
        Self { place }
    }

    /// Root of the mounted file system.
    pub fn root(&self) -> &Path {
        &self.place
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let folder = Path::new("/");
        let done = tool(folder, "umount").arg(&self.place).status();
        if !done.is_ok_and(|status| status.success()) {
            let _ = tool(folder, "umount").arg("-l").arg(&self.place).status();
        }
    }
}
