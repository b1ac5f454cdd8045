//! Recovery's decision table: what the state of the next expected record means.
//!
//! Every finding meets exactly one row (a test tries them all). Two traps are named here:
//!
//! - **Ragged tail** (`RaggedTail`): on a volatile cache, records younger than the last flush can be there
//!   with holes before them. The longest gap-free prefix is kept; nothing durable can lie behind a hole,
//!   because a flush covers everything that was written before it.
//! - **Discarded records** (`AbandonedCommit`, and the epoch rule in `replay`): what a recovery cuts off
//!   stays on the medium. Records beyond the tail that the superblock names count only if they carry this
//!   epoch, and each record names its predecessor's place and epoch, so those are never taken for live ones.

/// What was found where the next record was expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sight {
    /// Header and payload are valid, the chain holds.
    Whole,
    /// A header without its payload, or nothing.
    Missing,
    /// The device could not read the place.
    Unreadable,
}

/// How a whole record goes on with the record before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Join {
    /// It begins with a new commit (or has no entries), and no commit is open.
    Fresh,
    /// It continues the commit that is open.
    Continues,
    /// It begins a new commit while one is open, and is the first of a later epoch.
    NewEpoch,
    /// Neither: it continues nothing, or breaks into an open commit of its own epoch.
    Breaks,
}

/// All that the decision depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The place itself.
    pub sight: Sight,
    /// The join, for a whole record; `Fresh` otherwise.
    pub join: Join,
    /// The record is one that the superblock says was durable when this epoch began.
    pub before_tail: bool,
    /// A later record of this epoch says that this one was durable.
    pub proven: bool,
    /// Later records of this epoch are there.
    pub followed: bool,
}

/// The rows of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// A whole record: replay it.
    Replay,
    /// A whole record of a later epoch behind a commit that an earlier recovery cut off: drop that
    /// commit's part, replay the record.
    AbandonedCommit,
    /// No record, and nothing behind it: the log ends here.
    End,
    /// No record, some behind it, none of which proves it durable: the log ends here, they are dead.
    RaggedTail,
    /// No record, but the superblock says it was durable: refuse.
    DamagedBeforeTail,
    /// No record, but a later one says it was durable: refuse.
    DamagedProven,
    /// The place cannot be read, so nobody knows: refuse.
    Unreadable,
    /// A whole record that does not fit the one before it: refuse.
    BrokenCommit,
}

type Row = (Case, fn(&Finding) -> bool);

pub(crate) const TABLE: [Row; 8] = [
    (Case::Replay, |f| {
        f.sight == Sight::Whole && matches!(f.join, Join::Fresh | Join::Continues)
    }),
    (Case::AbandonedCommit, |f| {
        f.sight == Sight::Whole && f.join == Join::NewEpoch
    }),
    (Case::BrokenCommit, |f| {
        f.sight == Sight::Whole && f.join == Join::Breaks
    }),
    (Case::Unreadable, |f| f.sight == Sight::Unreadable),
    (Case::DamagedBeforeTail, |f| {
        f.sight == Sight::Missing && f.before_tail
    }),
    (Case::DamagedProven, |f| {
        f.sight == Sight::Missing && !f.before_tail && f.proven
    }),
    (Case::RaggedTail, |f| {
        f.sight == Sight::Missing && !f.before_tail && !f.proven && f.followed
    }),
    (Case::End, |f| {
        f.sight == Sight::Missing && !f.before_tail && !f.proven && !f.followed
    }),
];

/// The row that `finding` meets.
pub fn decide(finding: &Finding) -> Case {
    TABLE
        .iter()
        .find(|(_, meets)| meets(finding))
        .expect("the table is exhaustive")
        .0
}
