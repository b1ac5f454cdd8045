//! How much of a store's space its volumes and files have reserved, and how much of that holds data.
//!
//! A volume reserves a block of the store for each of its blocks. A block that was never written, or was trimmed since, is a hole.
//! What holds data is counted in the checksum tables or the block map, which are read for it: nothing keeps these sums.

use crate::disk::Disk;
use crate::error::DiskError;
use async_recursion::async_recursion as boxed;
use tonearm_format::{Extent, VolumeEntry, VolumeKind};

/// What the volumes of one kind have of a store's space.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Space {
    /// Bytes that nobody else can get.
    pub reserved_bytes: u64,
    /// Those of them that hold data.
    pub used_bytes: u64,
}

impl Space {
    /// The space of a volume in which `data_blocks` blocks of `block_bytes` hold data.
    fn of(entry: &VolumeEntry, data_blocks: u64, block_bytes: u64) -> Self {
        let blocks: u64 = entry.extents.iter().map(|extent| extent.count).sum();
        Self {
            reserved_bytes: blocks * block_bytes,
            used_bytes: data_blocks * block_bytes,
        }
    }

    fn add(&mut self, more: Self) {
        self.reserved_bytes += more.reserved_bytes;
        self.used_bytes += more.used_bytes;
    }
}

/// What a store's space is used for. The reserved bytes of all parts and the free bytes are the store's size.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Of each volume of a user, by name.
    pub volumes: Vec<(String, Space)>,
    /// Of the files and lists, with their metadata.
    pub files: Space,
    /// Of open recovery units: what they have taken, and their content that does not fit in memory. The latter stays here after a
    /// commit until it is at its place, and counts there too.
    pub units: Space,
    /// Commits that were made while the data was counted. Each of them is counted, or is not.
    pub commits_meanwhile: u64,
}

impl Usage {
    /// What the volumes of `entries` have reserved in a store with blocks of `block_bytes`. No data is counted.
    pub fn reserved(entries: &[VolumeEntry], block_bytes: u64) -> Self {
        Self::sum(entries, &vec![0; entries.len()], block_bytes)
    }

    /// The usage by the volumes of `entries`. `status` gives runs of blocks and whether they hold data, for the first part of a
    /// range at least. `progress` gets the blocks that are done, and of how many, and ends the count when it returns false: the
    /// result is `None` then.
    ///
    /// # Errors
    /// Those of `status`.
    pub async fn count<E>(
        entries: &[VolumeEntry],
        block_bytes: u64,
        mut status: impl AsyncFnMut(u64, u64) -> Result<Vec<(u64, bool)>, E>,
        mut progress: impl FnMut(u64, u64) -> bool,
    ) -> Result<Option<Self>, E> {
        let extents = entries.iter().flat_map(|entry| &entry.extents);
        let total = extents.map(|extent| extent.count).sum();
        let (mut done, mut data_blocks) = (0, vec![0; entries.len()]);
        for (entry, data_blocks) in entries.iter().zip(&mut data_blocks) {
            for Extent { start, count } in &entry.extents {
                let (mut at, end) = (*start, start + count);
                while at < end {
                    if !progress(done, total) {
                        return Ok(None);
                    }
                    let before = at;
                    for (blocks, is_data) in status(at, end - at).await? {
                        at += blocks;
                        *data_blocks += if is_data { blocks } else { 0 };
                    }
                    done += at - before;
                }
            }
        }
        progress(done, total);
        Ok(Some(Self::sum(entries, &data_blocks, block_bytes)))
    }

    fn sum(entries: &[VolumeEntry], data_blocks: &[u64], block_bytes: u64) -> Self {
        let mut usage = Self::default();
        for (entry, data_blocks) in entries.iter().zip(data_blocks) {
            let space = Space::of(entry, *data_blocks, block_bytes);
            match entry.kind {
                VolumeKind::Plain => usage.volumes.push((entry.name.clone(), space)),
                VolumeKind::Lists | VolumeKind::Tree => usage.files.add(space),
                VolumeKind::Spill => usage.units.add(space),
            }
        }
        usage
    }

    /// All parts together.
    pub fn total(&self) -> Space {
        let mut total = self.volumes_total();
        total.add(self.files);
        total.add(self.units);
        total
    }

    /// The volumes of users together.
    pub fn volumes_total(&self) -> Space {
        let mut total = Space::default();
        for (_, space) in &self.volumes {
            total.add(*space);
        }
        total
    }
}

impl Disk {
    /// What the store's space is reserved for. No data is counted, and nothing is read.
    pub fn reserved(&self) -> Usage {
        let usage = Usage::reserved(&self.entries(), u64::from(self.block_size()));
        self.with_held(usage)
    }

    /// What the store's space is used for. Reads the checksum tables or the block map of everything that is reserved. `progress` gets
    /// the blocks that are done, and of how many, and ends the count when it returns false: the result is `None` then.
    ///
    /// # Errors
    /// When a table or map page cannot be read.
    #[boxed(?Send)]
    pub async fn usage(
        &self,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Option<Usage>, DiskError> {
        let (entries, block_bytes) = (self.entries(), u64::from(self.block_size()));
        let reserved = self.reserved();
        let before = self.marks().appended;
        let status = async |first, count| self.engine().status(first, count).await;
        let counted = Usage::count(&entries, block_bytes, status, progress).await?;
        Ok(counted.map(|counted| {
            let mut usage = counted;
            // That of the moment of the entries.
            usage.units.reserved_bytes = reserved.units.reserved_bytes;
            usage.commits_meanwhile = self.marks().appended.0 - before.0;
            usage
        }))
    }

    /// Adds what open units have taken and not committed.
    fn with_held(&self, mut usage: Usage) -> Usage {
        let known = usage.total().reserved_bytes + self.free_bytes();
        usage.units.reserved_bytes += self.size_bytes() - known;
        usage
    }
}
