//! The numbers and structures of the kernel's ublk driver, as bytes in the host's order.
//!
//! Source: Linux, include/uapi/linux/ublk_cmd.h.

#![expect(
    clippy::host_endian_bytes,
    reason = "the kernel's structures are in the host's order"
)]

/// Sectors of the protocol, in bytes, whatever the logical block size is.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Commands to /dev/ublk-control, encoded as by `_IOR` and `_IOWR` with `struct ublksrv_ctrl_cmd`.
pub(super) mod control {
    const fn reads(number: u32) -> u32 {
        super::encoded(2, number, 32)
    }
    const fn changes(number: u32) -> u32 {
        super::encoded(3, number, 32)
    }
    pub const GET_DEV_INFO: u32 = reads(0x02);
    pub const ADD_DEV: u32 = changes(0x04);
    pub const DEL_DEV: u32 = changes(0x05);
    pub const START_DEV: u32 = changes(0x06);
    pub const STOP_DEV: u32 = changes(0x07);
    pub const SET_PARAMS: u32 = changes(0x08);
    pub const GET_PARAMS: u32 = reads(0x09);
    pub const START_USER_RECOVERY: u32 = changes(0x10);
    pub const END_USER_RECOVERY: u32 = changes(0x11);
    pub const GET_FEATURES: u32 = reads(0x13);
    /// As `DEL_DEV`, without the wait for programs that have the device open (Linux 6.9).
    pub const DEL_DEV_ASYNC: u32 = reads(0x14);
}

/// Commands to the queue of a device, encoded with `struct ublksrv_io_cmd`.
pub(super) mod queue {
    pub const FETCH: u32 = super::encoded(3, 0x20, 16);
    pub const COMMIT_AND_FETCH: u32 = super::encoded(3, 0x21, 16);
}

const fn encoded(direction: u32, number: u32, bytes: u32) -> u32 {
    direction << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

/// Features of the driver, and properties of a device.
pub(super) mod flag {
    /// The device stays when its server ends.
    pub const USER_RECOVERY: u64 = 1 << 3;
    /// What was under way is sent to the next server.
    pub const USER_RECOVERY_REISSUE: u64 = 1 << 4;
    /// Commands have the numbers of this module.
    pub const CMD_IOCTL_ENCODE: u64 = 1 << 6;
    /// Data is copied by pread(2) and pwrite(2) on /dev/ublkcN (Linux 6.5).
    pub const USER_COPY: u64 = 1 << 7;
    /// All that this program needs.
    pub const NEEDED: u64 = USER_RECOVERY | USER_RECOVERY_REISSUE | CMD_IOCTL_ENCODE | USER_COPY;
}

/// What a server does with a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// There is no block device, not yet or no longer.
    Dead,
    /// A server has it.
    Live,
    /// Its server has gone, and its programs wait.
    Quiesced,
    /// Another one, of devices that are not made by this program.
    Other(u16),
}

/// `struct ublksrv_ctrl_dev_info`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DeviceInfo {
    /// Requests under way at a time.
    pub depth: u16,
    pub state: State,
    /// Most bytes of a request.
    pub request_bytes_max: u32,
    pub index: u32,
    pub server_pid: i32,
    pub flags: u64,
    /// A number that the driver keeps for the server and does not use.
    pub identity: u64,
}

impl DeviceInfo {
    pub const BYTES: usize = 64;

    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let queues = 1u16;
        let mut bytes = [0; Self::BYTES];
        bytes[0..2].copy_from_slice(&queues.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.depth.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.request_bytes_max.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.index.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.server_pid.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.flags.to_ne_bytes());
        bytes[32..40].copy_from_slice(&self.identity.to_ne_bytes());
        bytes
    }

    pub fn parse(bytes: &[u8; Self::BYTES]) -> Self {
        Self {
            depth: u16::from_ne_bytes(part(bytes, 2)),
            state: match u16::from_ne_bytes(part(bytes, 4)) {
                0 => State::Dead,
                1 => State::Live,
                2 => State::Quiesced,
                other => State::Other(other),
            },
            request_bytes_max: u32::from_ne_bytes(part(bytes, 8)),
            index: u32::from_ne_bytes(part(bytes, 12)),
            server_pid: i32::from_ne_bytes(part(bytes, 16)),
            flags: u64::from_ne_bytes(part(bytes, 24)),
            identity: u64::from_ne_bytes(part(bytes, 32)),
        }
    }
}

/// `struct ublk_params` with the parts `basic` and `discard`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Parameters {
    pub size_bytes: u64,
    /// Bytes of a logical block, a power of two.
    pub block_bytes: u32,
    /// Bytes of a block of the store.
    pub physical_block_bytes: u32,
    pub request_bytes_max: u32,
    pub read_only: bool,
}

impl Parameters {
    pub const BYTES: usize = 60;

    /// Most sectors of a discard or a write of zeroes: 2 GiB.
    const RANGE_SECTORS_MAX: u32 = 1 << 22;

    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let (basic, discard) = (1 << 0, 1 << 1);
        let types: u32 = if self.read_only {
            basic
        } else {
            basic | discard
        };
        let (read_only, volatile_cache, fua) = (u32::from(self.read_only), 1 << 2, 1 << 3);
        let attributes: u32 = read_only | volatile_cache | fua;
        let physical = self.physical_block_bytes.max(self.block_bytes);
        let shift = |bytes: u32| bytes.trailing_zeros() as u8;
        let sectors_max = self.request_bytes_max / SECTOR_BYTES as u32;
        let segments = 1u16;
        let mut bytes = [0; Self::BYTES];
        bytes[0..4].copy_from_slice(&(Self::BYTES as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&types.to_ne_bytes());
        bytes[8..12].copy_from_slice(&attributes.to_ne_bytes());
        bytes[12] = shift(self.block_bytes);
        bytes[13] = shift(physical);
        // The best and the smallest good size of a request.
        bytes[14] = shift(physical);
        bytes[15] = shift(physical);
        bytes[16..20].copy_from_slice(&sectors_max.to_ne_bytes());
        bytes[24..32].copy_from_slice(&(self.size_bytes / SECTOR_BYTES).to_ne_bytes());
        bytes[44..48].copy_from_slice(&physical.to_ne_bytes());
        bytes[48..52].copy_from_slice(&Self::RANGE_SECTORS_MAX.to_ne_bytes());
        bytes[52..56].copy_from_slice(&Self::RANGE_SECTORS_MAX.to_ne_bytes());
        bytes[56..58].copy_from_slice(&segments.to_ne_bytes());
        bytes
    }

