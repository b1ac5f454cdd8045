//! The table of files, sockets and events that a driver serves, and the handle that adds to it while an executor owns
//! the driver.
//!
//! Invariants:
//! 1. A descriptor stays open while an operation on it is under way. The descriptor of a closed device is dropped when
//!    its last operation has ended.
//! 2. A [`DeviceId`] is used once, so a late request for a closed device cannot reach a new one.
//! 3. A closed file is unlocked, even if a child process has inherited its descriptor.

use crate::fork::{NotForChildren, forks};
use crate::lock::release;
use rustix::event::EventfdFlags;
use rustix::fs::{AtFlags, FileType, OFlags, StatxFlags};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use tonearm_rt::{DeviceId, IoError};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Regular file or block device.
    File,
    Stream,
    Event,
    /// An event of another process, whose descriptor does not block.
    ForeignEvent,
    /// The queue of a ublk device, whose commands name no memory of ours.
    Ublk,
}

/// The descriptor of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub fd: RawFd,
    pub kind: Kind,
    /// Refusals of the device, remembered so that it is tried once.
    pub punch_refused: bool,
    pub zero_range_refused: bool,
}

struct Device {
    /// For a file. Declared before the descriptor, so that it is dropped first.
    _own: Option<NotForChildren>,
    fd: OwnedFd,
    forks: u32,
    target: Target,
    under_way: usize,
    /// Token of the close that waits for the last operation.
    closing: Option<u64>,
}

impl Drop for Device {
    fn drop(&mut self) {
        // In a child the lock belongs to the parent.
        if self.target.kind == Kind::File && self.forks == forks() {
            release(&self.fd);
        }
    }
}

#[derive(Default)]
pub(crate) struct Devices {
    entries: BTreeMap<DeviceId, Device>,
    next: u32,
}

const EBADF: IoError = IoError { errno: libc::EBADF };

impl Devices {
    fn add(&mut self, fd: OwnedFd, kind: Kind) -> DeviceId {
        let id = DeviceId(self.next);
        self.next = self
            .next
            .checked_add(1)
            .expect("fewer than 2^32 devices in the life of a process");
        let target = Target {
            fd: fd.as_raw_fd(),
            kind,
            punch_refused: false,
            zero_range_refused: false,
        };
        self.entries.insert(
            id,
            Device {
                _own: (kind == Kind::File).then(|| NotForChildren::keep(&fd)),
                fd,
                forks: forks(),
                target,
                under_way: 0,
                closing: None,
            },
        );
        id
    }

    /// Counts an operation as begun; `EBADF` for a device that is closed or does not exist.
    pub fn begin(&mut self, id: DeviceId) -> Result<Target, IoError> {
        match self.entries.get_mut(&id) {
            Some(device) if device.closing.is_none() => {
                device.under_way += 1;
                Ok(device.target)
            }
            _ => Err(EBADF),
        }
    }

    /// Counts an operation as ended. The token of the close that this completes, if any.
    pub fn end(&mut self, id: DeviceId) -> Option<u64> {
        let device = self
            .entries
            .get_mut(&id)
            .expect("a device with an operation under way is listed");
        device.under_way -= 1;
        if device.under_way > 0 {
            return None;
        }
        let token = device.closing?;
        self.entries.remove(&id);
        Some(token)
    }

    /// Starts a close. True when it is complete at once; otherwise [`Devices::end`] completes it.
    pub fn close(&mut self, id: DeviceId, token: u64) -> Result<bool, IoError> {
        let device = match self.entries.get_mut(&id) {
            Some(device) if device.closing.is_none() => device,
            _ => return Err(EBADF),
        };
        if device.target.kind == Kind::Stream {
            // The peer may have disconnected already, which is no error of the close.
            let _ = rustix::net::shutdown(&device.fd, rustix::net::Shutdown::Both);
        }
        if device.under_way == 0 {
            self.entries.remove(&id);
            return Ok(true);
        }
        device.closing = Some(token);
        Ok(false)
    }

