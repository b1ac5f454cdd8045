//! The cache of committed record pages, up to a bound.

use crate::disk::Disk;
use crate::error::DiskError;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use tonearm_base::{BufPool, Slice};
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
}

impl Pages {
    /// A cache of `limit` pages of `block_size` bytes.
    pub fn new(pool: &BufPool, block_size: usize, limit: usize) -> Self {
        Self {
            cache: RefCell::default(),
            limit,
            version: Cell::new(0),
            zeroes: pool.alloc_zeroed(block_size).share(),
        }
    }

    pub fn version(&self) -> u64 {
        self.version.get()
    }

    /// Takes the pages that a unit has committed.
    pub fn commit(&self, pages: impl Iterator<Item = (u64, Slice)>) {
        self.version.set(self.version.get() + 1);
        for (page, data) in pages {
            self.insert(page, data);
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

    /// Page `page` of the area, as committed.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    pub async fn load(&self, disk: &Disk, page: u64) -> Result<Slice, DiskError> {
        loop {
            if let Some(known) = self.cache.borrow_mut().pages.get_mut(&page) {
                known.used = true;
                return Ok(known.data.clone());
            }
            let version = self.version();
            let home = disk.area_home(page);
            let read = disk.engine().read(home, 1).await?;
            let data = match read.into_iter().next() {
                // The data is charged to the memory of the log. The copy is charged to this cache.
                Some(Piece::Data(data)) if data.has_lease() => disk.pool().copy_of(&data).share(),
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
