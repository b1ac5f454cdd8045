//! Opens a home: takes the newest checkpoint and applies the summaries of the partials written since.
//!
//! The chain ends at the first number of which neither copy of the summary is valid. No partial after it was
//! acknowledged, and the engine's log replays their content. A place that cannot be read is an error, not the end of
//! the chain.
//!
//! A block of a partial may fail its checksum: a crash has torn it before it was acknowledged, or it was damaged later.
//! The two cases look the same. Content that is new in this partial is entered into the map in both cases: if it was
//! torn, the engine's log replays it, and if it was damaged, reads must give an error. Copies of the cleaner are
//! entered only if they are whole, or if the chain uses the segment of the original again. Otherwise the original is
//! still in its place, because a segment is used again only when the copies of its content are durable.
//!
//! A copy may also have been overwritten in place since. Then the note of that comes later in the chain, and has the
//! place. A note of a version older than its partial is one of a block that was moved into a hole (`plug.rs`), or one that the
//! cleaner carries. It is applied if the map has the block in this version: then it names the place, if only the same one
//! again.
//!
//! A segment that was emptied since the checkpoint may have been used again. In the chain, the newer versions of its
//! old content come before its new content, so they are applied first. Pages of the map that were written since the
//! checkpoint are entered too, so recovery never has more changed pages in memory than the writer had.
//!
//! Recovery writes nothing, so after a crash during recovery the next one starts from the same state.

use crate::error::HomeError;
use crate::segments::map::Found;
use crate::segments::page_cache::PageId;
use crate::segments::table::SegmentTable;
use crate::segments::{Segments, SegmentsMember, SegmentsOptions};
use std::collections::{BTreeMap, BTreeSet};
use tonearm_base::{BufPool, Lsn, crc32c};
use tonearm_format::{MapEntry, Summary, SummaryKind};
use tonearm_rt::Rt;

/// A partial of the chain.
struct Link {
    summary: Summary,
    /// Places of blocks that fail their checksums.
    damaged: BTreeSet<u64>,
}

/// Places that the chain has plugged, with the number of the last partial that says so.
type Plugged = BTreeMap<u64, u64>;

fn plugged(chain: &[Link]) -> Plugged {
    let mut plugged = Plugged::new();
    for Link { summary, .. } in chain {
        for entry in &summary.entries {
            if let SummaryKind::Overwritten { place, .. } = entry.kind
                && entry.version < summary.seq
            {
                plugged.insert(place, summary.seq);
            }
        }
    }
    plugged
}

impl Segments {
    /// A new home on members that read as zeroes, with its first checkpoint.
    ///
    /// # Errors
    /// When a device fails.
    pub async fn create(
        rt: &Rt,
        pool: &BufPool,
        members: Vec<SegmentsMember>,
        options: &SegmentsOptions,
    ) -> Result<(), HomeError> {
        let segments = members.iter().map(|member| member.segments).sum::<u64>();
        let table = SegmentTable::new((0..segments).map(|_| Default::default()));
        let home = Self::assemble(rt, pool, members, options, table);
        let all: Vec<u64> = (1..=segments).collect();
        home.state.borrow_mut().table.free_all(&all);
        home.checkpoint().await
    }

    /// Opens the home from the newest checkpoint and the partials since.
    ///
    /// # Errors
    /// When there is no checkpoint, the chain cannot be read, or a device fails.
    pub async fn open(
        rt: &Rt,
        pool: &BufPool,
        members: Vec<SegmentsMember>,
        options: &SegmentsOptions,
    ) -> Result<Self, HomeError> {
        let probe = Self::assemble(
            rt,
            pool,
            members.clone(),
            options,
            SegmentTable::new(std::iter::empty()),
        );
        if !options.read_only {
            // The content that was read may be in the devices' caches alone, and later writes depend on it.
            probe.media.flush().await?;
        }
        let (checkpoint, entries) = probe.read_checkpoint().await?;
        let table = SegmentTable::new(entries.into_iter());
        let home = Self::assemble(rt, pool, members, options, table);
        let end = home.media.segment_of(checkpoint.head);
        {
            let mut state = home.state.borrow_mut();
            let dead = state.table.dead(Some(end));
            state.table.free_all(&dead);
            state.table.sort_free();
            state.root = checkpoint.root;
            state.generation = checkpoint.generation;
            (state.epoch, state.seq) = (checkpoint.epoch, checkpoint.seq);
        }
        let chain = home.chain(checkpoint.head, checkpoint.partial).await?;
        {
            let mut state = home.state.borrow_mut();
            state.table.claim(end);
            for link in &chain {
                let segment = home.media.segment_of(link.summary.place);
                state.table.claim(segment);
                if link.summary.partial == 0 {
                    state.table.begin_use(segment, link.summary.seq);
                }
            }
            state.seq += chain.len() as u64;
        }
        home.end_epoch();
        home.media
            .count(|stats| stats.segments.recovered_partials = chain.len() as u64);
        let plugged = plugged(&chain);
        for link in chain {
            home.apply(&link, &plugged).await?;
        }
        let most = home.spare_segments_max();
        home.state.borrow_mut().table.limit_held(most);
        // A hole from before may be a summary of a segment that was used again.
        home.state.borrow_mut().holes.forget();
        home.free_emptied();
        Ok(home)
    }

