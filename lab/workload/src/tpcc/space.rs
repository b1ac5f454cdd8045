//! The page space of the database, and how tables and indexes get pages of it.
//!
//! The loading puts each object into a region of its own, one after the other. An object that grows gets extents at
//! the end of the space, in the order in which objects ask.

/// All pages.
pub(super) struct Space {
    next: u64,
    extent: u64,
    /// The first page of each region or extent, and the object that has it.
    owners: Vec<(u64, &'static str)>,
}

impl Space {
    pub fn new(extent: u32) -> Self {
        Self {
            next: 0,
            extent: extent.into(),
            owners: Vec::new(),
        }
    }

    /// The object that has this page, if one has it.
    pub fn owner(&self, page: u64) -> Option<&'static str> {
        let index = self.owners.partition_point(|(first, _)| *first <= page);
        let (_, owner) = self.owners.get(index.checked_sub(1)?)?;
        (page < self.next).then_some(owner)
    }

    /// Gives `pages` pages to `owner`, rounded up to whole extents.
    fn give(&mut self, owner: &'static str, pages: u64) -> u64 {
        let first = self.next;
        self.next += pages.next_multiple_of(self.extent);
        self.owners.push((first, owner));
        first
    }

    /// The page after the last extent.
    pub fn end(&self) -> u64 {
        self.next
    }
}

/// The pages of one object.
pub(super) struct Extents {
    owner: &'static str,
    /// The next page of the last extent, and its end.
    next: u64,
    end: u64,
    /// Pages that were in use.
    released: Vec<u64>,
    used: u64,
}

impl Extents {
    /// A region of `pages` pages, of which the first is returned, rounded up to whole extents.
    pub fn load(space: &mut Space, owner: &'static str, pages: u64) -> (Self, u64) {
        let first = space.give(owner, pages);
        let extents = Self {
            owner,
            next: first + pages,
            end: space.next,
            released: Vec::new(),
            used: pages,
        };
        (extents, first)
    }

    pub fn allocate(&mut self, space: &mut Space) -> u64 {
        self.used += 1;
        if let Some(page) = self.released.pop() {
            return page;
        }
        if self.next == self.end {
            self.next = space.give(self.owner, space.extent);
            self.end = space.next;
        }
        self.next += 1;
        self.next - 1
    }

    pub fn release(&mut self, page: u64) {
        self.used -= 1;
        self.released.push(page);
    }

    /// Pages in use.
    pub fn used(&self) -> u64 {
        self.used
    }
}
