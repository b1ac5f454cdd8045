//! The block map: a radix tree of pages. The leaves name the places of blocks, the other pages those of pages.
//!
//! Invariants:
//! 1. A page in memory is the newest version. A changed page stays in memory until it is written. The entry of a page
//!    that was never written is [`UNWRITTEN`], in memory alone.
//! 2. The segment table counts each place that an entry of the tree, or the root, names.
//! 3. Only a call that holds the writer's permit changes the tree. A reader that has waited for a page from the medium
//!    learns from `State::moved` that the page may be old.

use crate::error::HomeError;
use crate::segments::Segments;
use crate::segments::page_cache::{Page, PageId};
use crate::segments::reserve::PAGES_MAX;
use crate::segments::table::SegmentTable;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::crc32c;
use tonearm_format::{MapEntry, MapPage, NUMBER_MAX, SummaryKind};

/// The entry of a page that is in memory and has no place yet.
const UNWRITTEN: MapEntry = MapEntry {
    place: NUMBER_MAX - 1,
    version: 0,
    crc: 0,
};

/// What the tree has where a page could be.
pub(crate) enum Found {
    Page(Rc<Page>),
    /// No page: all blocks below are holes, since this version.
    Hole(u64),
    /// The page above was damaged when a block below it was written.
    Lost,
}

impl Segments {
    /// Blocks below one entry of a page of `level`.
    fn span(&self, level: u32) -> u64 {
        (self.fanout as u64).saturating_pow(level)
    }

    /// Blocks below page `id`, cut at the store's end.
    pub(crate) fn blocks_below(&self, (level, index): PageId) -> Range<u64> {
        let span = self.span(level + 1);
        let first = index.saturating_mul(span);
        first.min(self.size_blocks)..first.saturating_add(span).min(self.size_blocks)
    }

    /// Page `id`, from memory or the medium.
    pub(crate) async fn page(&self, id: PageId) -> Result<Found, HomeError> {
        let fanout = self.fanout as u64;
        loop {
            // The page below the lowest one on the way that is in memory.
            let (own, entry, moved) = {
                let mut state = self.state.borrow_mut();
                if let Some(page) = state.pages.get(id) {
                    return Ok(Found::Page(page));
                }
                let mut own = id;
                let entry = loop {
                    if own.0 + 1 == self.levels {
                        break state.root;
                    }
                    let above = (own.0 + 1, own.1 / fanout);
                    if let Some(page) = state.pages.get(above) {
                        break page.content.borrow().get((own.1 % fanout) as usize);
                    }
                    own = above;
                };
                (own, entry, state.moved)
            };
            if entry.is_hole() {
                return Ok(Found::Hole(entry.version));
            }
            if entry.is_lost() {
                return Ok(Found::Lost);
            }
            let content = self.load_page(own, entry).await;
            let mut state = self.state.borrow_mut();
            // Meanwhile the writer may have made the next page on the way, which is only in memory. So the search begins anew.
            if state.moved == moved {
                state.pages.insert(own, content?);
            }
        }
    }

    /// The page at the place of `entry`, from the medium.
    pub(crate) async fn load_page(
        &self,
        id: PageId,
        entry: MapEntry,
    ) -> Result<MapPage, HomeError> {
        let damaged = |member: String, offset| {
            let blocks = self.blocks_below(id);
            HomeError::MapPage {
                first: blocks.start,
                end: blocks.end,
                member,
                offset,
            }
        };
        if !self.media.holds(entry.place) {
            return Err(damaged(self.media.name(0).to_string(), 0));
        }
        self.media.count(|stats| stats.table_loads += 1);
        let bytes = self.media.read(entry.place, 1).await?;
        let page = MapPage::decode(id.0, id.1, &bytes);
        match page {
            Ok(page) if crc32c(&bytes) == entry.crc => Ok(page),
            _ => {
                let (member, offset) = self.media.address(entry.place);
                Err(damaged(member, offset))
            }
        }
    }

    /// Page `id`, to be changed; a new one if there is none. In place of a damaged page there is a new one whose
    /// entries are all lost: reads of their blocks give errors, and a rebuild finds the blocks again.
    pub(crate) async fn page_to_change(&self, id: PageId) -> Result<Rc<Page>, HomeError> {
        let (level, index) = id;
        let fill = match self.page(id).await {
            Ok(Found::Page(page)) => {
                self.state.borrow_mut().pages.mark_dirty(id, &page);
                return Ok(page);
            }
            Ok(Found::Hole(version)) => MapEntry::hole(version),
            Ok(Found::Lost) => MapEntry::LOST,
            Err(HomeError::MapPage { .. }) => {
                self.media.count(|stats| stats.tables_lost += 1);
                MapEntry::LOST
            }
            Err(error) => return Err(error),
        };
        let page = MapPage::filled(self.media.layout.block_size, level, index, fill);
        let page = {
            let mut state = self.state.borrow_mut();
            let page = state.pages.insert(id, page);
            state.pages.mark_dirty(id, &page);
            page
        };
        let old = self.set_entry(id, UNWRITTEN).await?;
        if old.is_placed() && old != UNWRITTEN {
            // The damaged page.
            self.release_page(old.place);
        }
        Ok(page)
    }

