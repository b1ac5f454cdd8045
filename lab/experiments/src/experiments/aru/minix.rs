//! The Minix file system in place, the baseline of ARU 5.2: bitmaps, inodes of 64 bytes with ten zones, and directories with
//! entries of 16 bytes at fixed places (Tanenbaum, "Operating Systems: Design and Implementation", 5.6).
//!
//! Blocks have 4 KB as in ARU 5.3. A write goes to the block cache (`minix_cache.rs`). One operation is served at a time. Times
//! of last access are not kept. After a crash this file system needs fsck.

use super::files::{BLOCK, Files, LoadError};
use super::minix_cache::Cache;
use crate::harness::Machine;
use std::ops::Range;
use std::rc::Rc;
use tonearm_rt::{Permit, Semaphore};

/// Blocks of the partition (ARU 5.3).
pub const BLOCKS: u64 = 100_000;
const INODE_MAP: u64 = 2;
const ZONE_MAP: u64 = 3;
const ZONE_MAP_BLOCKS: u64 = BLOCKS.div_ceil(BITS);
const INODE_TABLE: u64 = ZONE_MAP + ZONE_MAP_BLOCKS;
const INODE_BYTES: usize = 64;
const INODES: u64 = 16_384;
const FIRST_ZONE: u64 = INODE_TABLE + INODES * INODE_BYTES as u64 / BLOCK as u64;
/// Bits in a block of a bitmap.
const BITS: u64 = 8 * BLOCK as u64;
const ENTRY_BYTES: usize = 16;
const ROOT: u64 = 1;
/// Zones whose numbers are in the inode.
const DIRECT: u64 = 7;
/// Zone numbers in an indirect block.
const PER_BLOCK: u64 = BLOCK as u64 / 4;
const MODE_DIRECTORY: u16 = 0o040_755;
const MODE_FILE: u16 = 0o100_644;

/// The file system. Clones are the same one.
#[derive(Clone)]
pub struct Minix(Rc<State>);

struct State {
    cache: Cache,
    turn: Semaphore,
}

/// An inode.
#[derive(Clone, Copy, Default)]
struct Inode {
    mode: u16,
    size: u32,
    /// Seven direct zones, one indirect and one double indirect one; 0 for none.
    zones: [u32; 10],
}

impl Inode {
    fn decode(bytes: &[u8]) -> Self {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        Self {
            mode: u16::from_le_bytes([bytes[0], bytes[1]]),
            size: word(8),
            zones: std::array::from_fn(|index| word(24 + 4 * index)),
        }
    }

    fn encode(&self, bytes: &mut [u8]) {
        bytes[..2].copy_from_slice(&self.mode.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.size.to_le_bytes());
        for (zone, place) in self.zones.iter().zip(bytes[24..].chunks_mut(4)) {
            place.copy_from_slice(&zone.to_le_bytes());
        }
    }
}

impl Minix {
    /// An empty file system on the drive of `machine`, with a cache of `memory_bytes`.
    pub async fn format(machine: &Machine, memory_bytes: u64) -> Result<Self, LoadError> {
        let cache = Cache::new(machine, memory_bytes as usize / BLOCK);
        let turn = Semaphore::new(&machine.rt, 1);
        let minix = Self(Rc::new(State { cache, turn }));
        let root = minix.new_inode(MODE_DIRECTORY).await?;
        assert_eq!(root, ROOT, "the first inode is that of the root");
        minix.0.cache.sync().await?;
        Ok(minix)
    }

    async fn turn(&self) -> Permit {
        self.0.turn.acquire(1).await
    }

    async fn inode(&self, number: u64) -> Result<Inode, LoadError> {
        let (block, bytes) = place_of(number);
        let page = |page: &mut [u8]| Inode::decode(&page[bytes]);
        self.0.cache.look(block, page).await
    }

    async fn put_inode(&self, number: u64, inode: &Inode) -> Result<(), LoadError> {
        let (block, bytes) = place_of(number);
        let page = |page: &mut [u8]| inode.encode(&mut page[bytes]);
        self.0.cache.edit(block, page).await
    }

    async fn new_inode(&self, mode: u16) -> Result<u64, LoadError> {
        let number = self.take_bit(INODE_MAP, INODES, 0).await? + 1;
        let inode = Inode {
            mode,
            ..Inode::default()
        };
        self.put_inode(number, &inode).await?;
        Ok(number)
    }

    /// Sets the first free bit from `from` on in the bitmap that begins with `block`.
    async fn take_bit(&self, block: u64, bits: u64, from: u64) -> Result<u64, LoadError> {
        for index in from / BITS..bits.div_ceil(BITS) {
            let first = if index == from / BITS { from % BITS } else { 0 };
            let end = (bits - index * BITS).min(BITS);
            let take = |page: &mut [u8]| {
                let mut free =
                    (first..end).filter(|bit| page[*bit as usize / 8] >> (bit % 8) & 1 == 0);
                let bit = free.next()?;
                page[bit as usize / 8] |= 1 << (bit % 8);
                Some(bit)
            };
            if let Some(bit) = self.0.cache.edit(block + index, take).await? {
                return Ok(index * BITS + bit);
            }
        }
        // Beyond the hint there is none.
        match from {
            0 => panic!("the partition is large enough for the experiment"),
            _ => Box::pin(self.take_bit(block, bits, 0)).await,
        }
    }

