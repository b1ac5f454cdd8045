//! The cache of map pages, within a bound in bytes. The least recently used page is evicted first; changed pages stay
//! until they are written.
//!
//! Invariants:
//! 1. A page to which another reference exists, or that was changed, is not evicted. The writer writes changed pages
//!    when they are half of the bound, so that only referenced pages exceed it.
//! 2. The order of eviction depends on the calls alone.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tonearm_format::MapPage;

/// Level and number in the level.
pub(crate) type PageId = (u32, u64);

pub(crate) struct Page {
    pub content: RefCell<MapPage>,
    pub dirty: Cell<bool>,
}

struct Cached {
    page: Rc<Page>,
    used_at: u64,
}

/// See the module.
pub(crate) struct PageCache {
    pages: BTreeMap<PageId, Cached>,
    by_use: BTreeMap<u64, PageId>,
    dirty: BTreeSet<PageId>,
    clock: u64,
    pages_max: usize,
    page_bytes: usize,
}

impl PageCache {
    /// A cache of `bytes_max` bytes of pages of `page_bytes` bytes.
    pub fn new(bytes_max: usize, page_bytes: usize) -> Self {
        Self {
            pages: BTreeMap::new(),
            by_use: BTreeMap::new(),
            dirty: BTreeSet::new(),
            clock: 0,
            pages_max: (bytes_max / page_bytes).max(4),
            page_bytes,
        }
    }

    /// The page, now the most recently used one.
    pub fn get(&mut self, id: PageId) -> Option<Rc<Page>> {
        let cached = self.pages.get_mut(&id)?;
        // Changed pages cannot be evicted and are not in the order of use.
        if cached.used_at != self.clock && !cached.page.dirty.get() {
            self.by_use.remove(&cached.used_at);
            self.clock += 1;
            cached.used_at = self.clock;
            self.by_use.insert(self.clock, id);
        }
        Some(cached.page.clone())
    }

    /// Adds a page. A page that is there already stays.
    pub fn insert(&mut self, id: PageId, content: MapPage) -> Rc<Page> {
        if let Some(page) = self.get(id) {
            return page;
        }
        let page = Rc::new(Page {
            content: RefCell::new(content),
            dirty: Cell::new(false),
        });
        self.clock += 1;
        self.by_use.insert(self.clock, id);
        let cached = Cached {
            page: page.clone(),
            used_at: self.clock,
        };
        self.pages.insert(id, cached);
        self.evict();
        page
    }

    pub fn mark_dirty(&mut self, id: PageId, page: &Page) {
        if !page.dirty.replace(true) {
            self.dirty.insert(id);
            if let Some(cached) = self.pages.get(&id) {
                self.by_use.remove(&cached.used_at);
            }
        }
    }

    pub fn mark_clean(&mut self, id: PageId) {
        if !self.dirty.remove(&id) {
            return;
        }
        if let Some(cached) = self.pages.get_mut(&id) {
            cached.page.dirty.set(false);
            self.clock += 1;
            cached.used_at = self.clock;
            self.by_use.insert(self.clock, id);
        }
        self.evict();
    }

    pub fn remove(&mut self, id: PageId) -> Option<Rc<Page>> {
        let cached = self.pages.remove(&id)?;
        self.by_use.remove(&cached.used_at);
        self.dirty.remove(&id);
        Some(cached.page)
    }

    /// Changed pages of `level`, in their order.
    pub fn dirty_of(&self, level: u32) -> Vec<PageId> {
        self.dirty
            .range((level, 0)..=(level, u64::MAX))
            .copied()
            .collect()
    }

    pub fn dirty(&self) -> usize {
        self.dirty.len()
    }

    /// True when changed pages are to be written.
    pub fn is_pressed(&self) -> bool {
        self.dirty.len() * 2 > self.pages_max
    }

    /// Bytes of the pages held here.
    pub fn bytes(&self) -> usize {
        self.pages.len() * self.page_bytes
    }

    fn evict(&mut self) {
        while self.pages.len() > self.pages_max {
            let mut unchanged = self.by_use.values();
            let idle = unchanged.find(|id| Rc::strong_count(&self.pages[*id].page) == 1);
            match idle.copied() {
                Some(id) => {
                    self.remove(id);
                }
                None => return,
            }
        }
    }
}
