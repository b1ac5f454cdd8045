//! The commands of the kernel's ublk driver.
//!
//! ```text
//!  add, set parameters --> Dead --start--> Live --server dies--> Quiesced --recover--> Live
//!                            ^--- stop -----+--------- stop ---------+
//! ```

use super::abi::{DeviceInfo, Parameters, State, control, flag};
use super::label;
use crate::device::{Device, Driver, load_module};
use crate::error::AttachError;
use crate::identity::Identity;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::io::{Error, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tonearm_uring::UblkControl;

/// Requests under way at a time.
const DEPTH: u16 = 64;

/// Most bytes of a request.
const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// After so many milliseconds with all requests at a dead server, the kernel notices that it is dead. Otherwise it notices at once. It
/// does nothing to requests of a server that lives.
const NOTICE_MS: u32 = 1000;

/// How long a device may take to go.
const GOING: Duration = Duration::from_secs(10);
const GOING_CHECK_EVERY: Duration = Duration::from_millis(5);

/// What the kernel must know of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UblkShape {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Bytes of a logical block: 512 to 4,096, a power of two.
    pub block_bytes: u32,
    /// Bytes of a block of the store, at least as many.
    pub store_block_bytes: u32,
    /// Whether changes are refused.
    pub read_only: bool,
}

/// A device that was made, or that an earlier server has left.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its number: 0 for /dev/ublkb0.
    pub index: u32,
    /// Requests under way at a time.
    pub depth: u16,
    state: State,
}

/// The driver.
pub struct Ublk {
    control: UblkControl,
}

impl Ublk {
    /// Opens the driver, whose module is loaded if it is there.
    ///
    /// # Errors
    /// When there is none, it is too old, or the user is not root.
    pub fn new() -> Result<Self, AttachError> {
        load_module("ublk_drv");
        let control = UblkControl::open().map_err(|error| match error.kind() {
            ErrorKind::NotFound => AttachError::NoUblk,
            ErrorKind::PermissionDenied => AttachError::NotPermitted,
            ErrorKind::InvalidInput => AttachError::OldUblk,
            _ => AttachError::unreadable(Path::new("/dev/ublk-control"), error),
        })?;
        let mut ublk = Self { control };
        let mut features = [0; 8];
        let asked = ublk.ask(
            "its features",
            control::GET_FEATURES,
            u32::MAX,
            0,
            &mut features,
        );
        match asked {
            Err(AttachError::Refused { .. }) => return Err(AttachError::OldUblk),
            asked => asked?,
        }
        #[expect(clippy::host_endian_bytes, reason = "the kernel's order")]
        if u64::from_ne_bytes(features) & flag::NEEDED == flag::NEEDED {
            Ok(ublk)
        } else {
            Err(AttachError::OldUblk)
        }
    }

