//! The messages of the control socket.
//!
//! ```text
//! -> {"tonearm":1,"request":{"command":"scrub"}}
//! <- {"tonearm":1,"event":{"progress":{"done":10,"total":80}}}
//! <- {"tonearm":1,"event":{"done":{"scrub":{...}}}}     or     {"tonearm":1,"event":{"failed":"why"}}
//! ```
//!
//! Each request gets any number of `progress` and then one `done` or `failed`. Fields may be added within a version.
//! Readers ignore fields that they do not know.

use super::archive::ArchiveStart;
use super::trace::{TraceBatch, TraceStart};
use super::wire_stats::ServerStats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the protocol.
pub const VERSION: u32 = 1;
/// Longest line of a request, in bytes.
pub const REQUEST_MAX: usize = 64 << 10;
/// Longest line of an answer, in bytes.
pub const ANSWER_MAX: usize = 64 << 20;

/// A request as it is sent.
#[derive(Serialize, Deserialize, Debug)]
pub struct RequestLine {
    /// Version of the sender.
    pub tonearm: u32,
    /// The request.
    pub request: Request,
}

/// A part of an answer as it is sent.
#[derive(Serialize, Deserialize, Debug)]
pub struct EventLine {
    /// Version of the sender.
    pub tonearm: u32,
    /// The part.
    pub event: Event,
}

/// A request to a server.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Request {
    /// All counters.
    Stats,
    /// A description of the store. A count of data ends early when the client disconnects.
    Info {
        /// Count what holds data.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        used: bool,
    },
    /// The volumes.
    VolumeList,
    /// Make a volume.
    VolumeCreate {
        /// Its name.
        name: String,
        /// Its size.
        size_bytes: u64,
    },
    /// Delete a volume.
    VolumeDelete {
        /// Its name.
        name: String,
        /// Also below clients that use it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        force: bool,
    },
    /// Change a volume's size.
    VolumeResize {
        /// Its name.
        name: String,
        /// Its new size.
        size_bytes: u64,
        /// The data beyond a smaller size may be lost.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        shrink: bool,
        /// Make it smaller also below clients that use it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        force: bool,
    },
    /// Make a volume read-only or writable.
    VolumeSet {
        /// Its name.
        name: String,
        /// It refuses changes.
        read_only: bool,
    },
    /// Make the store larger.
    Grow {
        /// At least by so much.
        bytes: u64,
    },
    /// Verify all blocks, and the parity of an array, and repair what the array can compute. The scrub ends early when the
    /// client disconnects.
    Scrub {
        /// Only look.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        no_repair: bool,
        /// Verify at most this many bytes a second; 0 means no limit.
        #[serde(default, skip_serializing_if = "is_no_limit")]
        bytes_per_second: u64,
    },
    /// End the running scrub. Its client gets the result up to then.
    ScrubCancel,
    /// Put a new file or device in the place of the array's missing member.
    MemberReplace {
        /// Its full path.
        path: String,
        /// Overwrite an existing file, or use a block device.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        force: bool,
    },
    /// Rebuild the replacement of the array's missing member. It goes on when the client disconnects.
    MemberRebuild {
        /// At most this many bytes of the replacement a second; 0 means no limit.
        bytes_per_second: u64,
        /// Give up sectors of the other members that cannot be read, and go on.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        skip_unreadable: bool,
    },
    /// Bring everything that is committed home.
    Checkpoint,
    /// Wait until a commit has reached a mark.
    Wait {
        /// The mark.
        mark: Mark,
        /// LSN of the commit.
        lsn: u64,
        /// Give up after this time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    },
    /// Begin to record requests. The recording ends with the connection. One can run at a time.
    TraceStart {
        /// The only volume to record; all if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        volume: Option<String>,
    },
    /// Take what this connection has recorded since the last time.
    TraceTake,
    /// As `TraceTake`, and end the recording.
    TraceStop,
    /// Begin to archive the store.
    ArchiveStart(ArchiveStart),
    /// Archive what is durable, and end the archive.
    ArchiveStop,
    /// How far the archive is.
    ArchiveStatus,
    /// Go on with keys, region and endpoint of these variables, and read files with keys again.
    ArchiveReload {
        /// `HOME` and those that begin with `AWS_`.
        variables: BTreeMap<String, String>,
    },
    /// Give the last commit a name in the archive.
    Mark {
        /// The name.
        name: String,
    },
    /// Shut down in order.
    Shutdown,
}

