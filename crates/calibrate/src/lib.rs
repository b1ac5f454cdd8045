//! What a drive is like, seen only through timed reads and writes.

mod arm;
mod cache;
mod drive_file;
mod error;
mod flash;
mod journal;
mod layout;
mod least;
mod map;
mod probe;
mod profile;
mod run;
mod spindle;
mod survey;
mod tracks;

pub use arm::{Arm, Commands};
pub use cache::Memory;
pub use drive_file::drive_file;
pub use error::Error;
pub use flash::{Flash, FlashWrites};
pub use journal::{Journal, replace};
pub use layout::{Layout, Zone};
pub use probe::{Hooks, Method, Progress};
pub use profile::{ProfilePlan, short_grid, take_profile};
pub use run::{Disk, Findings, Kind, LEAST_SECTORS, Options, calibrate};
pub use spindle::Spindle;
pub use tracks::{deltas, track_map, turn};