    pub fn parse(bytes: &[u8; Self::BYTES]) -> Self {
        let sectors_max = u32::from_ne_bytes(part(bytes, 16));
        Self {
            size_bytes: u64::from_ne_bytes(part(bytes, 24)).saturating_mul(SECTOR_BYTES),
            block_bytes: 1u32.checked_shl(bytes[12].into()).unwrap_or(0),
            physical_block_bytes: 1u32.checked_shl(bytes[13].into()).unwrap_or(0),
            request_bytes_max: sectors_max.saturating_mul(SECTOR_BYTES as u32),
            read_only: u32::from_ne_bytes(part(bytes, 8)) & 1 != 0,
        }
    }
}

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verb {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
    Other(u8),
}

/// A request of the kernel: `struct ublksrv_io_desc`. Offset and length are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IoRequest {
    pub verb: Verb,
    pub offset: u64,
    pub length: u64,
    /// Durable when it ends.
    pub durable: bool,
    /// Zeroes keep their space.
    pub keep_space: bool,
}

impl IoRequest {
    /// `words` are the description.
    pub fn parse(words: [u64; 3]) -> Self {
        let first = words[0].to_ne_bytes();
        let kind = u32::from_ne_bytes(part(&first, 0));
        let sectors = u32::from_ne_bytes(part(&first, 4));
        let (fua, no_unmap) = (1 << 13, 1 << 15);
        Self {
            verb: match kind as u8 {
                0 => Verb::Read,
                1 => Verb::Write,
                2 => Verb::Flush,
                3 => Verb::Discard,
                5 => Verb::WriteZeroes,
                other => Verb::Other(other),
            },
            offset: words[1].saturating_mul(SECTOR_BYTES),
            length: u64::from(sectors) * SECTOR_BYTES,
            durable: kind & fua != 0,
            keep_space: kind & no_unmap != 0,
        }
    }
}

/// `struct ublksrv_io_cmd` of the first queue: the result of the request that this tag had is bytes or a negative error number.
pub(super) fn queue_command(tag: u16, result: i32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
    bytes[4..8].copy_from_slice(&result.to_ne_bytes());
    bytes
}

/// Where the data of the request of a tag begins in /dev/ublkcN.
pub(super) fn data_offset(tag: u16) -> u64 {
    0x8000_0000 + (u64::from(tag) << 25)
}

/// `N` bytes from `at` on.
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N]
        .try_into()
        .expect("the range has the length of the array")
}

#[cfg(test)]
mod tests {
    use super::{DeviceInfo, IoRequest, Parameters, State, Verb, control, queue, queue_command};

    #[test]
    fn the_commands_have_the_kernel_s_numbers() {
        assert_eq!(control::ADD_DEV, 0xc020_7504);
        assert_eq!(control::GET_DEV_INFO, 0x8020_7502);
        assert_eq!(control::GET_FEATURES, 0x8020_7513);
        assert_eq!(queue::FETCH, 0xc010_7520);
        assert_eq!(queue::COMMIT_AND_FETCH, 0xc010_7521);
        let command = queue_command(0x102, -5);
        assert_eq!(command[..8], 0xffff_fffb_0102_0000_u64.to_ne_bytes());
        assert_eq!(command[8..], [0; 8]);
    }

    #[test]
    fn encoded_values_parse_back() {
        let info = DeviceInfo {
            depth: 64,
            state: State::Dead,
            request_bytes_max: 1 << 20,
            index: 7,
            server_pid: 1234,
            flags: 0xd8,
            identity: 0x0123_4567_89ab_cdef,
        };
        assert_eq!(DeviceInfo::parse(&info.to_bytes()), info);
        for read_only in [false, true] {
            let parameters = Parameters {
                size_bytes: 5 << 30,
                block_bytes: 512,
                physical_block_bytes: 4096,
                request_bytes_max: 1 << 20,
                read_only,
            };
            assert_eq!(Parameters::parse(&parameters.to_bytes()), parameters);
        }
    }

    #[test]
    fn a_request_is_read() {
        let words = |kind: u32, sectors: u32, sector: u64| {
            let [kind, sectors] = [kind, sectors].map(u32::to_ne_bytes);
            let first = [kind, sectors].concat().try_into().unwrap();
            [u64::from_ne_bytes(first), sector, 0]
        };
        let request = IoRequest::parse(words(1 | 1 << 13, 8, 16));
        let expected = IoRequest {
            verb: Verb::Write,
            offset: 8192,
            length: 4096,
            durable: true,
            keep_space: false,
        };
        assert_eq!(request, expected);
        let zeroes = IoRequest::parse(words(5 | 1 << 15, 1, 0));
        assert!(zeroes.verb == Verb::WriteZeroes && zeroes.keep_space && !zeroes.durable);
        assert_eq!(IoRequest::parse(words(4, 0, 0)).verb, Verb::Other(4));
    }
}