    async fn clear_bit(&self, block: u64, bit: u64) -> Result<(), LoadError> {
        let clear = |page: &mut [u8]| page[(bit % BITS) as usize / 8] &= !(1 << (bit % 8));
        self.0.cache.edit(block + bit / BITS, clear).await
    }

    /// The nearest free zone after the file's first one.
    async fn new_zone(&self, near: u32) -> Result<u32, LoadError> {
        let from = u64::from(near).saturating_sub(FIRST_ZONE);
        let bit = self.take_bit(ZONE_MAP, BLOCKS - FIRST_ZONE, from).await?;
        self.0.cache.fresh(FIRST_ZONE + bit).await?;
        Ok((FIRST_ZONE + bit) as u32)
    }

    async fn free_zone(&self, zone: u32) -> Result<(), LoadError> {
        self.0.cache.forget(u64::from(zone));
        self.clear_bit(ZONE_MAP, u64::from(zone) - FIRST_ZONE).await
    }

    /// The zone of block `at` of a file, which gets one if `takes` and there is none. `None` for a hole.
    async fn zone(
        &self,
        inode: &mut Inode,
        at: u64,
        takes: bool,
    ) -> Result<Option<u32>, LoadError> {
        // The place in the inode, then those in the indirect blocks.
        let (place, path) = match at.checked_sub(DIRECT) {
            None => (at as usize, Vec::new()),
            Some(at) if at < PER_BLOCK => (7, vec![at]),
            Some(at) => (
                8,
                vec![(at - PER_BLOCK) / PER_BLOCK, (at - PER_BLOCK) % PER_BLOCK],
            ),
        };
        let near = inode.zones[0];
        if inode.zones[place] == 0 {
            if !takes {
                return Ok(None);
            }
            inode.zones[place] = self.new_zone(near).await?;
        }
        let mut zone = inode.zones[place];
        for entry in path {
            let bytes = entry as usize * 4..entry as usize * 4 + 4;
            let own = bytes.clone();
            let get =
                |page: &mut [u8]| u32::from_le_bytes([0, 1, 2, 3].map(|at| page[own.start + at]));
            let mut next = self.0.cache.look(u64::from(zone), get).await?;
            if next == 0 {
                if !takes {
                    return Ok(None);
                }
                next = self.new_zone(near).await?;
                let put = |page: &mut [u8]| page[bytes].copy_from_slice(&next.to_le_bytes());
                self.0.cache.edit(u64::from(zone), put).await?;
            }
            zone = next;
        }
        Ok(Some(zone))
    }

    async fn write_at(&self, file: u64, offset: u64, data: &[u8]) -> Result<(), LoadError> {
        let mut inode = self.inode(file).await?;
        let (mut at, end) = (offset, offset + data.len() as u64);
        while at < end {
            let block = at / BLOCK as u64;
            let stop = end.min((block + 1) * BLOCK as u64);
            let part = &data[(at - offset) as usize..(stop - offset) as usize];
            let zone = self.zone(&mut inode, block, true).await?;
            let zone = u64::from(zone.expect("a zone was taken"));
            if part.len() == BLOCK {
                self.0.cache.fresh(zone).await?;
            }
            let first = (at % BLOCK as u64) as usize;
            let put = |page: &mut [u8]| page[first..first + part.len()].copy_from_slice(part);
            self.0.cache.edit(zone, put).await?;
            if inode.mode == MODE_FILE {
                self.0.cache.mark_content(zone);
            }
            at = stop;
        }
        inode.size = inode.size.max(end as u32);
        self.put_inode(file, &inode).await
    }

    async fn read_at(&self, file: u64, offset: u64, len: u64) -> Result<Vec<u8>, LoadError> {
        let mut inode = self.inode(file).await?;
        let (mut at, end) = (offset, (offset + len).min(inode.size.into()));
        let mut data = Vec::with_capacity(len as usize);
        while at < end {
            let block = at / BLOCK as u64;
            let stop = end.min((block + 1) * BLOCK as u64);
            let range = (at % BLOCK as u64) as usize..;
            let range = range.start..range.start + (stop - at) as usize;
            match self.zone(&mut inode, block, false).await? {
                None => data.resize(data.len() + range.len(), 0),
                Some(zone) => {
                    let take = |page: &mut [u8]| data.extend_from_slice(&page[range]);
                    self.0.cache.look(u64::from(zone), take).await?;
                    self.0.cache.mark_content(u64::from(zone));
                }
            }
            at = stop;
        }
        Ok(data)
    }

