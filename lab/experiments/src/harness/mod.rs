//! Parts that experiments share: a drive with one user, logs of several kinds, and loads.

mod alternating;
mod cpu;
mod floor;
mod grid;
mod heads;
mod in_place;
#[cfg(feature = "sqlite")]
mod in_place_files;
mod layouts;
mod load;
mod machine;
mod mimic_log;
mod paired;
mod profiling;
mod requests;
mod rig;
mod sequential;
#[cfg(feature = "sqlite")]
mod sqlite_load;
mod store;
mod times;
mod tpcb;
mod tracks;
mod trail_log;
mod volume_device;

pub use alternating::Alternating;
pub use cpu::{median, thread_cpu_ns};
pub use floor::{Before, Floor};
pub use grid::{Case, Grid, Store, Variant};
pub use heads::{formula, online};
pub use in_place::in_place;
#[cfg(feature = "sqlite")]
pub use in_place_files::{VFS as IN_PLACE_VFS, account, mount};
pub use layouts::{
    INTERVAL, LAYOUTS, OLTP_WRITES, OURS, PAPER, normalised_row, normalised_table, oltp,
    paper_drive, reads, scattered, service_ms, steady, steady_by, updates, within,
};
pub use load::{Arrivals, Load, numbered_block};
pub use machine::{Host, Machine, Meter, Spent as DriveSpent};
pub use mimic_log::{Lost, Writes, write_log};
pub use paired::Mean;
pub use profiling::{
    inner_region, one_size, paper_grid, profile, region, skip_response, track_sectors,
};
pub use requests::{Oltp, Replay, Requests};
pub use rig::Rig;
pub use sequential::{group_commit, journal, sequential};
#[cfg(feature = "sqlite")]
pub use sqlite_load::{Session, Spent, Transaction};
pub use store::{STRIPE_BYTES, SimStore, StoreShape};
pub use times::{Times, ms};
pub use tpcb::TpcB;
pub use tracks::{all_tracks, tracks_within, turn};
pub use trail_log::{Moves, TrailLog};
pub use volume_device::VolumeDevice;
