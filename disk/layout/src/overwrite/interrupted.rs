//! The bytes that a write-back which a crash has interrupted may have changed.
//!
//! A write-back writes blocks, zeroes ranges, and writes the tables of the groups that it touches, into either slot
//! (`write_back.rs`). All of its blocks and ranges are in the log until it has returned, so the log bounds what may
//! have been interrupted. Recovery writes the blocks and ranges again before they leave the log, but may write only one
//! of the slots: if the interrupted table was written whole, the next generation goes to the other slot. So both slots
//! are named here.

use crate::home::ZeroRange;
use crate::overwrite::home::Overwrite;
use crate::overwrite::plan::ZeroPlan;
use std::collections::BTreeSet;
use std::ops::Range;
use tonearm_device::DirtyRanges;

impl Overwrite {
    /// See [`ParityHome::interrupted`](crate::ParityHome::interrupted).
    pub(crate) fn interrupted(
        &self,
        zeroes: Vec<ZeroRange>,
        blocks: &BTreeSet<u64>,
    ) -> Vec<DirtyRanges> {
        let places = &self.places;
        let mut found: Vec<DirtyRanges> = places
            .members
            .iter()
            .map(|_| DirtyRanges::default())
            .collect();
        let plan = ZeroPlan::new(zeroes, places.group_blocks, places.size_blocks.get());
        for run in &plan.whole {
            for (member, groups) in self.by_member(run.groups.clone()) {
                let start = places.slot_offset(groups.start, 0);
                let len = (groups.end - groups.start)
                    * places.members[member].geometry.get().group_bytes();
                found[member].zeroed.push(start..start + len);
            }
        }
        let mut groups: BTreeSet<u64> = BTreeSet::new();
        for part in &plan.parts {
            let range = self.bytes_of(part.blocks.clone());
            found[places.member_of(part.group)].zeroed.push(range);
            groups.insert(part.group);
        }
        for block in blocks {
            let group = places.group_of(*block);
            groups.insert(group);
            add(
                &mut found[places.member_of(group)].changed,
                self.bytes_of(*block..block + 1),
            );
        }
        for group in groups {
            let start = places.slot_offset(group, 0);
            let slots = start..start + 2 * places.block_size as u64;
            add(&mut found[places.member_of(group)].changed, slots);
        }
        found
    }

    /// Bytes of adjacent blocks of one group.
    fn bytes_of(&self, blocks: Range<u64>) -> Range<u64> {
        let start = self.places.block_offset(blocks.start);
        start..start + (blocks.end - blocks.start) * self.places.block_size as u64
    }
}

/// Appends `range`, or joins it to the last one if it follows that.
fn add(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}
