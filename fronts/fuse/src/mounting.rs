//! Mounting and unmounting: mount(2) where it is allowed, otherwise fusermount3, which may mount for users.

use crate::error::MountError;
use crate::options::MountOptions;
use crate::place::{FS_TYPE, Mountable, is_ours};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, mount, mount_remount, unmount};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};
use std::ffi::CString;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const DEVICE: &str = "/dev/fuse";
/// The helper that may mount for users.
const HELPER: &str = "fusermount3";
/// How fusermount3 gets to know where to send the descriptor of the device.
const HELPER_SOCKET: &str = "_FUSE_COMMFD";

/// A mount, which stays until it is unmounted.
#[derive(Debug)]
pub struct Mounted {
    path: PathBuf,
}

/// Mounts, and returns the descriptor that connects to the kernel.
pub(crate) fn mount_on(
    place: &Mountable,
    source: &str,
    options: &MountOptions,
) -> Result<(OwnedFd, Mounted), MountError> {
    let path = place.path.clone();
    let device = match directly(&path, source, options) {
        Err(Errno::PERM | Errno::ACCESS) => by_helper(&path, source, options)?,
        Err(error) => {
            return Err(match error {
                Errno::NOENT | Errno::NXIO | Errno::NODEV => MountError::NoDevice,
                error => io_error("mount on", &path, error),
            });
        }
        Ok(device) => device,
    };
    Ok((device, Mounted { path }))
}

fn io_error(what: &'static str, path: &Path, error: Errno) -> MountError {
    MountError::Io {
        what,
        place: path.to_path_buf(),
        error: error.into(),
    }
}

fn directly(path: &Path, source: &str, options: &MountOptions) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open(DEVICE, flags, Mode::empty())?;
    let root_mode = rustix::fs::stat(path)?.st_mode;
    let mut data = format!(
        "fd={},rootmode={root_mode:o},user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        rustix::process::getuid(),
        rustix::process::getgid(),
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    mount(source, path, FS_TYPE, options.flags(), Some(&*data))?;
    Ok(device)
}

fn by_helper(path: &Path, source: &str, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let not_permitted = |why: String| MountError::NotPermitted {
        place: path.to_path_buf(),
        why,
    };
    let pair = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    );
    let (own, other) = pair.map_err(|error| io_error("mount on", path, error))?;
    let kind = FS_TYPE.trim_start_matches("fuse.");
    let name = source.replace('\\', r"\\").replace(',', r"\,");
    let words = options.words().join(",");
    let mut command = Command::new(HELPER);
    command
        .args(["-o", &format!("{words},fsname={name},subtype={kind}"), "--"])
        .arg(path)
        .env(HELPER_SOCKET, "0")
        .stdin(Stdio::from(other))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = command.spawn();
    let child = child.map_err(|error| not_permitted(format!("{HELPER}: {error}")))?;
    // The parent's copy of the socket must be closed, or the end of the helper is not seen.
    drop(command);
    let received = receive_descriptor(&own);
    let ended = child.wait_with_output();
    match received {
        Some(device) => Ok(device),
        None => {
            let said = ended.map_or(String::new(), |ended| {
                String::from_utf8_lossy(&ended.stderr).trim().to_string()
            });
            Err(if said.contains("ermission") {
                not_permitted(said)
            } else {
                MountError::Refused {
                    place: path.to_path_buf(),
                    said,
                }
            })
        }
    }
}

/// The descriptor that the helper sends; `None` when it has ended without one.
fn receive_descriptor(socket: &OwnedFd) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    loop {
        match recvmsg(socket, &mut parts, &mut control, flags) {
            Err(Errno::INTR) => {}
            Err(_) => return None,
            Ok(_) => break,
        }
    }
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })
}

impl Mounted {
    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts. False when programs still use it: then it is detached, and goes on for what they have open.
    ///
    /// # Errors
    /// When it can be neither unmounted nor detached.
    pub fn unmount(&self) -> Result<bool, MountError> {
        if !is_ours(&self.path) {
            return Ok(true);
        }
        match unmount_with(&self.path, UnmountFlags::NOFOLLOW, &["-u"]) {
            Ok(()) => Ok(true),
            Err(MountError::Io { .. } | MountError::Refused { .. }) => {
                detach(&self.path).map(|()| false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Changes the flags of a mount of ours (`mount -o remount`): read-only or not, access times, set-user-id programs, devices.
/// `list` is what mount(8) passes on: all flags that are to hold, and options of FUSE, which stay as they are. The server goes
/// on; it takes no changes if it was started with `ro`.
///
/// # Errors
/// When it is no mount of ours, an option is not known, files are open for writing and the mount is to become read-only, or
/// the caller may not mount.
pub fn remount(place: &Path, list: &str) -> Result<(), MountError> {
    let error = |error: std::io::Error| MountError::Io {
        what: "remount",
        place: place.to_path_buf(),
        error,
    };
    let path = place.canonicalize().map_err(error)?;
    if !is_ours(&path) {
        return Err(MountError::NotMounted(path));
    }
    let options = MountOptions::of_remount(list)?;
    mount_remount(&path, options.flags(), "").map_err(|failed| error(failed.into()))
}

/// Takes the mount out of the tree. It ends with the last file that is open.
pub(crate) fn detach(path: &Path) -> Result<(), MountError> {
    let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    unmount_with(path, flags, &["-u", "-z"])
}

fn unmount_with(path: &Path, flags: UnmountFlags, helper: &[&str]) -> Result<(), MountError> {
    match unmount(path, flags) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => {
            let ran = Command::new(HELPER)
                .args(helper)
                .arg("--")
                .arg(path)
                .output();
            match ran {
                Ok(ran) if ran.status.success() => Ok(()),
                Ok(ran) => Err(MountError::Refused {
                    place: path.to_path_buf(),
                    said: String::from_utf8_lossy(&ran.stderr).trim().to_string(),
                }),
                Err(error) => Err(MountError::Io {
                    what: "unmount",
                    place: path.to_path_buf(),
                    error,
                }),
            }
        }
        Err(error) => Err(io_error("unmount", path, error)),
    }
}