    fn ask(
        &mut self,
        what: &'static str,
        number: u32,
        index: u32,
        data: u64,
        memory: &mut [u8],
    ) -> Result<(), AttachError> {
        let done = self.control.command(number, index, data, memory);
        done.map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => AttachError::NotPermitted,
            _ => AttachError::Refused { what, error },
        })
    }

    fn info(&mut self, index: u32) -> Result<Option<DeviceInfo>, AttachError> {
        let mut bytes = [0; DeviceInfo::BYTES];
        match self.ask(
            "what a device is",
            control::GET_DEV_INFO,
            index,
            0,
            &mut bytes,
        ) {
            Ok(()) => Ok(Some(DeviceInfo::parse(&bytes))),
            Err(AttachError::Refused { error, .. }) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The device of an identity. One that has ended, and that programs still have open, does not count.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn find(&mut self, identity: &Identity) -> Result<Option<Found>, AttachError> {
        let folder = Path::new("/sys/class/ublk-char");
        let entries =
            fs::read_dir(folder).map_err(|error| AttachError::unreadable(folder, error))?;
        for entry in entries {
            let entry = entry.map_err(|error| AttachError::unreadable(folder, error))?;
            let name = entry.file_name();
            let name = name.to_str().and_then(|name| name.strip_prefix("ublkc"));
            let Some(index) = name.and_then(|number| number.parse().ok()) else {
                continue;
            };
            // Devices of other users give an error, and are none of ours.
            let Ok(Some(info)) = self.info(index) else {
                continue;
            };
            if info.identity != identity.number() {
                continue;
            }
            if info.flags & flag::NEEDED != flag::NEEDED {
                return Err(AttachError::OtherServer(Device::path_of(
                    Driver::Ublk,
                    index,
                )));
            }
            match info.state {
                // Its server died before it was started, or while it was stopped.
                State::Dead => self.delete(index, identity)?,
                state => {
                    return Ok(Some(Found {
                        index,
                        depth: info.depth,
                        state,
                    }));
                }
            }
        }
        Ok(None)
    }

    /// Whether the number of a device is that of an identity.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn belongs(&mut self, index: u32, identity: &Identity) -> Result<bool, AttachError> {
        let info = self.info(index)?;
        Ok(info.is_some_and(|info| info.identity == identity.number()))
    }

    /// Makes a device without a block device. The engine serves its queue next, then [`Ublk::start`] makes the block device.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add(&mut self, shape: UblkShape, identity: &Identity) -> Result<Found, AttachError> {
        let any = u32::MAX;
        let wanted = DeviceInfo {
            depth: DEPTH,
            state: State::Dead,
            request_bytes_max: REQUEST_BYTES_MAX,
            index: any,
            server_pid: own_pid(),
            flags: flag::NEEDED,
            identity: identity.number(),
        };
        let mut bytes = wanted.to_bytes();
        self.ask("a device", control::ADD_DEV, any, 0, &mut bytes)?;
        let DeviceInfo {
            index,
            depth,
            state,
            request_bytes_max,
            ..
        } = DeviceInfo::parse(&bytes);
        let parameters = Parameters {
            size_bytes: shape.size_bytes,
            block_bytes: shape.block_bytes,
            physical_block_bytes: shape.store_block_bytes,
            request_bytes_max,
            read_only: shape.read_only,
        };
        let mut bytes = parameters.to_bytes();
        let set = self.ask("a device's size", control::SET_PARAMS, index, 0, &mut bytes);
        if let Err(error) = set {
            self.delete(index, identity)?;
            return Err(error);
        }
        Ok(Found {
            index,
            depth,
            state,
        })
    }

    /// The size and the kind that a device has, which stay while it exists.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn shape(&mut self, index: u32) -> Result<UblkShape, AttachError> {
        let mut bytes = [0; Parameters::BYTES];
        #[expect(clippy::host_endian_bytes, reason = "the kernel's order")]
        bytes[..4].copy_from_slice(&(Parameters::BYTES as u32).to_ne_bytes());
        self.ask("a device's size", control::GET_PARAMS, index, 0, &mut bytes)?;
        let parameters = Parameters::parse(&bytes);
        Ok(UblkShape {
            size_bytes: parameters.size_bytes,
            block_bytes: parameters.block_bytes,
            store_block_bytes: parameters.physical_block_bytes,
            read_only: parameters.read_only,
        })
    }

    /// Begins to take over a device whose server has gone. False while the kernel has not seen the end of that server.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn take_over(&mut self, found: &Found) -> Result<bool, AttachError> {
        let (what, number) = ("another server of a device", control::START_USER_RECOVERY);
        match self.ask(what, number, found.index, 0, &mut []) {
            Ok(()) => Ok(true),
            Err(AttachError::Refused { error, .. }) => match Errno::from_io_error(&error) {
                Some(Errno::BUSY) => Ok(false),
                // A server has begun and died before it had a queue. The device is as this command would leave it.
                Some(Errno::INVAL) if found.state == State::Quiesced => Ok(true),
                _ => Err(AttachError::Refused { what, error }),
            },
            Err(error) => Err(error),
        }
    }

    /// Opens the queue of a device, which one process can have at a time.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(&self, found: &Found) -> Result<OwnedFd, AttachError> {
        let path = PathBuf::from(format!("/dev/ublkc{}", found.index));
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&path, flags, Mode::empty());
        opened.map_err(|errno| AttachError::unreadable(&path, errno.into()))
    }

    /// Makes the block device, or gives the device back to its programs. The engine must serve the queue already: the kernel waits for
    /// that, and reads partition tables.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn start(&mut self, found: &Found) -> Result<(), AttachError> {
        let (what, number) = match found.state {
            State::Dead => ("the start of a device", control::START_DEV),
            _ => ("another server of a device", control::END_USER_RECOVERY),
        };
        self.ask(what, number, found.index, own_pid() as u64, &mut [])
    }

    /// Makes a device known to `tonearm devices`, and makes the kernel notice the death of its server soon. A device works without that.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn register(&self, index: u32, identity: &Identity) -> Result<(), AttachError> {
        label::write(index, identity)
            .map_err(|error| AttachError::unreadable(Path::new("/run/tonearm"), error))?;
        let timeout = PathBuf::from(format!("/sys/block/ublkb{index}/queue/io_timeout"));
        let unreadable = |error| AttachError::unreadable(&timeout, error);
        let present = fs::read_to_string(&timeout).map_err(unreadable)?;
        if present.trim() != NOTICE_MS.to_string() {
            let mut write = Command::new("sh");
            write.args(["-c", "echo \"$1\" >\"$0\""]).arg(&timeout);
            wait_for(write.arg(NOTICE_MS.to_string())).map_err(unreadable)?;
        }
        Ok(())
    }

    /// Writes the page cache of a device that this process serves.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn sync(&self, index: u32) -> Result<(), AttachError> {
        let path = Device::path_of(Driver::Ublk, index);
        wait_for(Command::new("sync").arg(&path))
            .map_err(|error| AttachError::Unwritten { path, error })
    }

    /// Ends the block device of another process. Requests from then on fail, so programs must not use it. What lies in its page cache is
    /// written first if a server lives.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn stop(&mut self, index: u32, identity: &Identity) -> Result<(), AttachError> {
        let Some(info) = self.info(index)? else {
            return Ok(());
        };
        if info.identity == identity.number() && info.state == State::Live {
            // The kernel fails what it writes itself while it stops a device that could be taken over.
            let path = Device::path_of(Driver::Ublk, index);
            let opened = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
            let written = opened.and_then(rustix::fs::fsync);
            written.map_err(|errno| AttachError::Unwritten {
                path,
                error: errno.into(),
            })?;
        }
        self.abort(index, identity)
    }

    /// Ends the block device without a write of its page cache, which waits for ever if the server dies meanwhile.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn abort(&mut self, index: u32, identity: &Identity) -> Result<(), AttachError> {
        if !self.belongs(index, identity)? {
            return Ok(());
        }
        match self.ask("the end of a device", control::STOP_DEV, index, 0, &mut []) {
            Err(AttachError::Refused { error, .. }) if is_gone(&error) => Ok(()),
            stopped => stopped,
        }
    }

    /// Forgets a device if it was stopped. It goes when no program has it open any more.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn delete(&mut self, index: u32, identity: &Identity) -> Result<(), AttachError> {
        let info = self.info(index)?;
        if !info.is_some_and(|info| info.identity == identity.number() && info.state == State::Dead)
        {
            return Ok(());
        }
        let what = "the end of a device";
        // ENOTSUPP, which is no error of user space, is that of kernels before December 2024.
        const UNKNOWN: [i32; 2] = [Errno::OPNOTSUPP.raw_os_error(), 524];
        let deleted = match self.ask(what, control::DEL_DEV_ASYNC, index, 0, &mut []) {
            Err(AttachError::Refused { error, .. })
                if error
                    .raw_os_error()
                    .is_some_and(|errno| UNKNOWN.contains(&errno)) =>
            {
                self.ask(what, control::DEL_DEV, index, 0, &mut [])
            }
            deleted => deleted,
        };
        match deleted {
            Err(AttachError::Refused { error, .. }) if is_gone(&error) => {}
            deleted => deleted?,
        }
        label::remove(index);
        Ok(())
    }

    /// Ends a device for good. Its server, if it has one, deletes it, because another device may have its number at once.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn detach(
        &mut self,
        index: u32,
        identity: &Identity,
        force: bool,
    ) -> Result<(), AttachError> {
        let before = self.info(index)?;
        let served = before.is_some_and(|info| info.state == State::Live);
        if force {
            self.abort(index, identity)?
        } else {
            self.stop(index, identity)?
        }
        let began = Instant::now();
        while served && self.belongs(index, identity)? {
            if began.elapsed() > GOING {
                break;
            }
            std::thread::sleep(GOING_CHECK_EVERY);
        }
        self.delete(index, identity)
    }
}

/// Runs a command that waits for requests of a device. This process must not wait for those that it serves: if it is killed meanwhile,
/// the wait goes on in the kernel and keeps the process, and so its store and its queues, from every other server.
fn wait_for(command: &mut Command) -> std::io::Result<()> {
    // In a group of its own: Ctrl-C is for this process.
    match command.stdin(Stdio::null()).process_group(0).status()? {
        status if status.success() => Ok(()),
        status => Err(Error::other(status.to_string())),
    }
}

/// This process, as the kernel shows it with the device.
fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// True for the error of a device that does not exist.
fn is_gone(error: &Error) -> bool {
    error.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}
