//! What a layout needs of the data members of a new store.

use tonearm_format::Layout;

/// The units of space in which a layout takes the data members.
pub(crate) struct Units {
    pub layout: Layout,
    /// Bytes of one.
    pub bytes: u64,
    /// How many the store needs.
    pub wanted: u64,
    /// Bytes before the first one of the first member.
    pub before_first: u64,
}
