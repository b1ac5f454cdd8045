//! Pages of metadata: the cache of committed ones, up to a bound, and the changes that a recovery unit makes when it ends.

use crate::error::DiskError;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use tonearm_base::{Buf, BufPool, Slice};
use tonearm_engine::{CommitChange, Engine};
use tonearm_layout::Piece;

struct Page {
    data: Slice,
    /// Used since the hand has passed it.
    used: bool,
}

#[derive(Default)]
struct Cache {
    pages: BTreeMap<u64, Page>,
    /// Where the next search for a page to evict starts (CLOCK).
    hand: u64,
    /// While this is not 0, no page is evicted. So the pages that a unit has loaded for its end stay.
    holds: u64,
}

/// Committed pages. Other pages are read from the engine, which has the newest version.
pub(crate) struct Pages {
    cache: RefCell<Cache>,
    limit: usize,
    /// Counts the commits that have changed a page.
    version: Cell<u64>,
    zeroes: Slice,
    pool: BufPool,
}

impl Pages {
    /// A cache of `limit` pages of `block_size` bytes.
    pub fn new(pool: &BufPool, block_size: usize, limit: usize) -> Self {
        Self {
            cache: RefCell::default(),
            limit,
            version: Cell::new(0),
            zeroes: pool.alloc_zeroed(block_size).share(),
            pool: pool.clone(),
        }
    }

    pub fn version(&self) -> u64 {
        self.version.get()
    }

    /// Takes the pages that a unit has committed. The cache gets copies, so that the committed memory is freed when the
    /// blocks are at home.
    pub fn commit(&self, pages: Vec<(u64, Slice)>) {
        self.version.set(self.version.get() + 1);
        for (page, data) in pages {
            self.insert(page, self.pool.copy_of(&data).share());
        }
    }

    /// Keeps everything until [`Pages::release`].
    pub fn hold(&self) {
        self.cache.borrow_mut().holds += 1;
    }

    pub fn release(&self) {
        let mut cache = self.cache.borrow_mut();
        cache.holds -= 1;
        cache.shrink(self.limit);
    }

    /// Page `page`, as committed, if it is in memory.
    pub fn known(&self, page: u64) -> Option<Slice> {
        let mut cache = self.cache.borrow_mut();
        let known = cache.pages.get_mut(&page)?;
        known.used = true;
        Some(known.data.clone())
    }

    /// Page `page`, which is home block `home`, as committed.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    pub async fn load(&self, engine: &Engine, page: u64, home: u64) -> Result<Slice, DiskError> {
        loop {
            if let Some(known) = self.known(page) {
                return Ok(known);
            }
            let version = self.version();
            let read = engine.read(home, 1).await?;
            let data = match read.into_iter().next() {
                // The data is charged to the memory of the log. The copy is charged to this cache.
                Some(Piece::Data(data)) if data.has_lease() => self.pool.copy_of(&data).share(),
                Some(Piece::Data(data)) => data,
                _ => self.zeroes.clone(),
            };
            // After a commit the page that was read may be old.
            if self.version() == version {
                self.insert(page, data.clone());
                return Ok(data);
            }
        }
    }

    fn insert(&self, page: u64, data: Slice) {
        let mut cache = self.cache.borrow_mut();
        let used = true;
        cache.pages.insert(page, Page { data, used });
        cache.shrink(self.limit);
    }
}

/// Pages that an operation has seen, and copies of those that it has changed.
pub(crate) struct Edits {
    /// Version of the pages from which this was computed.
    version: u64,
    seen: BTreeMap<u64, Slice>,
    changed: BTreeMap<u64, Buf>,
}

impl Edits {
    /// Nothing is changed in the present pages.
    pub fn new(pages: &Pages) -> Self {
        Self {
            version: pages.version(),
            seen: BTreeMap::new(),
            changed: BTreeMap::new(),
        }
    }

    /// False when others have committed since.
    pub fn is_current(&self, pages: &Pages) -> bool {
        pages.version() == self.version
    }

    /// A page with the changes, if it was seen before.
    pub fn get(&self, page: u64) -> Option<&[u8]> {
        match self.changed.get(&page) {
            Some(changed) => Some(changed),
            None => self.seen.get(&page).map(|seen| &seen[..]),
        }
    }

    /// Takes a committed page.
    pub fn see(&mut self, page: u64, data: Slice) {
        self.seen.insert(page, data);
    }

    /// A page, to be changed.
    ///
    /// # Panics
    /// When it was not seen before.
    pub fn change(&mut self, page: u64, pool: &BufPool) -> &mut [u8] {
        let seen = &self.seen;
        self.changed.entry(page).or_insert_with(|| {
            let old = seen.get(&page).expect("the page was seen before");
            pool.copy_of(old)
        })
    }

    /// Most blocks that [`Edits::finish`] adds.
    pub fn len(&self) -> u64 {
        self.changed.len() as u64
    }

    /// Adds the changes of the pages, whose homes `home_of` tells. Gives what [`Pages::commit`] takes after the commit.
    pub fn finish(
        self,
        home_of: impl Fn(u64) -> u64,
        changes: &mut Vec<CommitChange>,
    ) -> Vec<(u64, Slice)> {
        let mut pages = Vec::with_capacity(self.changed.len());
        for (page, new) in self.changed {
            if self.seen[&page][..] == new[..] {
                continue;
            }
            let (first, data) = (home_of(page), new.share());
            pages.push((page, data.clone()));
            changes.push(CommitChange::Write { first, data });
        }
        pages
    }
}

impl Cache {
    fn shrink(&mut self, limit: usize) {
        while self.holds == 0 && self.pages.len() > limit {
            let next = self.pages.range_mut(self.hand..).next();
            let Some((number, page)) = next else {
                self.hand = 0;
                continue;
            };
            let number = *number;
            self.hand = number + 1;
            if !std::mem::take(&mut page.used) {
                self.pages.remove(&number);
            }
        }
    }
}