    /// The partials from `place` on, up to the end of the chain.
    async fn chain(&self, mut place: u64, mut partial: u32) -> Result<Vec<Link>, HomeError> {
        let (epoch, mut seq) = {
            let state = self.state.borrow();
            (state.epoch, state.seq)
        };
        let mut chain: Vec<Link> = Vec::new();
        let mut content = self.content_from(place).await;
        loop {
            let expected = |summary: &Summary| {
                summary.store == self.store
                    && (summary.epoch, summary.seq, summary.partial) == (epoch, seq, partial)
                    && self.media.holds(summary.next)
            };
            let Some(summary) = content.partial(place - content.first, expected) else {
                // A summary that cannot be read may be valid.
                match content.error.take() {
                    Some(error) if content.unreadable.contains(&place) => return Err(error),
                    _ => break,
                }
            };
            let damaged = content.damaged(&summary);
            let (here, next) = (self.media.segment_of(place), summary.next);
            chain.push(Link { summary, damaged });
            seq += 1;
            let moved = self.media.segment_of(next) != here;
            // A chain enters each segment only once.
            let known = |link: &Link| {
                self.media.segment_of(link.summary.place) == self.media.segment_of(next)
            };
            if moved && chain.iter().any(known) || !moved && next <= place {
                break;
            }
            (place, partial) = (next, if moved { 0 } else { partial + 1 });
            if moved {
                content = self.content_from(place).await;
            }
        }
        Ok(chain)
    }

    /// Repeats the changes of a partial.
    async fn apply(&self, link: &Link, plugged: &Plugged) -> Result<(), HomeError> {
        let Link { summary, damaged } = link;
        let segment = self.media.segment_of(summary.place);
        let mut blocks = Vec::new();
        if summary.has_indirect() {
            // The commits are those of earlier openings: the first release covers them.
            self.state.borrow_mut().table.hold_for_log(segment, Lsn(0));
        }
        for entry in &summary.entries {
            if let SummaryKind::Hole { first, count } = entry.kind {
                self.state.borrow_mut().table.add_holes(segment, 1);
                let end = (first + count).min(self.size_blocks);
                self.set_holes(first.min(end)..end, entry.version).await?;
            }
        }
        // A pass may carry a note of a block that it moves, too. Then the later entry counts.
        for entry in &summary.entries {
            if let SummaryKind::Overwritten { block, place, crc } = entry.kind {
                self.state.borrow_mut().table.add_notes(segment, 1);
                let version = entry.version;
                if block < self.size_blocks
                    && self.media.holds(place)
                    && (version == summary.seq || self.is_moved(block, version).await?)
                {
                    let entry = MapEntry {
                        place,
                        version,
                        crc,
                    };
                    blocks.push((block, entry));
                }
            }
        }
        for (place, entry) in summary.placed(self.media.layout.block_size) {
            if let SummaryKind::Data { block, crc } = entry.kind
                && block < self.size_blocks
                && (entry.version == summary.seq
                    || !damaged.contains(&place)
                    || self.is_used_again(block, summary.seq, plugged).await?)
            {
                let version = entry.version;
                blocks.push((
                    block,
                    MapEntry {
                        place,
                        version,
                        crc,
                    },
                ));
            }
        }
        blocks.sort_by_key(|(block, _)| *block);
        self.set_blocks(&blocks).await?;
        for (place, entry) in summary.placed(self.media.layout.block_size) {
            if let SummaryKind::Page { level, index, crc } = entry.kind
                && u32::from(level) < self.levels
                && !damaged.contains(&place)
            {
                let version = entry.version;
                let entry = MapEntry {
                    place,
                    version,
                    crc,
                };
                self.apply_page((u32::from(level), index), entry).await?;
            }
        }
        Ok(())
    }

    /// True when a note of `version` can only say where the block was moved: the map has this version.
    async fn is_moved(&self, block: u64, version: u64) -> Result<bool, HomeError> {
        match self.entry(block).await {
            Ok(known) => Ok(known.is_placed() && known.version == version),
            Err(HomeError::MapPage { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// True when the segment where the map finds `block`, or the place there, is used again by the chain after partial
    /// `seq`.
    async fn is_used_again(
        &self,
        block: u64,
        seq: u64,
        plugged: &Plugged,
    ) -> Result<bool, HomeError> {
        let is_plugged = |place| plugged.get(&place).is_some_and(|last| *last > seq);
        match self.entry(block).await {
            Ok(known) => {
                Ok(known.is_placed()
                    && (!self.is_older(known.place, seq) || is_plugged(known.place)))
            }
            Err(HomeError::MapPage { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Notes that a written page equals the page in memory, so that it need not be written again. If they differ,
    /// because something was damaged, the page stays changed.
    async fn apply_page(&self, id: PageId, entry: MapEntry) -> Result<(), HomeError> {
        let page = match self.page(id).await {
            Ok(Found::Page(page)) => page,
            Ok(_) | Err(HomeError::MapPage { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        if crc32c(page.content.borrow().bytes()) == entry.crc {
            self.page_written(id, entry).await?;
        }
        Ok(())
    }
}
