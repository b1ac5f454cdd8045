//! What the guest sees of a volume: features, and the configuration space of a block device (virtio 1.2, 5.2.4).

/// Sectors of the protocol, in bytes, whatever the block size is.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// Most rings of one device.
pub(crate) const QUEUES_MAX: usize = 16;

/// Most descriptors of a ring.
pub(crate) const QUEUE_SIZE_MAX: u16 = 1024;

/// Most data segments of a request.
pub(crate) const SEGMENTS_MAX: u32 = 126;

/// Most bytes of the data of one request.
pub(crate) const PAYLOAD_BYTES_MAX: u64 = 32 << 20;

/// Most ranges of one discard or write of zeroes, and most sectors of each: 2 GiB.
pub(crate) const RANGES_MAX: u32 = 16;
const RANGE_SECTORS_MAX: u32 = 1 << 22;

/// Bits of virtio 1.2, 5.2.3 and 6.
mod feature {
    pub const SEG_MAX: u64 = 1 << 2;
    pub const READ_ONLY: u64 = 1 << 5;
    pub const BLOCK_SIZE: u64 = 1 << 6;
    pub const FLUSH: u64 = 1 << 9;
    pub const TOPOLOGY: u64 = 1 << 10;
    pub const SEVERAL_QUEUES: u64 = 1 << 12;
    pub const DISCARD: u64 = 1 << 13;
    pub const WRITE_ZEROES: u64 = 1 << 14;
    pub const INDIRECT_DESCRIPTORS: u64 = 1 << 28;
    pub const EVENT_INDEX: u64 = 1 << 29;
    pub const VERSION_1: u64 = 1 << 32;
}

/// Features that the guest has accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Features(pub u64);

impl Features {
    /// Whether the guest sends flushes. Without them every write must be durable when it ends.
    pub fn flushes(self) -> bool {
        self.0 & feature::FLUSH != 0
    }

    /// Whether either side names the index at which it wants to be notified.
    pub fn event_index(self) -> bool {
        self.0 & feature::EVENT_INDEX != 0
    }
}

/// A volume as a guest sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Name of the volume. Its first 20 bytes are the serial number of the disk.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Block size of the store, in bytes.
    pub block_size: u32,
    /// Whether changes are refused.
    pub read_only: bool,
}

impl Shape {
    /// The features of the device that are offered.
    pub(crate) fn features(&self) -> u64 {
        let common = feature::SEG_MAX
            | feature::BLOCK_SIZE
            | feature::FLUSH
            | feature::TOPOLOGY
            | feature::SEVERAL_QUEUES
            | feature::INDIRECT_DESCRIPTORS
            | feature::EVENT_INDEX
            | feature::VERSION_1;
        common
            | if self.read_only {
                feature::READ_ONLY
            } else {
                feature::DISCARD | feature::WRITE_ZEROES
            }
    }

    /// The configuration space: 60 bytes, little-endian.
    pub(crate) fn configuration(&self) -> Vec<u8> {
        let sectors_of_block = self.block_size / SECTOR_BYTES as u32;
        let mut bytes = Vec::with_capacity(60);
        bytes.extend((self.size_bytes / SECTOR_BYTES).to_le_bytes());
        // No bound on the bytes of one segment.
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(SEGMENTS_MAX.to_le_bytes());
        // No geometry.
        bytes.extend([0; 4]);
        bytes.extend((SECTOR_BYTES as u32).to_le_bytes());
        // A block is this power of two of sectors; no offset; the smallest and the best request, in sectors.
        bytes.extend([sectors_of_block.ilog2() as u8, 0]);
        bytes.extend((sectors_of_block as u16).to_le_bytes());
        bytes.extend(sectors_of_block.to_le_bytes());
        // The mode of the cache cannot be changed.
        bytes.extend([0, 0]);
        bytes.extend((QUEUES_MAX as u16).to_le_bytes());
        for number in [RANGE_SECTORS_MAX, RANGES_MAX, sectors_of_block] {
            bytes.extend(number.to_le_bytes());
        }
        for number in [RANGE_SECTORS_MAX, RANGES_MAX] {
            bytes.extend(number.to_le_bytes());
        }
        // A write of zeroes may give the space back.
        bytes.extend([1, 0, 0, 0]);
        bytes
    }

    /// The identity of the disk: 20 bytes, filled up with zeroes (virtio 1.2, 5.2.6).
    pub(crate) fn serial(&self) -> [u8; 20] {
        let mut serial = [0; 20];
        for (byte, from) in serial.iter_mut().zip(self.name.bytes()) {
            *byte = from;
        }
        serial
    }
}