    pub fn refuse_punch(&mut self, id: DeviceId) {
        if let Some(device) = self.entries.get_mut(&id) {
            device.target.punch_refused = true;
        }
    }

    pub fn refuse_zero_range(&mut self, id: DeviceId) {
        if let Some(device) = self.entries.get_mut(&id) {
            device.target.zero_range_refused = true;
        }
    }
}

/// Adds descriptors to a driver. Clones stay on the driver's thread.
#[derive(Clone)]
pub struct UringHandle(pub(crate) Rc<RefCell<Devices>>);

impl UringHandle {
    /// Adds a file or block device; `Op::Close` closes it.
    pub fn add_file(&self, fd: OwnedFd) -> DeviceId {
        self.0.borrow_mut().add(fd, Kind::File)
    }

    /// Bytes that the blocks of a file take in its file system, as far as this machine knows them. Asks no server of a network
    /// file system, and no process that serves one, so that it never waits for them. `None` for anything but an open file.
    pub fn file_bytes(&self, id: DeviceId) -> Option<u64> {
        /// Bytes of the blocks in which statx(2) counts.
        const STAT_BLOCK_BYTES: u64 = 512;
        let devices = self.0.borrow();
        let device = devices.entries.get(&id)?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::TYPE | StatxFlags::BLOCKS;
        let found = rustix::fs::statx(&device.fd, c"", flags, wanted).ok()?;
        let is_file = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
        is_file.then(|| found.stx_blocks * STAT_BLOCK_BYTES)
    }

    /// Adds a connected stream socket; `Op::Close` shuts it down and closes it.
    pub fn add_stream(&self, fd: OwnedFd) -> DeviceId {
        // A non-blocking socket would return EAGAIN where the ring should wait.
        if let Ok(flags) = rustix::fs::fcntl_getfl(&fd)
            && flags.contains(OFlags::NONBLOCK)
        {
            rustix::fs::fcntl_setfl(&fd, flags - OFlags::NONBLOCK)
                .expect("flags of an open descriptor can be set");
        }
        self.0.borrow_mut().add(fd, Kind::Stream)
    }

    /// Adds the event of another process: an eventfd that does not block. A `Recv` of 8 bytes ends as for [`UringHandle::add_event`].
    pub fn add_foreign_event(&self, fd: OwnedFd) -> DeviceId {
        self.0.borrow_mut().add(fd, Kind::ForeignEvent)
    }

    /// Adds the queue of a ublk device (/dev/ublkcN), for `Op::Command` alone. The kernel ends a command when the block device has a
    /// request for it, and when the block device ends, so `Op::Close` takes effect then.
    pub fn add_ublk(&self, fd: OwnedFd) -> DeviceId {
        self.0.borrow_mut().add(fd, Kind::Ublk)
    }

    /// Adds an event that other threads raise. A `Recv` of 8 bytes ends once the event has been raised since the last
    /// such `Recv`, however often. The bytes have no meaning.
    ///
    /// # Errors
    /// Those of eventfd(2): no descriptor is left.
    pub fn add_event(&self) -> io::Result<(DeviceId, EventSender)> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        let sender = EventSender::to(&fd)?;
        Ok((self.0.borrow_mut().add(fd, Kind::Event), sender))
    }
}

/// Raises an event, from any thread.
#[derive(Clone)]
pub struct EventSender(Arc<OwnedFd>);

impl EventSender {
    /// The sender of the event that `fd` receives.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn to(fd: &OwnedFd) -> io::Result<Self> {
        Ok(Self(Arc::new(fd.try_clone()?)))
    }

    /// Raises the event. Writes that the caller made before are visible to the receiver.
    pub fn notify(&self) {
        #[expect(
            clippy::host_endian_bytes,
            reason = "eventfd takes a count in the host's order"
        )]
        let one = 1u64.to_ne_bytes();
        loop {
            match rustix::io::write(&*self.0, &one) {
                Err(rustix::io::Errno::INTR) => {}
                // The counter is never full: a write blocks or fails only after 2^64 - 2 raises without a read, and the receiver
                // wakes up then, too.
                _ => return,
            }
        }
    }
}
