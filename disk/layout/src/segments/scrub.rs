//! Repairs blocks, map pages, summaries and checkpoints from the parity of an array, where the computed content is right
//! by the checksum that is kept for it. Map pages come first, from the root on: their entries say which pages and
//! blocks are right.

use crate::error::HomeError;
use crate::report::{GroupReport, SlotReport};
use crate::scrub::{common, of_crc, repair, unknown};
use crate::segments::Segments;
use std::collections::BTreeSet;
use std::ops::Range;
use tonearm_device::{Known, RepairOutcome};
use tonearm_format::{MapEntry, Summary, summary_blocks};

impl Segments {
    pub(crate) async fn scrub_group(&self, group: u64) -> Result<GroupReport, HomeError> {
        let _writer = self.writer.acquire(1).await;
        let mut report = self.examine(group).await?;
        let mut repaired = 0;
        if matches!(report.slots[0], SlotReport::Damaged(_)) {
            repaired = self.repair_pages(group).await?;
        }
        if repaired > 0 {
            report = self.examine(group).await?;
        }
        let mut of_blocks = 0;
        for bad in &report.bad {
            let entry = self.entry(bad.block).await;
            if let Ok(entry) = entry
                && self.media.holds(entry.place)
            {
                of_blocks += self.repair_entry(entry).await?;
            }
        }
        if of_blocks > 0 {
            report = self.examine(group).await?;
        }
        report.repaired = repaired + of_blocks;
        Ok(report)
    }

    /// Repairs the map pages of `group`. Their number.
    async fn repair_pages(&self, group: u64) -> Result<u64, HomeError> {
        let mut repaired = 0;
        for level in (0..self.levels).rev() {
            let index = group / (self.fanout as u64).saturating_pow(level);
            let Ok(entry) = self.entry_of_page((level, index)).await else {
                break;
            };
            if self.media.holds(entry.place) && self.load_page((level, index), entry).await.is_err()
            {
                repaired += self.repair_entry(entry).await?;
            }
        }
        Ok(repaired)
    }

    /// Repairs the block or page that `entry` names. 1 if it was repaired.
    async fn repair_entry(&self, entry: MapEntry) -> Result<u64, HomeError> {
        let (member, _) = self.media.locate(entry.place);
        let known = vec![of_crc(self.bytes_of(entry.place, 1), entry.crc)];
        let repaired = repair(self.media.device(member), known, 0..0).await?;
        Ok(repaired.places)
    }

    /// Where `count` blocks from `place` on lie on their member.
    fn bytes_of(&self, place: u64, count: u64) -> Range<u64> {
        let (_, offset) = self.media.locate(place);
        offset..offset + count * self.block_size() as u64
    }

    pub(crate) async fn scrub_stripes(
        &self,
        member: usize,
        stripes: Range<u64>,
    ) -> Result<RepairOutcome, HomeError> {
        let _writer = self.writer.acquire(1).await;
        let mut known = Vec::new();
        let (segments, first) = self.media.segments(member);
        if member == 0 {
            for slot in 0..2 {
                let start = self.media.slot_offset(slot);
                let bytes = start..start + self.media.layout.slot_bytes();
                let part = common(&stripes, &bytes);
                if !part.is_empty() && self.read_slot(slot).await.is_none() {
                    known.push(self.known_in_slot(slot, part).await?);
                }
            }
        }
        let segment_bytes = u64::from(self.media.layout.segment_bytes);
        let end = first + (segments.end - segments.start) * segment_bytes;
        let part = common(&stripes, &(first..end));
        let mut repaired = 0;
        // Stripes before and after the segments hold copies of the superblock.
        let indexes = if part.is_empty() {
            0..0
        } else {
            (part.start - first) / segment_bytes..(part.end - first).div_ceil(segment_bytes)
        };
        for index in indexes {
            let segment = segments.start + index;
            let mut content = self.known_in(segment, &stripes).await?;
            if !content.is_complete {
                let of_summaries = self.repair_summaries(member, segment).await?;
                if of_summaries > 0 {
                    repaired += of_summaries;
                    content = self.known_in(segment, &stripes).await?;
                }
            }
            if !content.is_complete {
                known.push(unknown(common(&stripes, &self.segment_bytes(segment))));
            }
            known.extend(content.known);
        }
        let mut all = repair(self.media.device(member), known, stripes).await?;
        all.places += repaired;
        Ok(all)
    }

