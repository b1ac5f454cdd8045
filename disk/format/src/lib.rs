//! On-disk structures. Only this crate knows their bytes. All are little-endian, versioned and checksummed;
//! `docs/format/` has the byte tables.
//!
//! Decoders accept any bytes, never panic, and report why they refuse.

mod acl;
mod archive;
mod array;
mod error;
mod geometry;
mod home_checkpoint;
mod inode;
mod lists;
mod map_page;
mod parity;
mod record;
mod seal;
mod segments;
mod summary;
mod superblock;
mod table;
mod track_sheet;
mod tree;
mod volume;
mod volume_table;

pub use acl::Acl;
pub use archive::{
    ARCHIVE_HEADER_BYTES, ArchiveBase, ArchiveEntry, ArchiveHeader, ArchiveKind, ArchiveOpening,
    ArchivePart, ArchiveReader, ArchiveWriter, Words, chain_digest,
};
pub use array::{
    ARRAY_BYTES, ARRAY_MEMBERS_MAX, ArrayDescriptor, ArrayLevel, ArrayMember, ArrayMissing,
    STRIPE_MAX, array_offset,
};
pub use error::FormatError;
pub use geometry::{
    BLOCK_SIZE_MAX, BLOCK_SIZE_MIN, COUNTER_MAX, Geometry, HEADER_AREA_BYTES, LOG_SECTOR_MIN,
    SECTOR, SUPERBLOCK_SLOTS, SYSTEM_BLOCKS, VOLUMES_MAX, bytes_with_trailer, superblock_offset,
    trailer_offset,
};
pub use home_checkpoint::{HomeCheckpoint, PARTIAL_SEQ_MAX, SegmentEntry};
pub use inode::{
    DirEntry, ENTRY_NAME_MAX, FILE_BYTES_MAX, FileExtent, INO_MAX, INODE_BYTES, Inode, LINKS_MAX,
    RESERVED_PLACES, ROOT_INO, TARGET_CHUNK, TARGET_MAX, Time, Xattr, decode_orphan, item,
};
pub use lists::{BlockRecord, LIST_ID_LIMIT, LIST_RECORD_BYTES, ListRecord, RecordAt, Zones};
pub use map_page::{MAP_ENTRY_BYTES, MapEntry, MapPage, NUMBER_MAX, map_entries};
pub use parity::{PARITY_EXTENTS_MAX, ParityExtent, ParityRecord};
pub use record::{
    ENTRY_BYTES, Entry, EntryKind, RECORD_FIXED_BYTES, RecordHeader, Slots, escape_payload,
    record_fits, run_slots, unescape_payload,
};
pub use segments::{
    SEGMENT_BLOCKS_MIN, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENT_ENTRY_BYTES, SegmentLayout,
    map_levels, map_pages, segments_for, segments_reserved,
};
pub use summary::{SUMMARY_ENTRY_BYTES, Summary, SummaryEntry, SummaryKind, summary_blocks};
pub use superblock::{
    HeadKind, LOG_TRACKS_MIN, Layout, LogState, MEMBERS_MAX, MemberEntry, PATH_MAX, Placement,
    Roles, State, Superblock, TRACK_BYTES_MAX, TRACK_OVERHEAD_SECTORS,
};
pub use table::{HOLE, LOST, TableSlot, entry_of_crc, slot_entries};
pub use track_sheet::{SHEET_BYTES_MAX, SheetRun, SkipAxis, SkipTable, TrackSheet, sheet_offsets};
pub use tree::{
    Key, TREE_LEVELS_MAX, TREE_OWNER_WORDS, TreeFreePage, TreeHeader, TreeNode, child_value,
    max_value,
};
pub use volume::{EXTENTS_MAX, Extent, NAME_MAX, VolumeEntry, VolumeKind};
pub use volume_table::{VolumeFault, volume_faults};

/// Version of all on-disk structures. Another version is refused. It changes with the format until the first release.
pub const FORMAT_VERSION: u32 = 8;

/// Identity of a store or member.
pub type Uuid = [u8; 16];

#[cfg(test)]
mod archive_test;
#[cfg(test)]
mod array_test;
#[cfg(test)]
mod format_test;
#[cfg(test)]
mod lists_test;
#[cfg(test)]
mod parity_test;
#[cfg(test)]
mod segments_test;
#[cfg(test)]
mod track_sheet_test;
#[cfg(test)]
mod tree_test;
#[cfg(test)]
mod volume_table_test;
