//! The volume table of a commit, and where the blocks of a file lie.

use crate::error::ArchiveError;
use crate::extract::Place;
use crate::plan::Plan;
use tonearm_format::{
    Extent, FileExtent, SECTOR, SYSTEM_BLOCKS, VolumeEntry, VolumeKind, volume_faults,
};

/// The blocks of the volume table.
pub const TABLE: Extent = Extent {
    start: 0,
    count: SYSTEM_BLOCKS,
};

/// The volumes of a commit.
#[derive(Clone, Debug)]
pub struct VolumeTable {
    /// The volumes, and the files that are volumes, by name.
    pub volumes: Vec<VolumeEntry>,
    /// The pages of the tree of files, if there is one.
    pub tree: Option<VolumeEntry>,
    /// The area of lists, which has the blocks of the files of the tree.
    pub lists: Option<VolumeEntry>,
}

impl VolumeTable {
    /// Reads `table`, which has the blocks of [`TABLE`] as they were at the commit of `plan`.
    ///
    /// # Errors
    /// When an entry is damaged, or contradicts the store or another entry.
    pub fn decode(plan: &Plan, url: &str, table: &[u8]) -> Result<Self, ArchiveError> {
        let wrong = |why: String| wrong(plan, url, why);
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
        let mut found = Self {
            volumes: Vec::new(),
            tree: None,
            lists: None,
        };
        for (_, entry) in entries {
            match entry.kind {
                VolumeKind::Plain => found.volumes.push(entry),
                VolumeKind::Tree => found.tree = Some(entry),
                VolumeKind::Lists => found.lists = Some(entry),
                VolumeKind::Spill => {}
            }
        }
        found
            .volumes
            .sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// Where `count` blocks from `extent.block` of the area of lists on lie in the store. They are blocks `at` and following
    /// of a file of the tree.
    ///
    /// # Errors
    /// When the area does not have them.
    pub fn places(
        &self,
        plan: &Plan,
        url: &str,
        at: u64,
        extent: FileExtent,
    ) -> Result<Vec<Place>, ArchiveError> {
        let (mut next, mut left) = (extent.block, u64::from(extent.count));
        let (mut places, mut at) = (Vec::new(), at);
        // The first block of the area that the volume's extent has.
        let mut first = 0;
        for own in self.lists.iter().flat_map(|lists| &lists.extents) {
            let within = next - first;
            if left > 0 && within < own.count {
                let count = left.min(own.count - within);
                let start = own.start + within;
                places.push(Place {
                    extent: Extent { start, count },
                    at,
                });
                (next, left, at) = (next + count, left - count, at + count);
            }
            first += own.count;
            if left == 0 {
                break;
            }
        }
        if left == 0 {
            return Ok(places);
        }
        Err(wrong(
            plan,
            url,
            format!("a file has block {next} of the area of lists, which has no such block"),
        ))
    }
}

fn wrong(plan: &Plan, url: &str, why: String) -> ArchiveError {
    ArchiveError::Table {
        url: url.to_string(),
        lsn: plan.lsn,
        why,
    }
}

#[cfg(test)]
#[path = "table_test.rs"]
mod table_test;
