//! The buffer pool: frames for pages, reused by the clock rule.
//!
//! Invariants:
//! 1. A page is in one frame at most. While it is being read it has none, and others wait for it.
//! 2. A pinned or busy frame is not reused. Busy means that its content is being written.

use super::page::PageState;

/// Table entries of pages without a frame.
const ABSENT: u32 = u32::MAX;
const COMING: u32 = u32::MAX - 1;
const FRESH: u32 = u32::MAX - 2;

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// In this frame.
    Here(u32),
    /// It is being read.
    Coming,
    /// Nowhere; the caller brings it, and others wait. Fresh pages have never been written.
    Absent { fresh: bool },
}

/// A frame that can be reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victim {
    /// Its page has left it.
    Taken(u32),
    /// Its page must be written first.
    Dirty(u32),
    /// All are pinned or busy.
    None,
}

/// A place for a page.
#[derive(Clone, Copy, Default, Debug)]
pub struct Frame {
    pub page: u32,
    pub state: PageState,
    pub dirty: bool,
    pins: u16,
    busy: bool,
    /// Used since the hand passed.
    used: bool,
}

/// The pool.
pub struct Pool {
    frames: Vec<Frame>,
    capacity: usize,
    /// The frame of each page.
    table: Vec<u32>,
    hand: usize,
}

impl Pool {
    /// A pool of `capacity` frames for `pages` pages, of which those from `loaded` on are fresh.
    pub fn new(capacity: usize, pages: u64, loaded: u64) -> Self {
        let mut table = vec![ABSENT; pages as usize];
        table[(loaded.min(pages)) as usize..].fill(FRESH);
        Self {
            frames: Vec::with_capacity(capacity),
            capacity,
            table,
            hand: 0,
        }
    }

    /// The frame `index`.
    pub fn frame(&self, index: u32) -> Frame {
        self.frames[index as usize]
    }

    /// Looks for a page.
    #[inline]
    pub fn find(&mut self, page: u32) -> Found {
        let entry = &mut self.table[page as usize];
        match *entry {
            COMING => Found::Coming,
            ABSENT | FRESH => {
                let fresh = *entry == FRESH;
                *entry = COMING;
                Found::Absent { fresh }
            }
            frame => {
                self.frames[frame as usize].used = true;
                Found::Here(frame)
            }
        }
    }

    /// Puts a page that was coming into the frame `index`.
    pub fn install(&mut self, index: u32, page: u32, state: PageState) {
        self.table[page as usize] = index;
        self.frames[index as usize] = Frame {
            page,
            state,
            used: true,
            ..Frame::default()
        };
    }

    /// Keeps a page in its frame.
    pub fn pin(&mut self, index: u32) {
        self.frames[index as usize].pins += 1;
    }

    /// Ends one [`Pool::pin`].
    pub fn unpin(&mut self, index: u32) {
        self.frames[index as usize].pins -= 1;
    }

    /// Record `lsn` changes the page of a pinned frame.
    pub fn change(&mut self, index: u32, lsn: u64) {
        let frame = &mut self.frames[index as usize];
        frame.state = frame.state.changed(frame.page, lsn);
        frame.dirty = true;
    }

    /// A frame for another page. It is reserved for the caller.
    pub fn victim(&mut self) -> Victim {
        if self.frames.len() < self.capacity {
            self.frames.push(Frame {
                busy: true,
                ..Frame::default()
            });
            return Victim::Taken(self.frames.len() as u32 - 1);
        }
        for _ in 0..2 * self.capacity {
            let index = self.hand as u32;
            self.hand = (self.hand + 1) % self.capacity;
            let frame = &mut self.frames[index as usize];
            if frame.pins > 0 || frame.busy {
                continue;
            }
            if std::mem::take(&mut frame.used) {
                continue;
            }
            if frame.dirty {
                return Victim::Dirty(index);
            }
            self.take(index);
            return Victim::Taken(index);
        }
        Victim::None
    }

    /// Takes a frame whose page was written, if no transaction has used the frame meanwhile.
    pub fn take_written(&mut self, index: u32) -> bool {
        let Frame {
            pins,
            busy,
            dirty,
            used,
            ..
        } = self.frames[index as usize];
        let free = pins == 0 && !busy && !dirty && !used;
        if free {
            self.take(index);
        }
        free
    }

    fn take(&mut self, index: u32) {
        let frame = &mut self.frames[index as usize];
        frame.busy = true;
        self.table[frame.page as usize] = ABSENT;
    }

    /// The page's content as it is written now; `None` when it is clean, or being written already.
    pub fn begin_write(&mut self, index: u32) -> Option<(u32, PageState)> {
        let frame = &mut self.frames[index as usize];
        let begins = frame.dirty && !frame.busy;
        frame.busy |= begins;
        begins.then_some((frame.page, frame.state))
    }

    /// The content `state` is on the device. The page stays dirty when it was changed meanwhile.
    pub fn written(&mut self, index: u32, state: PageState) {
        let frame = &mut self.frames[index as usize];
        frame.busy = false;
        frame.dirty = frame.state != state;
    }

    /// The frames with dirty pages, in the order of the pages.
    pub fn dirty(&self) -> Vec<u32> {
        let all = self.frames.iter().zip(0..);
        let mut dirty: Vec<(u32, u32)> = all
            .filter(|(frame, _)| frame.dirty)
            .map(|(frame, index)| (frame.page, index))
            .collect();
        dirty.sort_unstable();
        dirty.into_iter().map(|(_, index)| index).collect()
    }
}