/// What a commit can have reached.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// It survives any crash.
    Durable,
    /// It is in the archive.
    Archived,
}

fn is_no_limit(bytes_per_second: &u64) -> bool {
    *bytes_per_second == 0
}

/// A part of an answer.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The progress of the request.
    Progress {
        /// Units of work that are done.
        done: u64,
        /// All units of work.
        total: u64,
    },
    /// The end.
    Done(Answer),
    /// The end, with the reason.
    Failed(String),
}

/// The result of a request.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The answer to `Stats`.
    Stats(Box<ServerStats>),
    /// The answer to `Info`.
    Info(Box<Info>),
    /// The answer to `Grow` and all requests about volumes: the volumes after it.
    Volumes(Volumes),
    /// The answer to `Scrub`.
    Scrub(ScrubResult),
    /// The answer to `ScrubCancel`: the scrub ends with its present group.
    ScrubCancelled,
    /// The answer to `MemberReplace`: the new member is in its place, and has no data yet.
    MemberReplaced {
        /// Index of the member.
        index: usize,
        /// Path of the member that was replaced.
        old: String,
    },
    /// The answer to `MemberRebuild`: all members of the array have all of its data.
    MemberRebuilt,
    /// The answer to `Checkpoint`.
    Checkpoint {
        /// The last commit that was to be written back.
        lsn: u64,
        /// First commit that a recovery would replay.
        replayed_from: u64,
    },
    /// The answer to `Wait`.
    Waited {
        /// How the wait ended.
        outcome: Waited,
        /// The marks then.
        marks: MarksInfo,
    },
    /// The answer to `TraceStart`.
    TraceStarted(TraceStart),
    /// The answer to `TraceTake` and `TraceStop`.
    Trace(TraceBatch),
    /// The answer to requests about the archive.
    Archive(tonearm_engine::ArchiveInfo),
    /// The answer to `Mark`.
    Marked {
        /// The commit that has the name.
        lsn: u64,
    },
    /// The answer to `Shutdown`: it has begun.
    ShuttingDown,
}

/// How a wait ended.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Waited {
    /// The commit has reached the mark.
    Reached,
    /// The time was over before.
    TimedOut,
    /// No commit has the number yet.
    NotCommitted,
}

/// How far the commits of a store have come, as LSNs.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct MarksInfo {
    /// Last commit made.
    pub appended: u64,
    /// Last commit that the log device has said done.
    pub flushed: u64,
    /// Last durable commit.
    pub durable: u64,
    /// Last archived commit; 0 without an archive.
    #[serde(default)]
    pub archived: u64,
    /// Number of the opening. After a crash, commits of the next opening may get numbers again.
    pub epoch: u64,
}

/// A description of a store.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Info {
    /// Identity of the store.
    pub store: String,
    /// Version of the format on disk.
    pub format_version: u32,
    /// `served`, `clean` or `crashed`.
    pub state: String,
    /// Process that has it open.
    pub pid: Option<u32>,
    /// `overwrite`, `segments`, `wolf` or `hylog`; empty when an older server answers.
    #[serde(default)]
    pub layout: String,
    /// Bytes for volumes.
    pub size_bytes: u64,
    /// Bytes that nobody has reserved. These, and what `volumes`, `files` and `units` have reserved, are `size_bytes`.
    pub free_bytes: u64,
    /// Space of the files and lists, with their metadata.
    #[serde(default)]
    pub files: SpaceInfo,
    /// Space of open recovery units.
    #[serde(default)]
    pub units: SpaceInfo,
    /// The result of a count of data, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<CountedInfo>,
    /// Bytes that its files take in their file systems, with the log; none where a member is a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Bytes of a block.
    pub block_size: u32,
    /// Seconds since 1970.
    pub created_unix_s: u64,
    /// Number of the opening.
    pub epoch: u64,
    /// Its files and devices.
    pub members: Vec<MemberInfo>,
    /// The log.
    pub log: LogInfo,
    /// Its volumes, by name.
    pub volumes: Vec<VolumeInfo>,
    /// The array that has its blocks, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayInfo>,
    /// What a server knows of hot blocks, in the layouts `wolf` and `hylog`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot: Option<HotBlocks>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// Space in a store.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SpaceInfo {
    /// Bytes that nobody else can get.
    #[serde(default)]
    pub reserved_bytes: u64,
    /// Those of them that hold data, if they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
}