    /// Makes `entry` the entry of page `id`. Returns the old entry.
    async fn set_entry(&self, id: PageId, entry: MapEntry) -> Result<MapEntry, HomeError> {
        let (level, index) = id;
        if level + 1 == self.levels {
            let mut state = self.state.borrow_mut();
            return Ok(std::mem::replace(&mut state.root, entry));
        }
        let fanout = self.fanout as u64;
        let parent = Box::pin(self.page_to_change((level + 1, index / fanout))).await?;
        let mut parent = parent.content.borrow_mut();
        let slot = (index % fanout) as usize;
        let old = parent.get(slot);
        parent.set(slot, entry);
        Ok(old)
    }

    /// The block at `place` is dead.
    fn release(&self, place: u64) {
        self.state
            .borrow_mut()
            .release(place, self.media.segment_of(place));
    }

    fn release_page(&self, place: u64) {
        let segment = self.media.segment_of(place);
        self.state.borrow_mut().table.release_page(segment);
    }

    pub(crate) async fn entry(&self, block: u64) -> Result<MapEntry, HomeError> {
        let fanout = self.fanout as u64;
        Ok(match self.page((0, block / fanout)).await? {
            Found::Page(page) => page.content.borrow().get((block % fanout) as usize),
            Found::Hole(version) => MapEntry::hole(version),
            Found::Lost => MapEntry::LOST,
        })
    }

    /// The entry that leads to page `id`.
    pub(crate) async fn entry_of_page(
        &self,
        (level, index): PageId,
    ) -> Result<MapEntry, HomeError> {
        if level + 1 >= self.levels {
            return Ok(self.state.borrow().root);
        }
        let fanout = self.fanout as u64;
        Ok(match self.page((level + 1, index / fanout)).await? {
            Found::Page(page) => page.content.borrow().get((index % fanout) as usize),
            _ => MapEntry::default(),
        })
    }

    /// Changes the entries of blocks in ascending order.
    pub(crate) async fn set_blocks(&self, blocks: &[(u64, MapEntry)]) -> Result<(), HomeError> {
        let fanout = self.fanout as u64;
        for run in blocks.chunk_by(|a, b| a.0 / fanout == b.0 / fanout) {
            let page = self.page_to_change((0, run[0].0 / fanout)).await?;
            let mut page = page.content.borrow_mut();
            let mut state = self.state.borrow_mut();
            for (block, entry) in run {
                let slot = (block % fanout) as usize;
                let old = page.get(slot);
                page.set(slot, *entry);
                self.count_move(&state.table, old, *entry);
                // What is overwritten in place leaves no space behind, so its segment keeps its count.
                if old.place == entry.place {
                    continue;
                }
                if old.is_placed() {
                    state.release(old.place, self.media.segment_of(old.place));
                }
                if entry.is_placed() {
                    state.holes.remove(entry.place);
                    let segment = self.media.segment_of(entry.place);
                    state.table.take(segment, entry.version);
                }
            }
        }
        Ok(())
    }

    /// Counts a block that has changed from being appended to being overwritten in place, or back. A copy of the cleaner
    /// keeps its version.
    fn count_move(&self, table: &SegmentTable, old: MapEntry, new: MapEntry) {
        if !old.is_placed() || !new.is_placed() || old.version == new.version {
            return;
        }
        let was_overwritten = table.is_rewritten(self.media.segment_of(old.place), old.version);
        let is_overwritten = old.place == new.place;
        if was_overwritten != is_overwritten {
            self.media.count(|stats| {
                if is_overwritten {
                    stats.segments.cooled_blocks += 1;
                } else {
                    stats.segments.heated_blocks += 1;
                }
            });
        }
    }

