//! Checks blocks against the map, and the map against the summaries, and repairs what can be repaired.

use crate::error::HomeError;
use crate::home::HomeBlock;
use crate::queue::Reader;
use crate::report::{BadBlock, GroupReport, RepairOptions, RepairReport, SlotReport};
use crate::segments::Segments;
use crate::segments::read::Leaf;
use std::collections::{BTreeMap, BTreeSet};
use tonearm_device::DirtyRanges;
use tonearm_format::{FormatError, MapEntry, SummaryKind};

/// Segments for which a check asks the map together which blocks lie in holes.
const CHECKED_TOGETHER: usize = 64;

impl Segments {
    pub(crate) async fn check_group(&self, group: u64) -> Result<GroupReport, HomeError> {
        let _writer = self.writer.acquire(1).await;
        self.examine(group).await
    }

    /// The report of `group`. The caller holds the writer's permit.
    pub(crate) async fn examine(&self, group: u64) -> Result<GroupReport, HomeError> {
        assert!(group < self.groups(), "group {group} exists");
        let first = group * self.fanout as u64;
        let end = (first + self.fanout as u64).min(self.size_blocks);
        let leads = self.entry_of_page((0, group)).await;
        let (member, offset) = match &leads {
            Ok(entry) if self.media.holds(entry.place) => self.media.address(entry.place),
            _ => (self.media.name(0).to_string(), self.media.area(0).start),
        };
        let mut report = GroupReport {
            group,
            member,
            offset,
            slots: [SlotReport::Empty, SlotReport::Empty],
            table_lost: false,
            allocated: 0,
            bad: Vec::new(),
            repaired: 0,
        };
        let entries = match self.leaf(first, end).await.1 {
            Ok(Leaf::Hole) => return Ok(report),
            Ok(Leaf::Entries(entries)) => entries,
            Err(HomeError::MapPage { member, offset, .. }) => {
                (report.member, report.offset) = (member, offset);
                report.slots[0] = SlotReport::Damaged(FormatError::Checksum("map page"));
                report.table_lost = true;
                return Ok(report);
            }
            Err(error) => return Err(error),
        };
        // Read from the medium, past the cache.
        if let Ok(entry) = leads
            && self.media.holds(entry.place)
        {
            report.slots[0] = match self.load_page((0, group), entry).await {
                Ok(_) => SlotReport::Valid(entry.version),
                Err(_) => SlotReport::Damaged(FormatError::Checksum("map page")),
            };
        }
        report.allocated = entries.iter().filter(|entry| !entry.is_hole()).count() as u64;
        let mut block = first;
        while block < end {
            let step = end.min(block + ((1 << 20) / self.block_size()) as u64);
            if self.read(block, step - block, Reader::Store).await.is_err() {
                for block in block..step {
                    if let Err(error) = self.read(block, 1, Reader::Store).await {
                        report.bad.push(BadBlock { block, error });
                    }
                }
            }
            block = step;
        }
        Ok(report)
    }

    /// Compares the segment table and the summaries with the map: each segment must have as many live blocks and pages
    /// as the table says. Blocks that were moved into holes count, too; no summary of their segment names them. `progress` gets the number of segments done, and of all.
    ///
    /// # Errors
    /// When the map cannot be read.
    pub(crate) async fn check_map(
        &self,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Vec<HomeError>, HomeError> {
        let _writer = self.writer.acquire(1).await;
        let (mut found, last) = (Vec::new(), self.media.layout.segments);
        for from in (1..=last).step_by(CHECKED_TOGETHER) {
            let part = from..=last.min(from + CHECKED_TOGETHER as u64 - 1);
            let (mut named, mut short) = (BTreeMap::new(), BTreeSet::new());
            for segment in part.clone() {
                let expected = u64::from(self.state.borrow().table.entry(segment).live);
                if expected > 0 {
                    let places = self.named_in(segment).await;
                    if (places.len() as u64) < expected {
                        short.insert(segment);
                    }
                    named.insert(segment, places);
                }
                progress(segment, last);
            }
            for place in self.blocks_in(&short).await?.into_keys() {
                let segment = self.media.segment_of(place);
                named.entry(segment).or_default().insert(place);
            }
            for (segment, places) in named {
                let expected = u64::from(self.state.borrow().table.entry(segment).live);
                let live = places.len() as u64;
                if live != expected {
                    let (member, offset) = self.media.address(self.media.first_place(segment));
                    found.push(HomeError::Segment {
                        segment,
                        member,
                        offset,
                        expected,
                        found: live,
                    });
                }
            }
        }
        Ok(found)
    }

    /// Places of the live blocks and pages that the summaries of `segment` name.
    async fn named_in(&self, segment: u64) -> BTreeSet<u64> {
        let content = self.content_from(self.media.first_place(segment)).await;
        let mut live = BTreeSet::new();
        for summary in content.partials(&self.store) {
            for (place, entry) in summary.placed(self.media.layout.block_size) {
                if self.live_entry(entry.kind, place).await.is_some() {
                    live.insert(place);
                }
            }
        }
        live
    }

    /// The map's entry for a block or page of this kind, if it lies at `place`.
    pub(crate) async fn live_entry(&self, kind: SummaryKind, place: u64) -> Option<MapEntry> {
        let known = match kind {
            SummaryKind::Data { block, .. } | SummaryKind::Indirect { block, .. }
                if block < self.size_blocks =>
            {
                self.entry(block).await
            }
            SummaryKind::Page { level, index, .. } if u32::from(level) < self.levels => {
                self.entry_of_page((u32::from(level), index)).await
            }
            _ => return None,
        };
        known.ok().filter(|known| known.place == place)
    }

    /// With `accept_data`, accepts the content of blocks that fail their checksum. A damaged page of the map needs a
    /// rebuild.
    pub(crate) async fn repair_group(
        &self,
        group: u64,
        options: RepairOptions,
    ) -> Result<RepairReport, HomeError> {
        let found = self.check_group(group).await?;
        let mut report = RepairReport {
            slots_rewritten: 0,
            unverified: 0,
            accepted: Vec::new(),
            remaining: Vec::new(),
            found,
        };
        let mut blocks = Vec::new();
        for bad in &report.found.bad {
            match bad.error {
                HomeError::Checksum { block, found, .. } if options.accept_data => {
                    let entry = self.entry(block).await?;
                    let data = self.media.read(entry.place, 1).await?.share();
                    let crc = found;
                    blocks.push(HomeBlock { block, data, crc });
                    report.accepted.push(block);
                }
                _ => report.remaining.push(bad.clone()),
            }
        }
        if report.found.table_lost {
            let first = group * self.fanout as u64;
            let error = match self.read(first, 1, Reader::Store).await {
                Err(error) => error,
                Ok(_) => HomeError::LostBlock { block: first },
            };
            report.remaining.push(BadBlock {
                block: first,
                error,
            });
        }
        if !blocks.is_empty() {
            self.write_back(Vec::new(), blocks).await?;
        }
        Ok(report)
    }

    /// A write-back may have changed any free segment, so the whole home is named.
    pub(crate) fn interrupted(&self) -> Vec<DirtyRanges> {
        let areas = (0..self.media.members()).map(|member| DirtyRanges {
            changed: vec![self.media.area(member)],
            zeroed: Vec::new(),
        });
        areas.collect()
    }
}