    /// A part of the checkpoint slot `slot`, which is damaged. It is right as in the other slot: a checkpoint is written
    /// to both.
    async fn known_in_slot(&self, slot: u64, part: Range<u64>) -> Result<Known, HomeError> {
        if self.read_slot(1 - slot).await.is_none() {
            return Ok(unknown(part));
        }
        let within = part.start - self.media.slot_offset(slot);
        let (offset, len) = (
            self.media.slot_offset(1 - slot) + within,
            (part.end - part.start) as usize,
        );
        let other = self.media.read_at(0, offset, len).await?;
        Ok(Known {
            range: part,
            is_right: Box::new(move |bytes| *bytes == other[..]),
        })
    }

    fn segment_bytes(&self, segment: u64) -> Range<u64> {
        let place = self.media.first_place(segment);
        self.bytes_of(place, self.media.layout.segment_blocks())
    }

    /// Repairs summaries of which both copies are damaged. They may begin at any block. Their number.
    async fn repair_summaries(&self, member: usize, segment: u64) -> Result<u64, HomeError> {
        let (size, store) = (self.media.layout.block_size, self.store);
        let (first, end) = (
            self.media.first_place(segment),
            self.media.first_place(segment + 1),
        );
        let most = summary_blocks(size, self.capacity);
        let known = (first..end).map(|place| Known {
            range: self.bytes_of(place, most.min(end - place)),
            is_right: Box::new(move |bytes| {
                let found = Summary::decode(size, bytes);
                found.is_ok_and(|found| found.store == store && found.place == place)
            }),
        });
        let repaired = repair(self.media.device(member), known.collect(), 0..0).await?;
        Ok(repaired.places)
    }

    /// The summaries, and the live blocks and pages, of `segment` that lie in `range` of its member.
    async fn known_in(&self, segment: u64, range: &Range<u64>) -> Result<Content, HomeError> {
        let place = self.media.first_place(segment);
        let (size, store) = (self.media.layout.block_size, self.store);
        let lies_in = |bytes: &Range<u64>| !common(bytes, range).is_empty();
        let (mut known, mut live) = (Vec::new(), BTreeSet::new());
        for summary in self.content_from(place).await.partials(&store) {
            let first = summary.place;
            let blocks = summary_blocks(size, summary.entries.len() as u64);
            for copy in [first, first + summary.blocks(size) - blocks] {
                let is_copy = move |bytes: &[u8]| {
                    let found = Summary::decode(size, bytes);
                    found.is_ok_and(|found| (found.store, found.place) == (store, first))
                };
                let bytes = self.bytes_of(copy, blocks);
                if lies_in(&bytes) {
                    known.push(Known {
                        range: bytes,
                        is_right: Box::new(is_copy),
                    });
                }
            }
            for (place, entry) in summary.placed(size) {
                let Some(entry) = self.live_entry(entry.kind, place).await else {
                    continue;
                };
                live.insert(place);
                let bytes = self.bytes_of(place, 1);
                if lies_in(&bytes) {
                    known.push(of_crc(bytes, entry.crc));
                }
            }
        }
        let expected = u64::from(self.state.borrow().table.entry(segment).live);
        if (live.len() as u64) < expected {
            for (place, block) in self.blocks_in(&BTreeSet::from([segment])).await? {
                let bytes = self.bytes_of(place, 1);
                if live.insert(place) && lies_in(&bytes) {
                    known.push(of_crc(bytes, self.entry(block).await?.crc));
                }
            }
        }
        Ok(Content {
            known,
            is_complete: live.len() as u64 == expected,
        })
    }
}

/// What is known of a part of a segment.
struct Content {
    known: Vec<Known>,
    /// The summaries name as many live blocks and pages as there are.
    is_complete: bool,
}