    /// Makes blocks holes of `version`. Blocks that are holes already keep their version. Subtrees without blocks stay
    /// unchanged, and subtrees within the range are dropped as a whole.
    pub(crate) async fn set_holes(&self, range: Range<u64>, version: u64) -> Result<(), HomeError> {
        let top = (self.levels - 1, 0);
        if range == (0..self.size_blocks) {
            // Nothing leads to the pages from here on, while they are removed one by one. The same holds below.
            let root =
                std::mem::replace(&mut self.state.borrow_mut().root, MapEntry::hole(version));
            return self.drop_below(top, root).await;
        }
        let mut work = vec![top];
        while let Some(id) = work.pop() {
            let below = self.blocks_below(id);
            let part = range.start.max(below.start)..range.end.min(below.end);
            if part.is_empty() {
                continue;
            }
            let known = match self.page(id).await {
                Ok(Found::Hole(_)) => continue,
                Ok(Found::Page(page)) => Some(page),
                _ => None,
            };
            let is_hole = |slot| {
                known
                    .as_ref()
                    .is_some_and(|page| page.content.borrow().get(slot).is_hole())
            };
            let (level, index) = id;
            let span = self.span(level);
            let base = index * self.fanout as u64;
            for child in part.start / span..part.end.div_ceil(span) {
                let slot = (child - base) as usize;
                if is_hole(slot) {
                    continue;
                }
                let page = self.page_to_change(id).await?;
                let entry = page.content.borrow().get(slot);
                let end = ((child + 1) * span).min(self.size_blocks);
                if level > 0 && (child * span < part.start || end > part.end) {
                    work.push((level - 1, child));
                    continue;
                }
                page.content.borrow_mut().set(slot, MapEntry::hole(version));
                match level {
                    0 if entry.is_placed() => self.release(entry.place),
                    0 => {}
                    _ => self.drop_below((level - 1, child), entry).await?,
                }
            }
        }
        Ok(())
    }

    /// Removes page `id` of `entry` and everything below it. Each page below is read once, because the segment table
    /// must no longer count the places that it names.
    async fn drop_below(&self, id: PageId, entry: MapEntry) -> Result<(), HomeError> {
        let mut work = vec![(id, entry)];
        while let Some((id, entry)) = work.pop() {
            if entry.is_hole() || entry.is_lost() {
                continue;
            }
            let cached = {
                let mut state = self.state.borrow_mut();
                state.moved += 1;
                state.pages.remove(id)
            };
            if entry != UNWRITTEN {
                self.release_page(entry.place);
            }
            let loaded = match &cached {
                Some(_) => None,
                // The blocks below a damaged page stay counted, so their segments are not freed before a rebuild.
                None => match self.load_page(id, entry).await {
                    Err(HomeError::MapPage { .. }) => continue,
                    other => Some(other?),
                },
            };
            let visit = |page: &MapPage, work: &mut Vec<(PageId, MapEntry)>| {
                for slot in 0..self.fanout {
                    let entry = page.get(slot);
                    if id.0 > 0 {
                        work.push(((id.0 - 1, id.1 * self.fanout as u64 + slot as u64), entry));
                    } else if entry.is_placed() {
                        self.release(entry.place);
                    }
                }
            };
            match (&cached, &loaded) {
                (Some(page), _) => visit(&page.content.borrow(), &mut work),
                (None, Some(page)) => visit(page, &mut work),
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Writes the changed pages of the lowest levels until few are left.
    pub(crate) async fn relieve_pages(&self) -> Result<(), HomeError> {
        for level in 0..self.levels {
            if !self.state.borrow().pages.is_pressed() {
                return Ok(());
            }
            self.write_pages_of(level).await?;
        }
        Ok(())
    }

    /// Writes all changed pages, from the leaves up, so that the root leads to all of them.
    pub(crate) async fn write_pages(&self) -> Result<(), HomeError> {
        for level in 0..self.levels {
            self.write_pages_of(level).await?;
        }
        Ok(())
    }

    /// Writes the changed pages of `level`; those below it have been written.
    pub(crate) async fn write_pages_of(&self, level: u32) -> Result<(), HomeError> {
        let ids = self.state.borrow().pages.dirty_of(level);
        self.write_page_list(&ids).await
    }

    /// Writes changed pages of one level.
    pub(crate) async fn write_page_list(&self, ids: &[PageId]) -> Result<(), HomeError> {
        // As many at a time as a few device writes take.
        for ids in ids.chunks(PAGES_MAX as usize) {
            let mut items = Vec::with_capacity(ids.len());
            for id in ids {
                let page = self.state.borrow_mut().pages.get(*id);
                let page = page.expect("a changed page is in memory");
                let bytes = self.media.pool.copy_of(page.content.borrow().bytes());
                let kind = SummaryKind::Page {
                    level: id.0 as u8,
                    index: id.1,
                    crc: crc32c(&bytes),
                };
                items.push(crate::segments::partial::Item {
                    version: None,
                    kind,
                    data: Some(bytes.share()),
                });
            }
            self.media
                .count(|stats| stats.table_writes += items.len() as u64);
            let placed = self.append(items).await?;
            for (id, entry) in ids.iter().zip(placed) {
                self.page_written(*id, entry).await?;
            }
        }
        Ok(())
    }

    /// Notes that page `id`, as it is in memory, was written to the place of `entry`.
    pub(crate) async fn page_written(&self, id: PageId, entry: MapEntry) -> Result<(), HomeError> {
        let old = self.set_entry(id, entry).await?;
        if old.is_placed() && old != UNWRITTEN {
            self.release_page(old.place);
        }
        let mut state = self.state.borrow_mut();
        let segment = self.media.segment_of(entry.place);
        state.table.take(segment, entry.version);
        state.moved += 1;
        state.pages.mark_clean(id);
        Ok(())
    }
}
