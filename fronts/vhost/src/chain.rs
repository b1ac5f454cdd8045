//! Reads chains of descriptors, and moves bytes between them and buffers.
//!
//! Every number here comes from the guest, which may change its memory at any time. So each descriptor is read once.

use crate::shape::SEGMENTS_MAX;
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryMmap};

/// Most descriptors of one chain. Drivers keep to the number of segments that the device names, and add header and status.
const DESCRIPTORS_MAX: usize = 2 * SEGMENTS_MAX as usize;

/// Bytes of a descriptor.
const DESCRIPTOR_BYTES: u32 = 16;

/// Why a guest's ring cannot be used any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// The chain leaves its table.
    #[error("a descriptor names the next one as number {next}, and its table has {size}")]
    Index {
        /// The number.
        next: u32,
        /// Descriptors of the table.
        size: u32,
    },
    /// The chain has no end.
    #[error("a chain of descriptors loops, or has more than {DESCRIPTORS_MAX}")]
    Long,
    /// A table in a table, or one that is no table.
    #[error("a descriptor names a table of {bytes} bytes that cannot be used there")]
    Table {
        /// Length of the table.
        bytes: u32,
    },
    /// A part that the device reads comes after one that it writes.
    #[error("a chain has a part to read after a part to write")]
    Order,
    /// There is no memory there.
    #[error("there is no memory of the guest at {at:#x} for {bytes} bytes")]
    Memory {
        /// The guest's physical address.
        at: u64,
        /// Bytes.
        bytes: u64,
    },
    /// The chain has no room for the header or the status.
    #[error("a request has {readable} bytes to read and {writable} to write; it needs 16 and 1")]
    Short {
        /// Bytes for the device to read.
        readable: u64,
        /// Bytes for the device to write.
        writable: u64,
    },
    /// More requests than the ring has descriptors.
    #[error("more requests are under way than the ring has descriptors ({size})")]
    TooMany {
        /// Descriptors of the ring.
        size: u16,
    },
    /// The rings of both sides do not fit each other.
    #[error("the ring cannot be used: {0}")]
    Ring(&'static str),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    at: GuestAddress,
    bytes: u32,
}

/// Parts of the guest's memory in order, of which one side reads and the other writes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Parts {
    parts: Vec<Part>,
    bytes: u64,
}

/// One request as the guest has described it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chain {
    /// Number of its first descriptor, which identifies it.
    pub head: u16,
    /// What the device reads.
    pub readable: Parts,
    /// What the device writes.
    pub writable: Parts,
}

impl Chain {
    /// Reads the chain that begins with descriptor `head` of the ring's `table` of `size` descriptors.
    ///
    /// # Errors
    /// When it breaks a rule.
    pub fn read(
        memory: &GuestMemoryMmap,
        table: GuestAddress,
        size: u16,
        head: u16,
    ) -> Result<Self, Malformed> {
        let mut chain = Self {
            head,
            readable: Parts::default(),
            writable: Parts::default(),
        };
        let (mut table, mut size, mut index) = (table, u32::from(size), u32::from(head));
        let (mut is_indirect, mut count) = (false, 0);
        loop {
            if index >= size {
                return Err(Malformed::Index { next: index, size });
            }
            let descriptor = descriptor(memory, table, index)?;
            if descriptor.refers_to_indirect_table() {
                let bytes = descriptor.len();
                let fits = bytes > 0 && bytes.is_multiple_of(DESCRIPTOR_BYTES);
                if is_indirect || descriptor.has_next() || !fits {
                    return Err(Malformed::Table { bytes });
                }
                (table, size, index) = (descriptor.addr(), bytes / DESCRIPTOR_BYTES, 0);
                is_indirect = true;
                continue;
            }
            count += 1;
            if count > DESCRIPTORS_MAX {
                return Err(Malformed::Long);
            }
            chain.push(descriptor)?;
            if !descriptor.has_next() {
                return Ok(chain);
            }
            index = descriptor.next().into();
        }
    }

    fn push(&mut self, descriptor: Descriptor) -> Result<(), Malformed> {
        let parts = if descriptor.is_write_only() {
            &mut self.writable
        } else if self.writable.parts.is_empty() {
            &mut self.readable
        } else {
            return Err(Malformed::Order);
        };
        parts.bytes += u64::from(descriptor.len());
        parts.parts.push(Part {
            at: descriptor.addr(),
            bytes: descriptor.len(),
        });
        Ok(())
    }
}

fn descriptor(
    memory: &GuestMemoryMmap,
    table: GuestAddress,
    index: u32,
) -> Result<Descriptor, Malformed> {
    let bytes = u64::from(DESCRIPTOR_BYTES);
    let at = table.checked_add(u64::from(index) * bytes);
    let found = at.and_then(|at| memory.read_obj(at).ok());
    found.ok_or(Malformed::Memory {
        at: table.raw_value(),
        bytes,
    })
}

impl Parts {
    /// Bytes of all parts.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Address and length of each part.
    #[cfg(feature = "testing")]
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u32)> {
        self.parts
            .iter()
            .map(|part| (part.at.raw_value(), part.bytes))
    }

    /// Copies the bytes from `skip` on into `buf`. They are there ([`Parts::bytes`]).
    ///
    /// # Errors
    /// When a part is not in the guest's memory.
    pub fn copy_to(
        &self,
        memory: &GuestMemoryMmap,
        skip: u64,
        buf: &mut [u8],
    ) -> Result<(), Malformed> {
        let mut done = 0;
        self.each(skip, buf.len(), |at, bytes| {
            let to = &mut buf[done..done + bytes];
            done += bytes;
            memory.read_slice(to, at).is_ok()
        })
    }

    /// Copies `data` to the bytes from `skip` on.
    ///
    /// # Errors
    /// When a part is not in the guest's memory.
    pub fn copy_from(
        &self,
        memory: &GuestMemoryMmap,
        skip: u64,
        data: &[u8],
    ) -> Result<(), Malformed> {
        let mut done = 0;
        self.each(skip, data.len(), |at, bytes| {
            let from = &data[done..done + bytes];
            done += bytes;
            memory.write_slice(from, at).is_ok()
        })
    }

    /// Calls `copy` for each part, or piece of one, of the `bytes` from `skip` on.
    fn each(
        &self,
        skip: u64,
        bytes: usize,
        mut copy: impl FnMut(GuestAddress, usize) -> bool,
    ) -> Result<(), Malformed> {
        let (mut skip, mut left) = (skip, bytes);
        for part in &self.parts {
            let length = u64::from(part.bytes);
            if skip >= length {
                skip -= length;
                continue;
            }
            let now = left.min((length - skip) as usize);
            if now == 0 {
                break;
            }
            let at = part.at.checked_add(skip);
            if !at.is_some_and(|at| copy(at, now)) {
                return Err(Malformed::Memory {
                    at: part.at.raw_value(),
                    bytes: length,
                });
            }
            (skip, left) = (0, left - now);
        }
        debug_assert_eq!(left, 0, "the caller asks for bytes that are there");
        Ok(())
    }
}
