//! Rules that hold between the entries of the volume table. See `docs/format/volume.md`.
//!
//! Each entry may be valid by itself, and the table invalid: then reads of one volume would return the content of
//! another one, or of the volume table.

use crate::geometry::SYSTEM_BLOCKS;
use crate::volume::{VolumeEntry, VolumeKind};
use std::collections::{BTreeMap, BTreeSet};

/// A volume whose entry contradicts the store or another entry.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("volume {name:?} (entry {slot} of the volume table): {why}")]
pub struct VolumeFault {
    /// Its entry.
    pub slot: u64,
    /// Its name.
    pub name: String,
    /// The rule that it breaks.
    pub why: String,
}

/// The faults of `entries`, each with its slot, in a store of `size_blocks` blocks of `block_size` bytes. At most one for
/// each entry; of two entries that exclude each other, the later one has the fault.
pub fn volume_faults<'a>(
    entries: impl IntoIterator<Item = (u64, &'a VolumeEntry)>,
    size_blocks: u64,
    block_size: u32,
) -> Vec<VolumeFault> {
    let mut seen = Seen::default();
    let faults = entries.into_iter().filter_map(|(slot, entry)| {
        let why = fault_of(entry, size_blocks, block_size, &mut seen)?;
        let name = entry.name.clone();
        Some(VolumeFault { slot, name, why })
    });
    faults.collect()
}

/// Names, kinds and blocks of the entries so far.
#[derive(Default)]
struct Seen<'a> {
    names: BTreeSet<&'a str>,
    kinds: Vec<VolumeKind>,
    /// Extents: first block, the block after the last one, and the volume.
    blocks: BTreeMap<u64, (u64, &'a str)>,
}

fn fault_of<'a>(
    entry: &'a VolumeEntry,
    size_blocks: u64,
    block_size: u32,
    seen: &mut Seen<'a>,
) -> Option<String> {
    if !seen.names.insert(&entry.name) {
        return Some("there is another volume of this name".into());
    }
    if entry.kind != VolumeKind::Plain {
        if seen.kinds.contains(&entry.kind) {
            return Some(
                "there is another volume of this kind, of which there is one at most".into(),
            );
        }
        seen.kinds.push(entry.kind);
    }
    let mut blocks = 0;
    for extent in &entry.extents {
        let (start, count) = (extent.start, extent.count);
        let end = start.saturating_add(count);
        if start < SYSTEM_BLOCKS {
            return Some(format!(
                "its blocks {start}..{end} are those of the volume table"
            ));
        }
        if end > size_blocks {
            return Some(format!(
                "its blocks {start}..{end} lie beyond the store, which has {size_blocks}"
            ));
        }
        // The extents so far are disjoint, so only the last one that begins before `end` may overlap.
        if let Some((_, (stop, owner))) = seen.blocks.range(..end).next_back()
            && *stop > start
        {
            return Some(format!(
                "its blocks {start}..{end} overlap those of volume {owner:?}"
            ));
        }
        seen.blocks.insert(start, (end, &entry.name));
        // The extents are disjoint and in the store, so the sum cannot overflow.
        blocks += count;
    }
    let needed = entry.size_bytes.div_ceil(u64::from(block_size));
    (needed > blocks).then(|| {
        format!(
            "it has {} bytes, and its {blocks} blocks do not cover them",
            entry.size_bytes
        )
    })
}
