//! Pages of metadata: the cache of committed ones, up to a bound, and the changes that a recovery unit makes when it ends.

use crate::error::DiskError;
use crate::map;
use crate::state::SharedVolume;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
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
    /// [`Edits`] that live. While there are some, no page is evicted.
    holds: u64,
}

/// Committed pages of one of the disk's own volumes. Those that are not in memory are read from the engine, which has the
/// newest version.
pub(crate) struct Pages {
    engine: Engine,
    /// The volume, once there is one.
    volume: RefCell<Option<SharedVolume>>,
    cache: RefCell<Cache>,
    limit: usize,
    /// Counts the commits that have changed a page.
    version: Cell<u64>,
    zeroes: Slice,
    pool: BufPool,
}

impl Pages {
    /// Pages of `volume`, of which `limit` are cached.
    pub fn new(
        engine: &Engine,
        pool: &BufPool,
        limit: usize,
        volume: Option<SharedVolume>,
    ) -> Self {
        Self {
            engine: engine.clone(),
            volume: RefCell::new(volume),
            cache: RefCell::default(),
            limit,
            version: Cell::new(0),
            zeroes: pool.alloc_zeroed(engine.block_size()).share(),
            pool: pool.clone(),
        }
    }

    pub fn volume(&self) -> Option<SharedVolume> {
        self.volume.borrow().clone()
    }

    /// Sets the volume, which was made or enlarged.
    pub fn set_volume(&self, volume: SharedVolume) {
        *self.volume.borrow_mut() = Some(volume);
    }

    /// Blocks of the volume.
    pub fn blocks(&self) -> u64 {
        let volume = self.volume.borrow();
        let size = volume
            .as_ref()
            .map(|volume| volume.borrow().entry.size_bytes);
        size.unwrap_or(0) / self.engine.block_size() as u64
    }

    /// Home of a block, which the volume must have.
    pub fn home(&self, block: u64) -> u64 {
        let volume = self.volume.borrow();
        let volume = volume.as_ref().expect("there is a volume").borrow();
        map::home(&volume.entry.extents, block)
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

    /// Page `page`, as committed, if it is in memory.
    pub fn known(&self, page: u64) -> Option<Slice> {
        let mut cache = self.cache.borrow_mut();
        let known = cache.pages.get_mut(&page)?;
        known.used = true;
        Some(known.data.clone())
    }

    /// Page `page`, which the volume must have, as committed.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    pub async fn load(&self, page: u64) -> Result<Slice, DiskError> {
        loop {
            if let Some(known) = self.known(page) {
                return Ok(known);
            }
            let version = self.version();
            let read = self.engine.read(self.home(page), 1).await?;
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

/// Pages that an operation has seen, and copies of those that it has changed. While it lives, no page is evicted, so that an
/// operation which runs again when a page was missing comes to an end.
pub(crate) struct Edits {
    pages: Rc<Pages>,
    /// Version of the pages from which this was computed.
    version: u64,
    seen: BTreeMap<u64, Slice>,
    changed: BTreeMap<u64, Buf>,
}

impl Edits {
    /// Nothing is changed in the present pages.
    pub fn new(pages: &Rc<Pages>) -> Self {
        pages.cache.borrow_mut().holds += 1;
        Self {
            pages: pages.clone(),
            version: pages.version(),
            seen: BTreeMap::new(),
            changed: BTreeMap::new(),
        }
    }

    /// False when others have committed since.
    pub fn is_current(&self) -> bool {
        self.pages.version() == self.version
    }

    /// The committed pages.
    pub fn pages(&self) -> &Pages {
        &self.pages
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
    pub fn change(&mut self, page: u64) -> &mut [u8] {
        let (seen, pool) = (&self.seen, &self.pages.pool);
        self.changed.entry(page).or_insert_with(|| {
            let old = seen.get(&page).expect("the page was seen before");
            pool.copy_of(old)
        })
    }

    /// Most blocks that [`Edits::finish`] adds.
    pub fn len(&self) -> u64 {
        self.changed.len() as u64
    }

    /// Adds the changes of the pages. The commit must follow without an await, and then [`Pages::commit`] of the result.
    pub fn finish(mut self, changes: &mut Vec<CommitChange>) -> Vec<(u64, Slice)> {
        let mut pages = Vec::with_capacity(self.changed.len());
        for (page, new) in std::mem::take(&mut self.changed) {
            if self.seen[&page][..] == new[..] {
                continue;
            }
            let (first, data) = (self.pages.home(page), new.share());
            pages.push((page, data.clone()));
            changes.push(CommitChange::Write { first, data });
        }
        pages
    }
}

impl Drop for Edits {
    fn drop(&mut self) {
        let mut cache = self.pages.cache.borrow_mut();
        cache.holds -= 1;
        cache.shrink(self.pages.limit);
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