/// The result of a count of data.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountedInfo {
    /// Bytes of the store that hold data.
    pub data_bytes: u64,
    /// Commits that were made during the count. Each of them is counted, or is not.
    pub commits_meanwhile: u64,
}

/// The last decision which blocks are hot: those that are appended.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct HotBlocks {
    /// Hot blocks, in percent of those with content.
    pub blocks_percent: f64,
    /// Writes of hot blocks, in percent of all.
    pub writes_percent: f64,
    /// Recent writes from which on a block is hot.
    pub threshold: u64,
    /// Expected cost of a write; a block that is appended without cleaning costs 1.
    pub write_cost: f64,
    /// Cost of a write if all blocks were overwritten in place: the segment I/O efficiency E.
    pub efficiency: f64,
    /// Blocks overwritten in place since the store was opened.
    pub overwritten_blocks: u64,
}

/// The array of a store.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct ArrayInfo {
    /// `raid0`, `raid5`.
    pub level: String,
    /// Bytes of a stripe unit.
    pub stripe_bytes: u64,
    /// A member does not have all of the data: a second failure loses it.
    pub degraded: bool,
    /// Why the array cannot be used any more: more members have failed than it can do without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// Its members, in their order.
    pub members: Vec<ArrayMemberInfo>,
}

/// A member of an array.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct ArrayMemberInfo {
    /// Where it is, or was.
    pub path: String,
    /// `in use`, `missing`, `stale`, `rebuilding`.
    pub state: String,
    /// Percent of its data that is there.
    pub rebuilt_percent: f64,
    /// Why it is not in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// A file or device of a store.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct MemberInfo {
    /// Where it is.
    pub path: String,
    /// Its identity.
    pub uuid: String,
    /// `log and blocks`, `log`, `blocks`.
    pub carries: String,
    /// Bytes of the place for blocks, with their checksums.
    pub data_bytes: u64,
}

/// The state of a log.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct LogInfo {
    /// Its size.
    pub size_bytes: u64,
    /// Bytes of a track.
    pub track_bytes: u32,
    /// How the place of the next write is found.
    pub head: String,
    /// Bytes in use, where they are known.
    pub used_bytes: Option<u64>,
    /// Commits that are not at home, where they are known.
    pub commits: Option<u64>,
    /// Blocks that are not at home, where they are known.
    pub blocks: Option<u64>,
    /// A note for the user.
    pub state: String,
}

/// A volume.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct VolumeInfo {
    /// Its name.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// Its space.
    #[serde(flatten)]
    pub space: SpaceInfo,
    /// Its identity.
    pub uuid: String,
    /// It refuses writes.
    pub read_only: bool,
    /// Seconds since 1970.
    pub created_unix_s: u64,
    /// Clients that use it: connections of NBD, virtual machines, devices of the kernel.
    #[serde(default)]
    pub clients: u64,
    /// Each of them, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
}

/// All volumes.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Volumes {
    /// By name.
    pub volumes: Vec<VolumeInfo>,
    /// Bytes that no volume has.
    pub free_bytes: u64,
    /// Bytes that the store's files take in their file systems, with the log; none where a member is a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
}

/// What a scrub has found.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct ScrubResult {
    /// Groups looked at.
    pub groups: u64,
    /// Groups that there are.
    #[serde(default)]
    pub groups_total: u64,
    /// It was ended before it had looked at all of them.
    #[serde(default)]
    pub cancelled: bool,
    /// Blocks verified.
    pub blocks: u64,
    /// Groups with damage that is left.
    pub damaged: Vec<DamagedGroup>,
    /// Blocks, tables and other places that were damaged, and that the array has repaired.
    #[serde(default)]
    pub repaired: u64,
    /// Stripes whose parity was wrong and was made right.
    #[serde(default)]
    pub parity_repaired: u64,
    /// Stripes whose parity is wrong.
    #[serde(default)]
    pub parity_damaged: u64,
    /// The array that has the blocks, if there is one, at the end of the scrub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayInfo>,
}

/// A group with damage.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct DamagedGroup {
    /// Its number.
    pub group: u64,
    /// The member that it lies on.
    pub member: String,
    /// Where it begins there, in bytes.
    pub offset: u64,
    /// Its table is lost: none of its blocks can be verified.
    pub table_lost: bool,
    /// Each damage, in words.
    pub damages: Vec<String>,
}

#[cfg(test)]
#[path = "protocol_test.rs"]
mod protocol_test;
