//! Takes one volume or file out of an archive, without the rest of its store.
//!
//! The map of a volume is in the volume table, in the first blocks of the store. So there are two passes of the same kind:
//! the first one makes these blocks as they were at the wanted commit, in memory. The second one makes the blocks that the
//! table gives to the volume, in a file. Neither needs space for other blocks. Each pass reads only the objects that may
//! change its blocks.

use crate::error::ArchiveError;
use crate::plan::Plan;
use std::io;
use tonearm_base::Lsn;
use tonearm_format::{
    ArchiveEntry, ArchiveReader, Extent, FormatError, SECTOR, SYSTEM_BLOCKS, VolumeEntry,
    VolumeKind, volume_faults,
};

/// The blocks of the volume table.
pub const TABLE: Extent = Extent {
    start: 0,
    count: SYSTEM_BLOCKS,
};

/// Bytes that are made from an archive. At first they are zeroes.
pub trait Content {
    /// Reads `bytes` at byte `at`.
    ///
    /// # Errors
    /// When they cannot be read.
    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes `bytes` at byte `at`.
    ///
    /// # Errors
    /// When they cannot be written.
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes `count` bytes from byte `at` on zeroes.
    ///
    /// # Errors
    /// When they cannot be written.
    fn zero(&mut self, at: u64, count: u64) -> io::Result<()>;
}

impl Content for Vec<u8> {
    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let at = at as usize;
        bytes.copy_from_slice(&self[at..at + bytes.len()]);
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let at = at as usize;
        self[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn zero(&mut self, at: u64, count: u64) -> io::Result<()> {
        let at = at as usize;
        self[at..at + count as usize].fill(0);
        Ok(())
    }
}

/// Blocks that are made, one behind the other, in the order of their extents.
pub struct Extract {
    /// Extents with the number of their first block in what is made, ascending by their place in the store.
    map: Vec<(Extent, u64)>,
    block_size: usize,
    /// The last commit to apply.
    until: Lsn,
}

impl Extract {
    /// Makes the blocks of `extents`, which do not overlap, as they were at the commit of `plan`.
    pub fn new(plan: &Plan, extents: &[Extent]) -> Self {
        let mut blocks = 0;
        let mut map: Vec<(Extent, u64)> = Vec::new();
        for extent in extents {
            map.push((*extent, blocks));
            blocks += extent.count;
        }
        map.sort_by_key(|(extent, _)| extent.start);
        Self {
            map,
            block_size: plan.shape.block_size as usize,
            until: plan.lsn,
        }
    }

    /// Bytes of all the blocks.
    pub fn size_bytes(&self) -> u64 {
        let counts = self.map.iter().map(|(extent, _)| extent.count);
        counts.sum::<u64>() * self.block_size as u64
    }

    /// Applies the payload of object `name` of the archive at `url` to `content`, which has [`Extract::size_bytes`] bytes. To
    /// apply objects again to a later state gives the later state.
    ///
    /// # Errors
    /// When the payload is damaged, or `content` cannot be written.
    pub fn apply(
        &self,
        payload: &[u8],
        url: &str,
        name: &str,
        content: &mut dyn Content,
    ) -> Result<(), ArchiveError> {
        let mut reader = ArchiveReader::new(payload, self.block_size);
        let object = |error: FormatError| ArchiveError::Object {
            url: url.to_string(),
            name: name.to_string(),
            error,
        };
        let mut buf = vec![0; self.block_size];
        while let Some(entry) = reader.next() {
            match entry.map_err(object)? {
                ArchiveEntry::Data { block, data, .. } => {
                    if let Some(at) = self.place(block) {
                        content.write(at, data)?;
                    }
                }
                ArchiveEntry::Zero { first, count, .. } => {
                    self.zero(first, count, content)?;
                }
                ArchiveEntry::Patch { block, words } => {
                    let Some(at) = self.place(block) else {
                        continue;
                    };
                    content.read(at, &mut buf)?;
                    for (word, value) in words.iter() {
                        buf[word..word + 8].copy_from_slice(&value);
                    }
                    content.write(at, &buf)?;
                }
                ArchiveEntry::Commit(lsn) if lsn >= self.until => return Ok(()),
                ArchiveEntry::Commit(_) | ArchiveEntry::Time { .. } => {}
            }
        }
        Ok(())
    }

    /// Where the block begins in what is made, in bytes.
    fn place(&self, block: u64) -> Option<u64> {
        let behind = self
            .map
            .partition_point(|(extent, _)| extent.start <= block);
        let (extent, first) = &self.map[behind.checked_sub(1)?];
        let within = block - extent.start;
        (within < extent.count).then(|| (first + within) * self.block_size as u64)
    }

    fn zero(&self, first: u64, count: u64, content: &mut dyn Content) -> io::Result<()> {
        let end = first + count;
        for (extent, at) in &self.map {
            let from = first.max(extent.start);
            let to = end.min(extent.start + extent.count);
            if from < to {
                let block_size = self.block_size as u64;
                content.zero(
                    (at + from - extent.start) * block_size,
                    (to - from) * block_size,
                )?;
            }
        }
        Ok(())
    }
}

/// The volumes and files in `table`, which has the blocks of [`TABLE`] as they were at the commit of `plan`; by name.
///
/// # Errors
/// When an entry is damaged, or contradicts the store or another entry.
pub fn volumes(plan: &Plan, url: &str, table: &[u8]) -> Result<Vec<VolumeEntry>, ArchiveError> {
    let wrong = |why: String| ArchiveError::Table {
        url: url.to_string(),
        lsn: plan.lsn,
        why,
    };
    let mut entries = Vec::new();
    for (slot, block) in table.chunks(plan.shape.block_size as usize).enumerate() {
        let entry = VolumeEntry::decode(&block[..SECTOR]);
        let entry = entry.map_err(|error| wrong(format!("entry {slot}: {error}")))?;
        entries.extend(entry.map(|entry| (slot as u64, entry)));
    }
    let by_slot = entries.iter().map(|(slot, entry)| (*slot, entry));
    let faults = volume_faults(by_slot, plan.shape.size_blocks, plan.shape.block_size);
    if let Some(fault) = faults.into_iter().next() {
        return Err(wrong(fault.to_string()));
    }
    let entries = entries.into_iter().map(|(_, entry)| entry);
    let own = |entry: &VolumeEntry| matches!(entry.kind, VolumeKind::Plain | VolumeKind::File);
    let mut volumes: Vec<VolumeEntry> = entries.filter(own).collect();
    volumes.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(volumes)
}

/// The volume or file `name` of `volumes`.
///
/// # Errors
/// When there is none, with the names that there are.
pub fn find<'a>(
    plan: &Plan,
    url: &str,
    volumes: &'a [VolumeEntry],
    name: &str,
) -> Result<&'a VolumeEntry, ArchiveError> {
    let found = volumes.iter().find(|entry| entry.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = volumes.iter().map(|entry| entry.name.as_str()).collect();
        ArchiveError::NoVolume {
            url: url.to_string(),
            lsn: plan.lsn,
            name: name.to_string(),
            names: match names.len() {
                0 => "is none at all".to_string(),
                1 => format!("is {}", names[0]),
                _ => format!("are {}", names.join(", ")),
            },
        }
    })
}
