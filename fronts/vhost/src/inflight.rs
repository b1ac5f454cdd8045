//! The region in which a ring notes what is under way. The monitor keeps it, so it survives this process: the next one carries out
//! again what this one has not answered, and the guest notices nothing.
//!
//! The layout is the protocol's, "Inflight I/O tracking" of split virtqueues, in the host's byte order. Offsets in bytes:
//!
//! ```text
//! ring:        0 features u64   8 version u16   10 size u16   12 last head u16   14 used index u16   16 descriptors
//! descriptor:  0 under way u8   1 padding   6 next u16   8 order u64
//! ```
//!
//! Invariant: the mark of a request is set before it is carried out, and goes after it is in the used ring. A death between the used ring
//! and the mark shows in the used index, which is written last.

use crate::shape::{QUEUE_SIZE_MAX, QUEUES_MAX};
use std::cell::Cell;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vm_memory::{AtomicAccess, Bytes, FileOffset, MmapRegion, VolatileMemory};

const HEADER_BYTES: usize = 16;
const DESCRIPTOR_BYTES: usize = 16;
const VERSION_AT: usize = 8;
const SIZE_AT: usize = 10;
const LAST_HEAD_AT: usize = 12;
const USED_AT: usize = 14;
const ORDER_AT: usize = 8;

/// The version of the layout.
const VERSION: u16 = 1;

/// The rings' parts begin on cache lines of their own.
const ALIGN: usize = 64;

/// Bytes for a ring of `size` descriptors.
fn ring_bytes(size: u16) -> usize {
    (HEADER_BYTES + DESCRIPTOR_BYTES * usize::from(size)).next_multiple_of(ALIGN)
}

/// Why a region of the monitor cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// The numbers do not fit each other.
    #[error(
        "the region for requests under way has {bytes} bytes at {offset}, for {queues} rings of {size} descriptors"
    )]
    Shape {
        /// Its length.
        bytes: u64,
        /// Its place in the file.
        offset: u64,
        /// Rings.
        queues: u16,
        /// Descriptors of each.
        size: u16,
    },
    /// The system refused.
    #[error("the region for requests under way cannot be mapped: {0}")]
    System(std::io::Error),
    /// Another program's layout.
    #[error(
        "the region for requests under way is of version {version} for {size} descriptors; this ring has {expected}"
    )]
    Version {
        /// Its version.
        version: u16,
        /// Its descriptors.
        size: u16,
        /// Those of the ring.
        expected: u16,
    },
}

/// The memory of all rings of a device.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    memory: Arc<MmapRegion>,
    queues: u16,
    size: u16,
}

impl Region {
    /// A new region, and the file by which the monitor keeps it.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn create(queues: u16, size: u16) -> Result<(Self, File, u64), RegionError> {
        let bytes = (ring_bytes(size) * usize::from(queues)) as u64;
        let system = |error: rustix::io::Errno| RegionError::System(error.into());
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let fd = rustix::fs::memfd_create("tonearm-inflight", flags).map_err(system)?;
        rustix::fs::ftruncate(&fd, bytes).map_err(system)?;
        let file = File::from(fd);
        let own = file.try_clone().map_err(RegionError::System)?;
        let region = Self::map(own, 0, bytes, queues, size)?;
        Ok((region, file, bytes))
    }

    /// The region in a file of the monitor.
    ///
    /// # Errors
    /// When it does not fit the rings.
    pub fn map(
        file: File,
        offset: u64,
        bytes: u64,
        queues: u16,
        size: u16,
    ) -> Result<Self, RegionError> {
        let wanted = ring_bytes(size) * usize::from(queues);
        let in_bounds = usize::from(queues) <= QUEUES_MAX && (1..=QUEUE_SIZE_MAX).contains(&size);
        if !in_bounds || queues == 0 || (wanted as u64) > bytes {
            return Err(RegionError::Shape {
                bytes,
                offset,
                queues,
                size,
            });
        }
        let memory = MmapRegion::from_file(FileOffset::new(file, offset), wanted)
            .map_err(|error| RegionError::System(std::io::Error::other(error)))?;
        Ok(Self {
            memory: Arc::new(memory),
            queues,
            size,
        })
    }

    /// The part of ring `index`, which has `size` descriptors. `None` for a ring that the region does not know.
    ///
    /// # Errors
    /// When the part is not for such a ring.
    pub fn ring(&self, index: usize, size: u16) -> Result<Option<Inflight>, RegionError> {
        if index >= usize::from(self.queues) {
            return Ok(None);
        }
        let ring = Inflight {
            memory: self.memory.clone(),
            start: index * ring_bytes(self.size),
            size,
            order: Cell::new(0),
        };
        let (version, noted) = (ring.load::<u16>(VERSION_AT), ring.load::<u16>(SIZE_AT));
        if version == 0 && size <= self.size {
            ring.store(SIZE_AT, size);
            ring.store(VERSION_AT, VERSION);
        } else if version != VERSION || noted != size || size > self.size {
            return Err(RegionError::Version {
                version,
                size: noted,
                expected: size,
            });
        }
        Ok(Some(ring))
    }
}

/// What is under way in one ring.
#[derive(Debug)]
pub(crate) struct Inflight {
    memory: Arc<MmapRegion>,
    start: usize,
    size: u16,
    /// Number of the next request.
    order: Cell<u64>,
}

impl Inflight {
    /// The requests that another process has left, oldest first. `used` is the index of the used ring.
    pub fn left(&self, used: u16) -> Vec<u16> {
        if self.load::<u16>(USED_AT) != used {
            // That process died with its last answer in the used ring, and its mark still here.
            let head = self.load::<u16>(LAST_HEAD_AT);
            if head < self.size {
                self.mark(head, false);
            }
            self.store(USED_AT, used);
        }
        let under_way = |head: &u16| self.load::<u8>(self.descriptor(*head)) != 0;
        let mut left: Vec<u16> = (0..self.size).filter(under_way).collect();
        let order = |head: u16| self.load::<u64>(self.descriptor(head) + ORDER_AT);
        left.sort_by_key(|head| order(*head));
        let last = left.last().map_or(0, |head| order(*head));
        self.order.set(last.wrapping_add(1));
        left
    }

    /// Notes a request, before it is carried out.
    pub fn begin(&self, head: u16) {
        let order = self.order.get();
        self.order.set(order.wrapping_add(1));
        self.store(self.descriptor(head) + ORDER_AT, order);
        self.mark(head, true);
    }

    /// Names the request that goes into the used ring next.
    pub fn ending(&self, head: u16) {
        self.store(LAST_HEAD_AT, head);
    }

    /// Forgets that request, which is in the used ring now. `used` is the ring's index after it.
    pub fn ended(&self, head: u16, used: u16) {
        self.mark(head, false);
        self.store(USED_AT, used);
    }

    fn mark(&self, head: u16, under_way: bool) {
        self.store(self.descriptor(head), u8::from(under_way));
    }

    fn descriptor(&self, head: u16) -> usize {
        HEADER_BYTES + DESCRIPTOR_BYTES * usize::from(head)
    }

    fn load<T: AtomicAccess>(&self, at: usize) -> T {
        let memory = self.memory.as_volatile_slice();
        let value = memory.load(self.start + at, Ordering::Acquire);
        value.expect("the region has room for all descriptors of the ring")
    }

    fn store<T: AtomicAccess>(&self, at: usize, value: T) {
        let memory = self.memory.as_volatile_slice();
        let stored = memory.store(value, self.start + at, Ordering::Release);
        stored.expect("the region has room for all descriptors of the ring");
    }
}
