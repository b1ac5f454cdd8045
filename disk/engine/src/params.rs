//! Parameters of a new store.

use tonearm_format::{HeadKind, Roles, SkipTable, Uuid};
use tonearm_head::{Deltas, TrackMap};
use tonearm_layout::layouts::HomeParams;

/// Parameters of a new store.
#[derive(Clone, Debug)]
pub struct CreateParams {
    /// Bytes for volumes.
    pub size_bytes: u64,
    /// Bytes of the log; chosen from the size when not given.
    pub log_bytes: Option<u64>,
    /// Bytes of a log track; chosen from the log's size when not given.
    pub track_bytes: Option<u32>,
    /// Bytes of a home block.
    pub block_size: u32,
    /// How the heads of the log's drives are followed; `None` for flash and files.
    pub head: Option<HeadParams>,
    /// Where blocks live at home.
    pub home: HomeParams,
    /// Identity of the store.
    pub store: Uuid,
    /// Now, in seconds since 1970.
    pub created_unix_s: u64,
}

impl CreateParams {
    /// An empty store for `size_bytes` of volumes, with blocks of 4 KiB in the layout `overwrite`.
    pub fn new(size_bytes: u64, store: Uuid) -> Self {
        Self {
            size_bytes,
            log_bytes: None,
            track_bytes: None,
            block_size: 4096,
            head: None,
            home: HomeParams::default(),
            store,
            created_unix_s: 0,
        }
    }
}

/// A member before its place is planned.
#[derive(Clone, Debug)]
pub struct MemberSpace {
    /// Its roles.
    pub roles: Roles,
    /// Bytes that it has; `None` for a file that takes the size it needs.
    pub available_bytes: Option<u64>,
    /// Its identity.
    pub uuid: Uuid,
    /// How later openings find it; empty for the primary member.
    pub path: String,
}

impl MemberSpace {
    /// A file that is the only member of its store.
    pub fn alone(uuid: Uuid) -> Self {
        let (log, data) = (true, true);
        Self {
            roles: Roles { log, data },
            available_bytes: None,
            uuid,
            path: String::new(),
        }
    }
}

/// How the heads of the log's drives are followed.
#[derive(Clone, Debug)]
pub struct HeadParams {
    /// The predictor; not [`HeadKind::Sequential`].
    pub kind: HeadKind,
    /// Bytes of a log sector: the smallest that the drives write without reading around it.
    pub sector_bytes: u16,
    /// What is known of each log drive, in the order of the members with the log.
    pub drives: Vec<LogDrive>,
}

/// What is known of a drive of the log.
#[derive(Clone, Debug, Default)]
pub struct LogDrive {
    /// Its physical tracks; without them the log takes stripes of about that length.
    pub tracks: Option<TrackMap>,
    /// Time of a revolution in picoseconds; 0 when it is not known.
    pub period_ps: u64,
    /// How far the platter turns between two requests; the formula needs it.
    pub deltas: Option<Deltas>,
    /// Time to get to the next track, in nanoseconds.
    pub switch_ns: u64,
    /// The table of a profile; the mimic needs it.
    pub table: Option<SkipTable>,
}
