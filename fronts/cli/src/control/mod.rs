//! The control socket: other commands use it to talk to the server of a store.
//!
//! A request is one line of JSON, and its answer is one line or more: `protocol.rs` shows them. The server's end is in
//! `serve`.

mod archive;
mod change;
mod client;
mod describe;
mod mount_stats;
mod protocol;
mod space;
mod trace;
mod usage;
mod wire_stats;

pub use archive::ArchiveStart;
pub use change::{change_volumes, check_change, create_volume, room_text, users_text};
pub use client::Client;
pub use describe::{carries_text, head_text, layout_text};
pub use mount_stats::{MountStats, OperationStats, UnitStats};
pub use protocol::{
    Answer, ArrayInfo, ArrayMemberInfo, DamagedGroup, Event, EventLine, HotBlocks, Info, LogInfo,
    Mark, MarksInfo, MemberInfo, REQUEST_MAX, Request, RequestLine, ScrubResult, SpaceInfo,
    VERSION, VolumeInfo, Volumes, Waited,
};
pub use space::used_bytes;
pub use trace::{TraceBatch, TraceOp, TraceRequest, TraceStart};
pub use usage::Counted;
#[cfg(test)]
pub use wire_stats::LatencyStats;
pub use wire_stats::{
    CommandStats, MemberStats, NbdStats, RecentStats, RequestStats, ServerStats, SpaceStats,
    UblkStats, UnderWayStats, VhostStats,
};
