//! Recovery's decision table: what the state of the next expected record means.
//!
//! Two cases are easy to get wrong:
//!
//! - **Torn tail** (`TornTail`): with a volatile cache, records younger than the last flush may be there with
//!   holes before them. The longest gap-free prefix is kept. No durable record can lie after a hole, because a
//!   flush covers everything that was written before it.
//! - **Discarded records** (`AbandonedCommit`, and the epoch rule in `replay`): records that a recovery cuts off stay
//!   on the medium. Records beyond the log end that the superblock names count only if they carry this epoch, and each
//!   record names the place and epoch of its predecessor, so discarded records are never taken for live ones.

/// What was found where the next record was expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sight {
    /// A record with valid header and payload, linked to the record before it.
    Whole(Join),
    /// A header without its payload, or nothing.
    Missing,
    /// The device could not read the place.
    Unreadable,
}

/// How a whole record follows the record before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Join {
    /// It begins with a new commit, or has no entries, and no commit is open.
    Fresh,
    /// It continues the commit that is open.
    Continues,
    /// It begins a new commit while one is open, and is the first record of a later epoch.
    NewEpoch,
    /// Neither: it continues a commit that is not open, or begins one inside an open commit of its own epoch.
    Breaks,
}

/// Everything on which the decision depends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What was found at the place.
    pub sight: Sight,
    /// The superblock says that the record was durable when this epoch began.
    pub before_log_end: bool,
    /// A later record of this epoch says that the record was durable.
    pub proven: bool,
    /// Later records of this epoch are there.
    pub followed: bool,
}

/// The cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// A whole record: replay it.
    Replay,
    /// A whole record of a later epoch after a commit that an earlier recovery cut off: drop the part of that
    /// commit, replay the record.
    AbandonedCommit,
    /// No record, and nothing after it: the log ends here.
    End,
    /// No record, and none of the records after it proves that it was durable: the log ends here, and the records
    /// after it are dead.
    TornTail,
    /// No record, but the superblock says that it was durable: refuse.
    DamagedBeforeTail,
    /// No record, but a later one says that it was durable: refuse.
    DamagedProven,
    /// The place cannot be read, so the record may have been durable: refuse.
    Unreadable,
    /// A whole record that does not follow the one before it: refuse.
    BrokenCommit,
}

/// The case of `finding`. The compiler checks that every finding has one.
pub fn decide(finding: &Finding) -> Case {
    let Finding {
        sight,
        before_log_end,
        proven,
        followed,
    } = *finding;
    match (sight, before_log_end, proven, followed) {
        (Sight::Whole(Join::Fresh | Join::Continues), ..) => Case::Replay,
        (Sight::Whole(Join::NewEpoch), ..) => Case::AbandonedCommit,
        (Sight::Whole(Join::Breaks), ..) => Case::BrokenCommit,
        (Sight::Unreadable, ..) => Case::Unreadable,
        (Sight::Missing, true, _, _) => Case::DamagedBeforeTail,
        (Sight::Missing, false, true, _) => Case::DamagedProven,
        (Sight::Missing, false, false, true) => Case::TornTail,
        (Sight::Missing, false, false, false) => Case::End,
    }
}
