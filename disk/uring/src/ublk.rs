//! The two parts of the kernel's ublk driver that need unsafe code: commands to /dev/ublk-control, and the mapped memory in which a
//! device describes its requests. What the commands and the bytes mean is known elsewhere (fronts/attach/src/ublk).
//!
//! Source: Linux, include/uapi/linux/ublk_cmd.h and Documentation/block/ublk.rst.

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

/// The device that takes the commands.
const CONTROL: &str = "/dev/ublk-control";

/// Bytes of `struct ublksrv_io_desc`.
const DESCRIPTOR_BYTES: usize = 24;
const DESCRIPTOR_WORDS: usize = DESCRIPTOR_BYTES / size_of::<u64>();

/// Sends commands to the driver, one at a time, and waits for each. It has a ring of its own, because the commands block and need
/// entries of 128 bytes.
pub struct UblkControl {
    ring: IoUring<squeue::Entry128>,
    control: OwnedFd,
}

impl UblkControl {
    /// Opens the driver.
    ///
    /// # Errors
    /// `NotFound` without the driver, `PermissionDenied` for a user who is not root; `InvalidInput` when the kernel's io_uring is too
    /// old.
    pub fn open() -> Result<Self> {
        let mut options = std::fs::OpenOptions::new();
        let control = options.read(true).write(true).open(CONTROL)?;
        let mut builder = IoUring::builder();
        let ring = builder.dontfork().build(2)?;
        let control = control.into();
        Ok(Self { ring, control })
    }

    /// Carries out the command `number` on a device, with a number and with memory that the kernel reads or writes.
    ///
    /// # Errors
    /// Those of the command.
    pub fn command(
        &mut self,
        number: u32,
        device: u32,
        data: u64,
        memory: &mut [u8],
    ) -> Result<()> {
        let length =
            u16::try_from(memory.len()).map_err(|_| Error::from_raw_os_error(libc::EINVAL))?;
        let address = if memory.is_empty() {
            0
        } else {
            memory.as_mut_ptr() as u64
        };
        let header = header(device, length, address, data);
        let fd = types::Fd(self.control.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, number).cmd(header).build();
        // SAFETY: the commands of this driver use no other memory than that of the address and the length, which is borrowed until
        // the command has ended.
        unsafe { self.ring.submission().push(&entry) }
            .map_err(|_| Error::from_raw_os_error(libc::EBUSY))?;
        loop {
            // A signal ends the wait and not the command.
            if let Err(error) = self.ring.submit_and_wait(1)
                && !matches!(
                    error.raw_os_error(),
                    Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
                )
            {
                panic!("io_uring_enter: {error}");
            }
            let ended = self.ring.completion().next();
            if let Some(result) = ended.map(|entry: cqueue::Entry| entry.result()) {
                return match result {
                    0.. => Ok(()),
                    _ => Err(Error::from_raw_os_error(-result)),
                };
            }
        }
    }
}

/// `struct ublksrv_ctrl_cmd`, at the front of the command's 80 bytes.
#[expect(
    clippy::host_endian_bytes,
    reason = "the kernel's structures are in the host's order"
)]
fn header(device: u32, length: u16, address: u64, data: u64) -> [u8; 80] {
    // No single queue.
    let queue = u16::MAX;
    let mut header = [0; 80];
    header[0..4].copy_from_slice(&device.to_ne_bytes());
    header[4..6].copy_from_slice(&queue.to_ne_bytes());
    header[6..8].copy_from_slice(&length.to_ne_bytes());
    header[8..16].copy_from_slice(&address.to_ne_bytes());
    header[16..24].copy_from_slice(&data.to_ne_bytes());
    header
}

/// The descriptions of a queue's requests, which the kernel writes. They are mapped read-only.
pub struct UblkDescriptors {
    memory: NonNull<u64>,
    bytes: usize,
    depth: u16,
}

impl UblkDescriptors {
    /// Maps those of the first queue of `device` (/dev/ublkcN), which has `depth` requests.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn map(device: &OwnedFd, depth: u16) -> Result<Self> {
        // SAFETY: the call takes no memory.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let bytes = (usize::from(depth) * DESCRIPTOR_BYTES).next_multiple_of(page);
        let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED | libc::MAP_POPULATE);
        let fd = device.as_raw_fd();
        // SAFETY: the kernel chooses an address where nothing is mapped.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, read, shared, fd, 0) };
        if memory == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).expect("a mapping is not at address 0");
        Ok(Self {
            memory,
            bytes,
            depth,
        })
    }

    /// The description of request `tag`, as words in the host's order. It is that of the request with which the kernel has ended the
    /// last command of this tag.
    ///
    /// # Panics
    /// When the queue has no such tag.
    pub fn read(&self, tag: u16) -> [u64; DESCRIPTOR_WORDS] {
        assert!(tag < self.depth, "tag {tag} of {}", self.depth);
        let first = usize::from(tag) * DESCRIPTOR_WORDS;
        // SAFETY: the mapping has `depth` descriptions and is aligned to pages. The kernel may write to it, hence the volatile reads;
        // any bytes are valid words.
        std::array::from_fn(|word| unsafe { self.memory.add(first + word).read_volatile() })
    }
}

impl Drop for UblkDescriptors {
    fn drop(&mut self) {
        // SAFETY: mapped with this size, and no reference to it is ever made.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}