    /// The place of a name in a directory, and the inode there; or the first free place.
    async fn find(&self, directory: u64, name: &str) -> Result<Result<(u64, u64), u64>, LoadError> {
        let wanted = entry(0, name);
        let mut inode = self.inode(directory).await?;
        let mut free = u64::from(inode.size);
        for block in 0..u64::from(inode.size).div_ceil(BLOCK as u64) {
            let zone = self.zone(&mut inode, block, false).await?;
            let zone = u64::from(zone.expect("a directory has no holes"));
            let used = (inode.size as usize - block as usize * BLOCK).min(BLOCK);
            let first = block * BLOCK as u64;
            let search = |page: &mut [u8]| {
                for (index, entry) in page[..used].chunks(ENTRY_BYTES).enumerate() {
                    let place = first + (index * ENTRY_BYTES) as u64;
                    match u16::from_le_bytes([entry[0], entry[1]]) {
                        0 => free = free.min(place),
                        number if entry[2..] == wanted[2..] => return Some((place, number.into())),
                        _ => {}
                    }
                }
                None
            };
            if let Some(found) = self.0.cache.look(zone, search).await? {
                return Ok(Ok(found));
            }
        }
        Ok(Err(free))
    }

    /// A name that must be there: its place and the inode.
    async fn known(&self, directory: u64, name: &str) -> Result<(u64, u64), LoadError> {
        let found = self.find(directory, name).await?;
        found.map_err(|_| LoadError::Content)
    }

    async fn enter(&self, directory: u64, name: &str, mode: u16) -> Result<u64, LoadError> {
        let free = self.find(directory, name).await?;
        let free = free.err().ok_or(LoadError::Content)?;
        let number = self.new_inode(mode).await?;
        self.write_at(directory, free, &entry(number, name)).await?;
        Ok(number)
    }

    /// Frees the zones of a file below an indirect block, and that block.
    async fn free_below(&self, zone: u32, levels: u32) -> Result<(), LoadError> {
        if zone == 0 {
            return Ok(());
        }
        if levels > 0 {
            let all = |page: &mut [u8]| page.to_vec();
            let page = self.0.cache.look(u64::from(zone), all).await?;
            for entry in page.chunks(4) {
                let next = u32::from_le_bytes([0, 1, 2, 3].map(|at| entry[at]));
                Box::pin(self.free_below(next, levels - 1)).await?;
            }
        }
        self.free_zone(zone).await
    }
}

/// The block of an inode, and its bytes there.
fn place_of(number: u64) -> (u64, Range<usize>) {
    let at = (number as usize - 1) * INODE_BYTES;
    let first = at % BLOCK;
    (
        INODE_TABLE + (at / BLOCK) as u64,
        first..first + INODE_BYTES,
    )
}

/// An entry of a directory: the number of the inode, and a name of up to 14 bytes.
fn entry(number: u64, name: &str) -> [u8; ENTRY_BYTES] {
    let mut entry = [0; ENTRY_BYTES];
    entry[..2].copy_from_slice(&(number as u16).to_le_bytes());
    entry[2..2 + name.len()].copy_from_slice(name.as_bytes());
    entry
}

impl Files for Minix {
    async fn make_directory(&self, name: &str) -> Result<u64, LoadError> {
        let _turn = self.turn().await;
        self.enter(ROOT, name, MODE_DIRECTORY).await
    }

    async fn make(&self, directory: u64, name: &str) -> Result<u64, LoadError> {
        let _turn = self.turn().await;
        self.enter(directory, name, MODE_FILE).await
    }

    async fn look_up(&self, directory: u64, name: &str) -> Result<u64, LoadError> {
        let _turn = self.turn().await;
        Ok(self.known(directory, name).await?.1)
    }

    async fn delete(&self, directory: u64, name: &str) -> Result<(), LoadError> {
        let _turn = self.turn().await;
        let (place, number) = self.known(directory, name).await?;
        self.write_at(directory, place, &[0; ENTRY_BYTES]).await?;
        let inode = self.inode(number).await?;
        for (index, zone) in inode.zones.iter().enumerate() {
            let levels = index.saturating_sub(DIRECT as usize - 1) as u32;
            self.free_below(*zone, levels).await?;
        }
        self.put_inode(number, &Inode::default()).await?;
        self.clear_bit(INODE_MAP, number - 1).await
    }

    async fn write(&self, file: u64, offset: u64, data: &[u8]) -> Result<(), LoadError> {
        let _turn = self.turn().await;
        self.write_at(file, offset, data).await
    }

    async fn read(&self, file: u64, offset: u64, len: u64) -> Result<Vec<u8>, LoadError> {
        let _turn = self.turn().await;
        self.read_at(file, offset, len).await
    }

    async fn sync(&self) -> Result<(), LoadError> {
        let _turn = self.turn().await;
        self.0.cache.sync().await
    }

    async fn sync_all(&self) -> Result<(), LoadError> {
        let _turn = self.turn().await;
        self.0.cache.drop_content();
        Ok(())
    }

    fn conflicts(&self) -> u64 {
        0
    }

    fn log_bytes(&self) -> u64 {
        0
    }
}
