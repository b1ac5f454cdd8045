//! What a run has met: a campaign that never meets something proves nothing about it.

/// Something that happens in runs with recovery units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Met {
    /// A unit that wrote a file has ended.
    FileWrite,
    /// A file was made.
    Creation,
    /// A file was deleted.
    Deletion,
    /// A file was renamed.
    Rename,
    /// A unit has ended that did not fit in memory.
    Spill,
    /// Space for what does not fit in memory was given back, since the store was full.
    SpaceBack,
    /// A unit has ended that set the size of a file which others had changed meanwhile.
    SharedResize,
    /// A unit could not end because of others.
    Conflict,
    /// A list was made.
    List,
    /// A list was deleted.
    ListDeletion,
    /// A block was put on a list.
    Insert,
    /// A block was taken off its list.
    Removal,
    /// A unit that wrote a block on a list has ended.
    BlockWrite,
}

impl Met {
    /// All of them.
    pub const ALL: [Met; 13] = [
        Met::FileWrite,
        Met::Creation,
        Met::Deletion,
        Met::Rename,
        Met::Spill,
        Met::SpaceBack,
        Met::SharedResize,
        Met::Conflict,
        Met::List,
        Met::ListDeletion,
        Met::Insert,
        Met::Removal,
        Met::BlockWrite,
    ];
}

/// How often each of [`Met::ALL`] happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Met::ALL.len()]);

impl Counts {
    /// It happened `times` more.
    pub fn met(&mut self, what: Met, times: u64) {
        self.0[what as usize] += times;
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Counts) {
        for (own, more) in self.0.iter_mut().zip(other.0) {
            *own += more;
        }
    }

    /// Each with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Met, u64)> {
        Met::ALL.into_iter().zip(self.0)
    }
}
