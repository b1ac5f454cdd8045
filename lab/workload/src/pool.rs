//! An LRU buffer pool that writes back: what reaches the disk of a stream of page accesses.
//!
//! A read of a page that is not in the pool reads it. A write makes the page dirty and reads nothing, because the
//! writer has read the page before, or replaces all of it. A dirty page is written when it is the least recently used
//! one and its place is needed.

use crate::access::{Access, Workload, WorkloadError};

/// No slot.
const NONE: u32 = u32::MAX;

/// What an access makes the pool do, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageIo {
    /// The dirty page that is written.
    pub write: Option<u64>,
    /// The page that is read.
    pub read: Option<u64>,
}

#[derive(Clone, Copy)]
struct Slot {
    page: u64,
    /// The next slot towards the most recently used one.
    newer: u32,
    /// The next slot towards the least recently used one.
    older: u32,
    dirty: bool,
}

/// The pool.
pub struct Pool {
    capacity: usize,
    slots: Vec<Slot>,
    /// The slot of each page.
    places: Vec<u32>,
    newest: u32,
    oldest: u32,
}

impl Pool {
    /// A pool of `capacity` pages, from 1 to 2^32 - 2. Values beyond these limits are moved to the nearest one.
    pub fn new(capacity: u64) -> Self {
        let capacity = capacity.clamp(1, u64::from(NONE) - 1) as usize;
        Self {
            capacity,
            slots: Vec::new(),
            places: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Accesses a page.
    #[inline]
    pub fn access(&mut self, page: u64, write: bool) -> PageIo {
        let index = page as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, NONE);
        }
        let place = self.places[index];
        if place != NONE {
            self.slots[place as usize].dirty |= write;
            if place != self.newest {
                self.unlink(place);
                self.link(place);
            }
            return PageIo::default();
        }
        let slot = Slot {
            page,
            newer: NONE,
            older: NONE,
            dirty: write,
        };
        let mut io = PageIo {
            read: (!write).then_some(page),
            write: None,
        };
        let place = if self.slots.len() < self.capacity {
            self.slots.push(slot);
            self.slots.len() as u32 - 1
        } else {
            let place = self.oldest;
            let old = self.slots[place as usize];
            io.write = old.dirty.then_some(old.page);
            self.places[old.page as usize] = NONE;
            self.unlink(place);
            self.slots[place as usize] = slot;
            place
        };
        self.places[index] = place;
        self.link(place);
        io
    }

    fn unlink(&mut self, place: u32) {
        let Slot { newer, older, .. } = self.slots[place as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }

    /// Makes it the most recently used one.
    fn link(&mut self, place: u32) {
        let slot = &mut self.slots[place as usize];
        slot.newer = NONE;
        slot.older = self.newest;
        match self.newest {
            NONE => self.oldest = place,
            newest => self.slots[newest as usize].newer = place,
        }
        self.newest = place;
    }
}

/// A workload behind a pool.
pub struct Pooled<W> {
    workload: W,
    pool: Pool,
    /// The read that follows a write.
    read: Option<Access>,
}

impl<W> Pooled<W> {
    /// `workload` behind `pool`.
    pub fn new(workload: W, pool: Pool) -> Self {
        Self {
            workload,
            pool,
            read: None,
        }
    }

    /// The workload.
    pub fn into_inner(self) -> W {
        self.workload
    }
}

impl<W: Workload> Workload for Pooled<W> {
    fn pages(&self) -> u64 {
        self.workload.pages()
    }

    /// Dirty pages that the pool still has at the end are not written.
    fn next_access(&mut self) -> Result<Option<Access>, WorkloadError> {
        if let Some(read) = self.read.take() {
            return Ok(Some(read));
        }
        while let Some(access) = self.workload.next_access()? {
            let io = self.pool.access(access.page, access.write);
            let at = access.at;
            let read = io.read.map(|page| Access {
                at,
                ..Access::read(page)
            });
            match io.write {
                Some(page) => {
                    self.read = read;
                    return Ok(Some(Access {
                        at,
                        ..Access::write(page)
                    }));
                }
                None if read.is_some() => return Ok(read),
                None => {}
            }
        }
        Ok(None)
    }
}
