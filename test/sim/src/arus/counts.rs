//! Counts of events in runs with recovery units. They show whether a campaign has tested each kind of event.

/// An event in runs with recovery units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Met {
    /// A unit that wrote a file has ended.
    FileWrite,
    /// A file was created.
    Creation,
    /// A file was deleted.
    Deletion,
    /// A file was renamed.
    Rename,
    /// A unit ended that did not fit in memory.
    Spill,
    /// A full store released space that was reserved for units that do not fit in memory.
    SpaceBack,
    /// A unit ended that set the size of a file which other clients had changed meanwhile.
    SharedResize,
    /// A unit could not end because of another client's commit.
    Conflict,
    /// A list was created.
    List,
    /// A list was deleted.
    ListDeletion,
    /// A block was inserted into a list.
    Insert,
    /// A block was removed from its list.
    Removal,
    /// A unit that wrote a block on a list ended.
    BlockWrite,
}

impl Met {
    /// All events.
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

/// The number of occurrences of each of [`Met::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Met::ALL.len()]);

impl Counts {
    /// Adds `times` occurrences.
    pub fn met(&mut self, what: Met, times: u64) {
        self.0[what as usize] += times;
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Counts) {
        for (own, more) in self.0.iter_mut().zip(other.0) {
            *own += more;
        }
    }

    /// Each event with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Met, u64)> {
        Met::ALL.into_iter().zip(self.0)
    }
}
